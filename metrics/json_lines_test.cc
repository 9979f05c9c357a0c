#include "ding_worker/metrics/json_lines.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/metrics/sink_registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JsonLinesTest : public testing::Test {
 protected:
  JsonLinesTest() : clock_(absl::FromUnixMillis(1714550400250)) {
    const std::string folder = testing::TempDir();
    options_.path = JoinPath(folder, testing::UnitTest::GetInstance()->current_test_info()->name() +
                                         std::string(".jsonl"));
    options_.clock = &clock_;
    EXPECT_THAT(RemoveRecursively(options_.path), IsOk());
  }
  std::vector<std::string> Lines() const {
    const absl::StatusOr<std::string> text = ReadFile(options_.path);
    EXPECT_THAT(text.status(), IsOk());
    return absl::StrSplit(*text, '\n', absl::SkipEmpty());
  }

  SimulatedClock clock_;
  JsonLinesSink::Options options_;
};

TEST_F(JsonLinesTest, WritesEveryKindOfValueAsOneObject) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, JsonLinesSink::Create(options_));
  sink->BeginRun({"cartpole", {{"policy.learn.batch_size", "64"}}});
  sink->Scalar("a_step/x", 120, 0.0125);
  sink->Scalar("a_step/x", 121, std::numeric_limits<double>::infinity());
  sink->Histogram("a_step/h", 122, {1.0f, 3.0f, std::numeric_limits<float>::quiet_NaN()});
  sink->Histogram("a_step/h", 123, {});
  sink->Text("t \"quoted\"", 0, "two\nlines\xff");
  sink->EndRun(RunEnd::kInterrupted, 124, {{"final_eval", 195.5}});
  ASSERT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(
      Lines(),
      ElementsAre(
          R"({"time":1714550400.250,"begin":"cartpole","hyperparameters":{"policy.learn.batch_size":"64"}})",
          R"({"time":1714550400.250,"tag":"a_step/x","step":120,"value":0.0125})",
          R"({"time":1714550400.250,"tag":"a_step/x","step":121,"value":null})",
          R"({"time":1714550400.250,"tag":"a_step/h","step":122,"count":2,"mean":2.0,"std":1.0,"min":1.0,"max":3.0,"non_finite":1})",
          R"({"time":1714550400.250,"tag":"t \"quoted\"","step":0,"text":"two\nlines�"})",
          R"({"time":1714550400.250,"end":"interrupted","step":124,"results":{"final_eval":195.5}})"));
}

TEST_F(JsonLinesTest, NamesAreUtf8AndDiffer) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, JsonLinesSink::Create(options_));
  sink->BeginRun({"br_\xE5\x90\x8D\xFF", {{"exp_name", "br_\xE5\x90\x8D"}}});
  for (const char* tag : {"\xE5\xA5\x96", "\xFF", "\xFE"}) sink->Scalar(tag, 0, 1);
  ASSERT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(
      Lines(),
      ElementsAre(
          "{\"time\":1714550400.250,\"begin\":\"br_\xE5\x90\x8D\\\\xFF\",\"hyperparameters\":{"
          "\"exp_name\":\"br_\xE5\x90\x8D\"}}",
          "{\"time\":1714550400.250,\"tag\":\"\xE5\xA5\x96\",\"step\":0,\"value\":1.0}",
          R"({"time":1714550400.250,"tag":"\\xFF","step":0,"value":1.0})",
          R"({"time":1714550400.250,"tag":"\\xFE","step":0,"value":1.0})"));
}

TEST_F(JsonLinesTest, AnExistingFileIsContinuedAndATornLineCutOff) {
  ASSERT_THAT(WriteFileAtomically(options_.path, "{\"tag\":\"old\"}\n{\"ta"), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(auto sink, JsonLinesSink::Create(options_));
  sink->Scalar("new", 1, 2);
  sink.reset();
  EXPECT_THAT(Lines(), ElementsAre("{\"tag\":\"old\"}", HasSubstr("\"tag\":\"new\"")));
}

TEST_F(JsonLinesTest, AFullDiskIsAnErrorOfFlush) {
  options_.path = "/dev/full";
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, JsonLinesSink::Create(options_));
  sink->Scalar("a", 0, 0);
  EXPECT_THAT(sink->Flush(), IsError(absl::StatusCode::kResourceExhausted, "/dev/full"));
}

TEST(JsonLinesFactoryTest, MakesAFileForTheProcess) {
  const std::string folder = JoinPath(testing::TempDir(), "json_lines_factory");
  ASSERT_THAT(RemoveRecursively(folder), IsOk());
  SinkConfig config;
  config.set_type("json_lines");
  DING_ASSERT_OK_AND_ASSIGN(auto sink, create_sink(config, {folder, "learner-0"}));
  sink->Scalar("a", 1, 2);
  ASSERT_THAT(sink->Flush(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string text,
                            ReadFile(JoinPath(folder, "log/learner-0.jsonl")));
  EXPECT_THAT(text, HasSubstr("\"value\":2"));
}

}  // namespace
}  // namespace ding
