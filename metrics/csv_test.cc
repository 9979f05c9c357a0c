#include "ding_worker/metrics/csv.h"

#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class CsvTest : public testing::Test {
 protected:
  CsvTest() : clock_(absl::UnixEpoch() + absl::Milliseconds(1700000000250)) {
    options_.path = JoinPath(
        testing::TempDir(),
        absl::StrCat(testing::UnitTest::GetInstance()->current_test_info()->name(), ".csv"));
    EXPECT_THAT(RemoveRecursively(options_.path), IsOk());
    options_.clock = &clock_;
  }

  std::unique_ptr<CsvSink> Open() {
    auto sink = CsvSink::Create(options_);
    EXPECT_THAT(sink, IsOk());
    return *std::move(sink);
  }
  std::vector<std::string> Lines() const {
    const std::string content = ReadFile(options_.path).value_or("no file");
    return absl::StrSplit(content, '\n');
  }

  SimulatedClock clock_;
  CsvSink::Options options_;
};

TEST_F(CsvTest, WritesOneLineForAValue) {
  const auto sink = Open();
  sink->Scalar("learner_iter/loss", 7, 0.1);
  clock_.Advance(absl::Seconds(1));
  sink->Scalar("learner_iter/loss", -1, 1e300);
  sink->Text("config", 0, "not, here");
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(Lines(),
              ElementsAre("step,tag,value,wall_time", "7,learner_iter/loss,0.1,1700000000.250",
                          "-1,learner_iter/loss,1e+300,1700000001.250", ""));
}

TEST_F(CsvTest, QuotesTagsIfNeeded) {
  const auto sink = Open();
  for (const char* tag : {"a,b", "say \"q\"", "two\nlines", "a b;c"}) sink->Scalar(tag, 0, 1);
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(Lines(), ElementsAre("step,tag,value,wall_time", "0,\"a,b\",1,1700000000.250",
                                   "0,\"say \"\"q\"\"\",1,1700000000.250", "0,\"two",
                                   "lines\",1,1700000000.250", "0,a b;c,1,1700000000.250", ""));
}

TEST_F(CsvTest, TagsAreUtf8AndDiffer) {
  const auto sink = Open();
  for (const char* tag : {"\xE5\xA5\x96", "\xFF", "\xFE", "a\tb", "a b", "A b"}) {
    sink->Scalar(tag, 0, 1);
  }
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(Lines(), ElementsAre("step,tag,value,wall_time", "0,\xE5\xA5\x96,1,1700000000.250",
                                   "0,\\xFF,1,1700000000.250", "0,\\xFE,1,1700000000.250",
                                   "0,a\\x09b,1,1700000000.250", "0,a b,1,1700000000.250",
                                   "0,A b,1,1700000000.250", ""));
}

TEST_F(CsvTest, ValuesRoundTrip) {
  const auto sink = Open();
  const std::vector<double> values = {1.0 / 3, 5e-324, 12345678901234567.0, -0.0};
  for (const double value : values) sink->Scalar("v", 0, value);
  EXPECT_THAT(sink->Flush(), IsOk());
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(values.size() + 2));
  for (size_t i = 0; i < values.size(); ++i) {
    const std::vector<std::string> fields = absl::StrSplit(lines[i + 1], ',');
    EXPECT_EQ(std::strtod(fields[2].c_str(), nullptr), values[i]) << lines[i + 1];
  }
}

TEST_F(CsvTest, WritesNonFiniteValuesAsPlotToolsReadThem) {
  const auto sink = Open();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {kNan, -kNan, kInfinity, -kInfinity}) sink->Scalar("v", 0, value);
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(Lines(),
              ElementsAre("step,tag,value,wall_time", HasSubstr(",nan,"), HasSubstr(",nan,"),
                          HasSubstr(",inf,"), HasSubstr(",-inf,"), ""));
}

TEST_F(CsvTest, WritesTheStatisticsOfAHistogram) {
  const auto sink = Open();
  sink->Histogram("empty", 1, {});
  sink->Histogram("q", 1, {1, 3, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(Lines(), ElementsAre("step,tag,value,wall_time", "1,q/count,2,1700000000.250",
                                   "1,q/mean,2,1700000000.250", "1,q/std,1,1700000000.250",
                                   "1,q/min,1,1700000000.250", "1,q/max,3,1700000000.250",
                                   "1,q/non_finite,1,1700000000.250", ""));
}

TEST_F(CsvTest, AResumedRunContinuesTheFile) {
  Open()->Scalar("a", 1, 1);
  DING_ASSERT_OK_AND_ASSIGN(const std::string before, ReadFile(options_.path));
  ASSERT_THAT(WriteFileAtomically(options_.path, absl::StrCat(before, "2,a,0.")), IsOk());
  Open()->Scalar("a", 2, 2);
  EXPECT_THAT(Lines(), ElementsAre("step,tag,value,wall_time", "1,a,1,1700000000.250",
                                   "2,a,2,1700000000.250", ""));
}

TEST_F(CsvTest, FlushReturnsAFullDiskAndWritingContinues) {
  options_.path = "/dev/full";
  const auto sink = Open();
  for (int round = 0; round < 2; ++round) {
    sink->Scalar("a", 0, 0);
    EXPECT_THAT(sink->Flush(), IsError(absl::StatusCode::kResourceExhausted, "'/dev/full'"));
  }
}

TEST_F(CsvTest, LinesOfSeveralThreadsStayWhole) {
  constexpr int kThreads = 4, kLines = 500;
  options_.clock = Clock::Real();
  {
    const auto sink = Open();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&sink] {
        for (int i = 0; i < kLines; ++i) sink->Scalar("tag", i, 0.5);
        EXPECT_THAT(sink->Flush(), IsOk());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(kThreads * kLines + 2));
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    ASSERT_THAT(lines[i], testing::MatchesRegex("[0-9]+,tag,0\\.5,[0-9]+\\.[0-9]+"));
  }
}

}  // namespace
}  // namespace ding
