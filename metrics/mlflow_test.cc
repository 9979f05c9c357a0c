#include "ding_worker/metrics/mlflow.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/mlflow.pb.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/metrics/sink_registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class MlflowTest : public testing::Test {
 protected:
  MlflowTest() : clock_(absl::FromUnixMillis(1714550400250)) {
    run_ =
        JoinPath(testing::TempDir(), testing::UnitTest::GetInstance()->current_test_info()->name());
    EXPECT_THAT(RemoveRecursively(run_), IsOk());
    EXPECT_THAT(CreateDirectories(run_), IsOk());
    options_.folder = JoinPath(run_, "mlruns");
    options_.experiment = "it's an experiment";
    options_.run_name = "run 1";
    options_.run_id_file = JoinPath(run_, "id.txt");
    options_.clock = &clock_;
  }
  static std::string Content(const std::string& folder, const std::string& file) {
    const absl::StatusOr<std::string> content = ReadFile(JoinPath(folder, file));
    EXPECT_THAT(content.status(), IsOk());
    return content.ok() ? *content : "";
  }

  SimulatedClock clock_;
  std::string run_;
  MlflowSink::Options options_;
};

TEST_F(MlflowTest, WritesWhatTheFileStoreReads) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
  const std::string id = Content(run_, "id.txt").substr(0, 32);
  const std::string& folder = sink->run_folder();
  EXPECT_EQ(Basename(folder), id);
  EXPECT_THAT(Content(folder, "meta.yaml"),
              AllOf(HasSubstr("status: 1\n"), HasSubstr("end_time: null\n"),
                    HasSubstr("run_name: 'run 1'\n"), HasSubstr("run_id: '" + id + "'\n"),
                    HasSubstr("start_time: 1714550400250\n")));
  EXPECT_THAT(Content(folder, "../meta.yaml"), HasSubstr("name: 'it''s an experiment'\n"));
  sink->BeginRun({"name", {{"policy.hook[0].freq", "64"}}});
  EXPECT_EQ(Content(folder, "params/policy.hook_0_.freq"), "64");
  sink->Scalar("learner_step/loss", 8, 0.5);
  clock_.Advance(absl::Milliseconds(1));
  sink->Scalar("learner_step/loss", 16, 0.25);
  sink->Scalar("../outside", 16, 1);
  sink->EndRun(RunEnd::kFinished, 24, {{"final_eval", 195.5}});
  ASSERT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(Content(folder, "metrics/learner_step/loss"),
            "1714550400250 0.5 8\n1714550400251 0.25 16\n");
  EXPECT_EQ(Content(folder, "metrics/result/final_eval"), "1714550400251 195.5 24\n");
  EXPECT_EQ(Content(folder, "metrics/__/outside"), "1714550400251 1 16\n");
  EXPECT_THAT(Content(folder, "meta.yaml"),
              AllOf(HasSubstr("status: 3\n"), HasSubstr("end_time: 1714550400251\n")));
}

TEST_F(MlflowTest, AResumedRunIsTheSameRunAndAnotherOneIsNot) {
  std::string folder;
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
    folder = sink->run_folder();
    sink->Scalar("a", 1, 1);
    sink->EndRun(RunEnd::kInterrupted, 1, {});
  }
  EXPECT_THAT(Content(folder, "meta.yaml"), HasSubstr("status: 5\n"));
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
    EXPECT_EQ(sink->run_folder(), folder);
    sink->Scalar("a", 2, 1);
  }
  EXPECT_EQ(Content(folder, "metrics/a"), "1714550400250 1 1\n1714550400250 1 2\n");
  options_.run_id_file = JoinPath(run_, "other.txt");
  clock_.Advance(absl::Nanoseconds(1));
  DING_ASSERT_OK_AND_ASSIGN(const auto other, MlflowSink::Create(options_));
  EXPECT_NE(other->run_folder(), folder);
  DING_ASSERT_OK_AND_ASSIGN(const auto experiments, ListDirectory(options_.folder));
  EXPECT_THAT(experiments, SizeIs(1)) << "both runs are of one experiment";
}

TEST_F(MlflowTest, AMetricThatCannotBeAFileIsAnErrorOfFlush) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
  sink->Scalar("a", 1, 1);
  sink->Scalar("a/b", 1, 1);
  sink->Scalar("a/b", 2, 1);
  EXPECT_FALSE(sink->Flush().ok());
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(Content(sink->run_folder(), "metrics/a"), "1714550400250 1 1\n");
}

TEST_F(MlflowTest, RefusesAnIdFileOfSomethingElse) {
  ASSERT_THAT(WriteFileAtomically(options_.run_id_file, "../../elsewhere"), IsOk());
  EXPECT_THAT(MlflowSink::Create(options_).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("id.txt")));
}

TEST(MlflowFactoryTest, WritesBesideTheFolderOfTheRun) {
  const std::string runs = JoinPath(testing::TempDir(), "mlflow_factory");
  ASSERT_THAT(RemoveRecursively(runs), IsOk());
  SinkConfig config;
  config.set_type("mlflow");
  MlflowSinkParams params;
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(auto sink, create_sink(config, {JoinPath(runs, "run_1"), "serial"}));
  EXPECT_TRUE(IsDirectory(JoinPath(runs, "mlruns")));
  EXPECT_TRUE(PathExists(JoinPath(runs, "run_1/log/serial_mlflow_run_id.txt")));
  params.set_experiment("");
  config.mutable_params()->PackFrom(params);
  EXPECT_THAT(create_sink(config, {JoinPath(runs, "run_1"), "serial"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("experiment is empty")));
}

}  // namespace
}  // namespace ding
