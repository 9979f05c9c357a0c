#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/tasks/run_history.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Returns the config of a run that loads a checkpoint with these fields.
ExperimentConfig ConfigWith(const std::string& name,
                            const std::map<std::string, std::string>& fields) {
  const std::string path = absl::StrCat(testing::TempDir(), "/earlier_run_", name);
  EXPECT_THAT(WriteCheckpoint(path, {kCheckpointKind, fields}, {}), IsOk());
  ExperimentConfig config;
  LearnSection& learn = *config.mutable_policy()->mutable_learn();
  learn.set_resume_training(true);
  learn.mutable_learner()->mutable_hook()->set_load_ckpt_before_run(path);
  return config;
}

TEST(EarlierRunTest, GoesOnFromTheStepsOfTheCheckpoint) {
  ExperimentConfig config = ConfigWith("steps", {{"env_step", "1234"}});
  EXPECT_EQ(FirstEnvStep(config, nullptr).value(), 1234);
  config.mutable_policy()->mutable_learn()->set_resume_training(false);
  EXPECT_EQ(FirstEnvStep(config, nullptr).value(), 0);
  EXPECT_EQ(FirstEnvStep(ConfigWith("untrained", {{"env_step", "-1"}}), nullptr).value(), 0);
}

TEST(EarlierRunTest, WithoutACheckpointItBeginsAtZero) {
  ExperimentConfig config;
  config.mutable_policy()->mutable_learn()->set_resume_training(true);
  EXPECT_EQ(FirstEnvStep(config, nullptr).value(), 0);
}

TEST(EarlierRunTest, ACheckpointThatDoesNotSayIsRefused) {
  EXPECT_THAT(FirstEnvStep(ConfigWith("silent", {}), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("earlier_run_silent"), HasSubstr("resume_training"))));
  ExperimentConfig config = ConfigWith("gone", {});
  config.mutable_policy()
      ->mutable_learn()
      ->mutable_learner()
      ->mutable_hook()
      ->set_load_ckpt_before_run(absl::StrCat(testing::TempDir(), "/nowhere"));
  EXPECT_THAT(FirstEnvStep(config, nullptr), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace ding
