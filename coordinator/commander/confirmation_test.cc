// How SoloCommander confirms that a policy has reached the stop value, and which version it keeps
// as the best.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Contains;

PolicyVersion Version(uint64_t number, const std::string& policy_id) {
  PolicyVersion version;
  version.set_policy_id(policy_id);
  version.set_version(number);
  version.set_key("policy/" + std::to_string(number));
  return version;
}

class ConfirmationTest : public testing::Test {
 protected:
  ConfirmationTest() {
    deps_.clock = &clock_;
    deps_.metrics = metrics_;
    options_.stop_value = 20;
    options_.confirms = true;
    options_.eval_interval = 1;
    options_.collector_task_space = 2;
  }
  std::unique_ptr<SoloCommander> Make() {
    auto commander = SoloCommander::Create(options_, /*policy=*/nullptr, deps_).value();
    learner_ = *commander->GetLearnerTask();
    return commander;
  }
  // Returns the next task that evaluates. If a collecting task comes first, finishes that.
  CollectorTask NextEvaluation(SoloCommander* commander) {
    clock_.Advance(absl::Seconds(2));
    CollectorTask task = *commander->GetCollectorTask();
    if (!task.eval_flag()) {
      commander->FinishCollectorTask(task, Result({1}, 0));
      clock_.Advance(absl::Seconds(2));
      task = *commander->GetCollectorTask();
    }
    EXPECT_TRUE(task.eval_flag());
    return task;
  }
  static CollectorFinished Result(const std::vector<double>& returns, uint64_t version) {
    CollectorFinished info;
    info.set_collector_done(true);
    info.set_train_iter(10 * static_cast<int64_t>(version));
    info.set_policy_version(version);
    for (const double value : returns) info.add_episode_return(value);
    return info;
  }
  // Plays the task by this version, which the coordinator has put into it.
  bool Finish(SoloCommander* commander, CollectorTask task, uint64_t version,
              const std::vector<double>& returns) {
    if (!task.has_policy()) *task.mutable_policy() = Version(version, learner_.policy_id());
    return commander->FinishCollectorTask(task, Result(returns, version));
  }
  static uint64_t Best(const SoloCommander& commander) {
    RunStatus status;
    commander.AddStatus(&status);
    return status.best_policy_size() == 0 ? 0 : status.best_policy(0).policy().version();
  }

  SimulatedClock clock_;
  std::shared_ptr<RecordingSink> metrics_ = std::make_shared<RecordingSink>();
  ComponentDeps deps_;
  SoloCommander::Options options_;
  LearnerTask learner_;
};

TEST_F(ConfirmationTest, AnEvaluationThatReachesTheStopValueIsConfirmedByFreshEpisodes) {
  const auto commander = Make();
  EXPECT_FALSE(Finish(commander.get(), NextEvaluation(commander.get()), 3, {25, 25}));
  EXPECT_TRUE(commander->KeepsPolicy(Version(3, learner_.policy_id())));
  EXPECT_EQ(Best(*commander), 0u) << "the confirmation decides how good it is";
  const CollectorTask confirmation = *commander->GetCollectorTask();
  EXPECT_TRUE(confirmation.eval_flag());
  EXPECT_EQ(confirmation.confirmation(), 1);
  EXPECT_EQ(confirmation.policy().version(), 3u);
  // No other evaluation is given before the confirmation is over.
  clock_.Advance(absl::Seconds(5));
  EXPECT_FALSE(commander->GetCollectorTask()->eval_flag());
  EXPECT_TRUE(commander->WouldConverge(confirmation, Result({24, 26}, 3)));
  EXPECT_TRUE(Finish(commander.get(), confirmation, 3, {24, 26}));
  EXPECT_EQ(Best(*commander), 3u);
  EXPECT_EQ(commander->last_eval_value(), 25) << "of the evaluation";
  RunStatus status;
  commander->AddStatus(&status);
  EXPECT_EQ(status.confirmation().episodes(), 2);
  EXPECT_EQ(status.confirmation().mean(), 25);
  EXPECT_EQ(status.confirmation().standard_error(), 1);
  EXPECT_THAT(metrics_->ScalarTags(), Contains("confirmation_iter/reward_mean"));
}

TEST_F(ConfirmationTest, TheMeanMinusItsStandardErrorDecides) {
  const auto commander = Make();
  EXPECT_FALSE(Finish(commander.get(), NextEvaluation(commander.get()), 3, {25}));
  const CollectorTask confirmation = *commander->GetCollectorTask();
  // The mean is 22, and its standard error 3.
  EXPECT_FALSE(commander->WouldConverge(confirmation, Result({19, 25}, 3)));
  EXPECT_FALSE(Finish(commander.get(), confirmation, 3, {19, 25}));
  EXPECT_FALSE(commander->KeepsPolicy(Version(2, learner_.policy_id())));
  // The next confirmation has another number, and so other episodes.
  EXPECT_FALSE(Finish(commander.get(), NextEvaluation(commander.get()), 5, {25}));
  EXPECT_EQ(commander->GetCollectorTask()->confirmation(), 2);
}

TEST_F(ConfirmationTest, AFailedConfirmationIsGivenAgain) {
  const auto commander = Make();
  EXPECT_FALSE(Finish(commander.get(), NextEvaluation(commander.get()), 3, {25}));
  commander->NotifyFailCollectorTask(*commander->GetCollectorTask());
  const CollectorTask again = *commander->GetCollectorTask();
  EXPECT_TRUE(again.has_confirmation());
  EXPECT_EQ(again.policy().version(), 3u);
  EXPECT_TRUE(Finish(commander.get(), again, 3, {25, 25}));
}

TEST_F(ConfirmationTest, AConfirmationReplacesTheMeanOfItsEvaluation) {
  const auto commander = Make();
  EXPECT_FALSE(Finish(commander.get(), NextEvaluation(commander.get()), 1, {12}));
  EXPECT_EQ(Best(*commander), 1u);
  EXPECT_FALSE(Finish(commander.get(), NextEvaluation(commander.get()), 2, {11}));
  EXPECT_EQ(Best(*commander), 1u);
  EXPECT_TRUE(commander->KeepsPolicy(Version(1, learner_.policy_id())));
  EXPECT_FALSE(commander->KeepsPolicy(Version(2, learner_.policy_id())));
  // An evaluation with a lucky result, and its confirmation, which is worse.
  EXPECT_FALSE(Finish(commander.get(), NextEvaluation(commander.get()), 3, {25}));
  EXPECT_FALSE(Finish(commander.get(), *commander->GetCollectorTask(), 3, {13, 13}));
  EXPECT_EQ(Best(*commander), 3u);
  EXPECT_FALSE(Finish(commander.get(), NextEvaluation(commander.get()), 4, {14}));
  EXPECT_EQ(Best(*commander), 4u);
}

TEST_F(ConfirmationTest, AVersionThatIsNotKnownIsNotConfirmed) {
  const auto commander = Make();
  // The version that the task named was lost, and the collector played by another one.
  CollectorTask task = NextEvaluation(commander.get());
  *task.mutable_policy() = Version(3, learner_.policy_id());
  EXPECT_FALSE(commander->FinishCollectorTask(task, Result({25}, 4)));
  EXPECT_FALSE(commander->GetCollectorTask()->eval_flag());
  EXPECT_EQ(Best(*commander), 0u);
}

TEST_F(ConfirmationTest, GoesOnFromASavedState) {
  const auto commander = Make();
  EXPECT_FALSE(Finish(commander.get(), NextEvaluation(commander.get()), 1, {12}));
  EXPECT_FALSE(Finish(commander.get(), NextEvaluation(commander.get()), 3, {25}));
  EXPECT_FALSE(Finish(commander.get(), *commander->GetCollectorTask(), 3, {10, 12}));
  EXPECT_FALSE(Finish(commander.get(), NextEvaluation(commander.get()), 4, {25}));
  StateDict state;
  ASSERT_THAT(commander->SaveState(&state), IsOk());
  const auto successor = SoloCommander::Create(options_, nullptr, deps_).value();
  ASSERT_THAT(successor->LoadState(&state), IsOk());
  EXPECT_EQ(Best(*successor), 1u);
  EXPECT_TRUE(successor->KeepsPolicy(Version(4, learner_.policy_id())));
  const CollectorTask confirmation = *successor->GetCollectorTask();
  EXPECT_EQ(confirmation.confirmation(), 2);
  EXPECT_EQ(confirmation.policy().version(), 4u);
  RunStatus status;
  successor->AddStatus(&status);
  EXPECT_EQ(status.confirmation().mean(), 11);
  StateDict again;
  ASSERT_THAT(successor->SaveState(&again), IsOk());
}

TEST_F(ConfirmationTest, WithoutConfirmationsAnEvaluationIsEnough) {
  options_.confirms = false;
  const auto commander = Make();
  EXPECT_TRUE(Finish(commander.get(), NextEvaluation(commander.get()), 3, {25}));
  EXPECT_EQ(Best(*commander), 3u);
}

}  // namespace
}  // namespace ding
