#include "ding_worker/coordinator/commander/one_vs_one_commander.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/testing/fake_command_mode.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kMain[] = "naive_sp_player_default_0";

class OneVsOneCommanderTest : public testing::Test {
 protected:
  OneVsOneCommanderTest() {
    deps_.clock = &clock_;
    deps_.metrics = metrics_;
    options_.solo.collector_task_space = 2;
    options_.solo.eval_interval = 5;
    options_.solo.stop_value = 20;
  }
  void Make() { commander_ = OneVsOneCommander::Create(options_, &policy_, deps_).value(); }
  // Makes a commander whose learner has begun and whose first evaluation is over.
  void StartCollecting() {
    Make();
    learner_ = *commander_->GetLearnerTask();
    Publish(1);
    EXPECT_FALSE(Finish(*commander_->GetCollectorTask(), std::vector<double>(10, -1)));
  }
  void Publish(uint64_t number) {
    PolicyVersion version;
    version.set_policy_id(learner_.policy_id());
    version.set_version(number);
    version.set_key(Key(number));
    commander_->PolicyPublished(version);
  }
  std::string Key(uint64_t number) const { return absl::StrCat(learner_.policy_id(), "/", number); }
  bool Keeps(uint64_t number) const {
    PolicyVersion version;
    version.set_key(Key(number));
    return commander_->KeepsPolicy(version);
  }
  void Learn(int64_t step) {
    LearnerInfo info;
    info.set_learner_step(step);
    commander_->UpdateLearnerInfo(learner_, info);
  }
  // Finishes the task with episodes of these returns.
  bool Finish(const CollectorTask& task, const std::vector<double>& returns,
              int64_t train_iter = 5) {
    CollectorFinished info;
    info.set_collector_done(true);
    info.set_eval_flag(task.eval_flag());
    info.set_train_iter(train_iter);
    info.set_step_count(40);
    for (const double value : returns) {
      info.add_episode_return(value);
      info.add_game_result(value > 0   ? TaskGameResult::WINS
                           : value < 0 ? TaskGameResult::LOSSES
                                       : TaskGameResult::DRAWS);
    }
    return commander_->FinishCollectorTask(task, info);
  }
  CollectorTask NextEvaluation() {
    clock_.Advance(absl::Seconds(6));
    CollectorTask task = *commander_->GetCollectorTask();
    if (!task.eval_flag()) {  // One collecting task comes between two.
      commander_->NotifyFailCollectorTask(task);
      task = *commander_->GetCollectorTask();
    }
    EXPECT_TRUE(task.eval_flag());
    return task;
  }

  SimulatedClock clock_;
  std::shared_ptr<RecordingSink> metrics_ = std::make_shared<RecordingSink>();
  ComponentDeps deps_;
  FakeCommandMode policy_;
  OneVsOneCommander::Options options_;
  std::unique_ptr<OneVsOneCommander> commander_;
  LearnerTask learner_;
};

// Follows the steps of the test of the commander in DI-engine.
TEST_F(OneVsOneCommanderTest, LearnsEvaluatesCollectsAndConverges) {
  Make();
  EXPECT_EQ(commander_->collector_space().running(), 0);
  EXPECT_EQ(commander_->collector_space().max(), 2);
  EXPECT_EQ(commander_->learner_space().running(), 0);
  EXPECT_EQ(commander_->learner_space().max(), 1);
  EXPECT_FALSE(commander_->GetCollectorTask().has_value()) << "there is no learner's task yet";
  EXPECT_EQ(commander_->collector_space().running(), 0);

  learner_ = *commander_->GetLearnerTask();
  EXPECT_EQ(learner_.policy_id(), commander_->current_policy_id());
  EXPECT_EQ(learner_.buffer_id(), commander_->current_buffer_id());
  EXPECT_EQ(learner_.player_id(), kMain);
  EXPECT_FALSE(commander_->GetLearnerTask().has_value());

  const CollectorTask evaluation = *commander_->GetCollectorTask();
  EXPECT_TRUE(evaluation.eval_flag());
  EXPECT_THAT(evaluation.task_id(), HasSubstr("evaluator_task_"));
  ASSERT_EQ(evaluation.player_size(), 1);
  EXPECT_EQ(evaluation.player(0).player_id(), kMain);
  EXPECT_EQ(evaluation.eval_opponent(), "RULE_BASED");
  EXPECT_EQ(evaluation.policy_id(), learner_.policy_id());
  EXPECT_FALSE(Finish(evaluation, {-1, -1, -1, -1}));
  EXPECT_EQ(commander_->collector_space().running(), 0);
  EXPECT_EQ(commander_->last_eval_value(), -1);

  const CollectorTask collection = *commander_->GetCollectorTask();
  EXPECT_FALSE(collection.eval_flag());
  EXPECT_THAT(collection.task_id(), HasSubstr("collector_task_"));
  ASSERT_EQ(collection.player_size(), 2);
  for (const TaskPlayer& player : collection.player()) {
    EXPECT_EQ(player.player_id(), kMain);
    EXPECT_TRUE(player.update_policy());
    EXPECT_FALSE(player.has_policy()) << "the coordinator knows the newest";
  }
  ASSERT_EQ(collection.collect_setting_size(), 1);
  EXPECT_EQ(collection.collect_setting(0).name(), "eps");
  EXPECT_FALSE(Finish(collection, {1, -1}));
  EXPECT_EQ(commander_->total_collector_env_step(), 40);

  const CollectorTask last = NextEvaluation();
  EXPECT_TRUE(Finish(last, {20, 20, 20, 20}));
  EXPECT_TRUE(commander_->converged());
  EXPECT_FALSE(commander_->GetCollectorTask().has_value());
}

TEST_F(OneVsOneCommanderTest, FailedTasksFreeTheirTaskSpace) {
  Make();
  learner_ = *commander_->GetLearnerTask();
  const CollectorTask task = *commander_->GetCollectorTask();
  commander_->NotifyFailCollectorTask(task);
  EXPECT_EQ(commander_->collector_space().running(), 0);
  commander_->NotifyFailLearnerTask(learner_);
  EXPECT_EQ(commander_->learner_space().running(), 0);
  const LearnerTask again = *commander_->GetLearnerTask();
  EXPECT_EQ(again.buffer_id(), learner_.buffer_id()) << "D93";
  EXPECT_EQ(again.player_id(), kMain);
}

TEST_F(OneVsOneCommanderTest, SeatsAlternateFromTaskToTask) {
  StartCollecting();
  for (int i = 0; i < 4; ++i) {
    const CollectorTask task = *commander_->GetCollectorTask();
    EXPECT_EQ(task.home_seat(), i % 2);
    commander_->NotifyFailCollectorTask(task);
  }
}

TEST_F(OneVsOneCommanderTest, PlaysItsSnapshotsAndKeepsTheirPolicies) {
  options_.league.mutable_naive_sp_player()->mutable_branch_probs()->set_pfsp(1);
  options_.league.mutable_naive_sp_player()->mutable_branch_probs()->set_sp(0);
  StartCollecting();
  Learn(20);
  EXPECT_TRUE(Keeps(1));
  EXPECT_FALSE(Keeps(2));
  Publish(2);
  const CollectorTask task = *commander_->GetCollectorTask();
  ASSERT_EQ(task.player_size(), 2);
  EXPECT_TRUE(task.player(0).update_policy());
  EXPECT_FALSE(task.player(1).update_policy());
  EXPECT_EQ(task.player(1).player_id(), absl::StrCat(kMain, "_20_historical"));
  EXPECT_EQ(task.player(1).policy().key(), Key(1));
  EXPECT_FALSE(Finish(task, std::vector<double>(10, 1)));
  EXPECT_EQ(commander_->league().WinRates()[0], 1) << "results are player 0's";
  Learn(30);  // It beats all that there are.
  EXPECT_TRUE(Keeps(2));

  RunStatus status;
  commander_->AddStatus(&status);
  EXPECT_EQ(status.league().player_id(), kMain);
  EXPECT_EQ(status.league().historical_players(), 2);
  EXPECT_EQ(status.league().snapshots(), 2);
  EXPECT_EQ(status.league().games_with_historical(), 10);
  EXPECT_EQ(status.league().min_win_rate(), 0.5);
  EXPECT_GT(status.league().rating(), 0);
}

TEST_F(OneVsOneCommanderTest, ANewPolicyGetsASnapshotOfItsOwn) {
  StartCollecting();
  Learn(20);
  Publish(2);
  EXPECT_EQ(commander_->FinishLearnerTask(learner_), learner_.buffer_id());
  const LearnerTask first = learner_;
  learner_ = *commander_->GetLearnerTask();
  ASSERT_NE(learner_.policy_id(), first.policy_id());
  Learn(40);
  EXPECT_EQ(commander_->league().historical().size(), 1) << "it has published nothing";
  Publish(1);
  Learn(60);
  EXPECT_TRUE(Keeps(1));
  PolicyVersion of_first;
  of_first.set_key(absl::StrCat(first.policy_id(), "/1"));
  EXPECT_TRUE(commander_->KeepsPolicy(of_first));
}

TEST_F(OneVsOneCommanderTest, ConvergesOnlyAgainstTheHardestOpponent) {
  options_.solo.stop_value = 0;
  options_.eval_opponents = {{"random", std::nullopt}, {"perfect", -0.1}};
  StartCollecting();
  EXPECT_EQ(commander_->eval_opponent().name, "random");
  // To win 70 % of the games is not enough: it must be more.
  CollectorTask task = NextEvaluation();
  EXPECT_EQ(task.eval_opponent(), "random");
  EXPECT_FALSE(Finish(task, {1, 1, 1, 1, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(commander_->eval_opponent().name, "random");
  EXPECT_FALSE(Finish(NextEvaluation(), {1, 1, 1, 1, 1, 1, 1, 1, 0, 0}));
  task = NextEvaluation();
  EXPECT_EQ(task.eval_opponent(), "perfect");
  EXPECT_FALSE(Finish(task, {0, 0, 0, -1})) << "neither won nor good enough";
  EXPECT_FALSE(Finish(NextEvaluation(), {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1}))
      << "won, and below stop_value";
  EXPECT_TRUE(Finish(NextEvaluation(), {0, 0, 0, 0}));
}

TEST_F(OneVsOneCommanderTest, AHighReturnWithoutAWinDoesNotConverge) {
  StartCollecting();
  EXPECT_FALSE(Finish(NextEvaluation(), {100, -1})) << "half of the games";
  EXPECT_EQ(commander_->last_eval_value(), 49.5);
  EXPECT_FALSE(Finish(NextEvaluation(), {100, 100}, /*train_iter=*/0)) << "untrained";
  EXPECT_TRUE(Finish(NextEvaluation(), {100, 100}));
}

TEST_F(OneVsOneCommanderTest, ContinuesFromItsSavedState) {
  options_.eval_opponents = {{"random", std::nullopt}, {"perfect", 0.0}};
  StartCollecting();
  Learn(20);
  EXPECT_FALSE(Finish(NextEvaluation(), {1, 1, 1, 1}));
  StateDict saved;
  ASSERT_THAT(commander_->SaveState(&saved), IsOk());
  Make();
  ASSERT_THAT(commander_->LoadState(&saved), IsOk());
  EXPECT_EQ(commander_->eval_opponent().name, "perfect");
  EXPECT_TRUE(Keeps(1));
  EXPECT_EQ(commander_->current_policy_id(), "policy_0");
  EXPECT_EQ(commander_->last_eval_value(), 1);
  options_.eval_opponents = {{"other", std::nullopt}};
  Make();
  EXPECT_THAT(commander_->LoadState(&saved),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'perfect'")));
  EXPECT_FALSE(Keeps(1));
}

TEST_F(OneVsOneCommanderTest, OptionsOutOfRangeAreReportedTogether) {
  options_.solo.eval_interval = -1;
  options_.league.mutable_active_players()->set_naive_sp_player(0);
  options_.eval_opponents = {{"a", std::nullopt}, {"a", 0.0}};
  EXPECT_THAT(
      OneVsOneCommander::Create(options_, nullptr, deps_),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("eval_interval is -1"), HasSubstr("a league without players"),
                     HasSubstr("eval_opponent 'a', expected a name that no other has"))));
}

}  // namespace
}  // namespace ding
