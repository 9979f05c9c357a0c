#include "ding_worker/coordinator/state/run_progress.h"

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Optional;

class RunProgressTest : public testing::Test {
 protected:
  RunProgress Make(const RunProgress::Budgets& budgets = {}) { return {budgets, &clock_}; }
  static RunStatus StatusOf(const RunProgress& progress, bool has_evaluation = false) {
    RunStatus status;
    progress.FillStatus(has_evaluation, &status);
    return status;
  }

  SimulatedClock clock_;
};

TEST_F(RunProgressTest, MeasuresTheRunAndItsCollecting) {
  RunProgress progress = Make();
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(progress.Elapsed(), absl::ZeroDuration());
  EXPECT_FALSE(StatusOf(progress).has_elapsed_seconds());
  progress.Start();
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(StatusOf(progress).elapsed_seconds(), 3);
  EXPECT_FALSE(StatusOf(progress).has_collecting_seconds());
  EXPECT_TRUE(progress.BeginCollecting());
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(progress.BeginCollecting()) << "the first task counts";
  EXPECT_EQ(StatusOf(progress).collecting_seconds(), 1);
  progress.End();
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(StatusOf(progress).collecting_seconds(), 1);
  EXPECT_EQ(StatusOf(progress).elapsed_seconds(), 14) << "it is that of the coordinator";
}

TEST_F(RunProgressTest, SaysWhichBudgetIsUsedUp) {
  RunProgress::Budgets budgets;
  budgets.max_env_step = 20;
  RunProgress collects = Make(budgets);
  collects.AddEnvSteps(19);
  EXPECT_EQ(collects.UsedUpBudget(), std::nullopt);
  collects.AddEnvSteps(2);
  EXPECT_THAT(collects.UsedUpBudget(), Optional(std::string("21 env steps of 20")));

  budgets = {};
  budgets.max_train_iter = 5;
  RunProgress trains = Make(budgets);
  trains.set_train_iter_of("policy_0", 3);
  trains.set_train_iter_of("policy_1", 1);
  EXPECT_EQ(trains.UsedUpBudget(), std::nullopt);
  trains.set_train_iter_of("opponent_2", 1);
  EXPECT_THAT(trains.UsedUpBudget(), Optional(std::string("5 train iterations of 5")))
      << "a name like any other, without an opponent that learns";

  budgets.has_opponent = true;
  RunProgress beside_opponent = Make(budgets);
  beside_opponent.set_train_iter_of("policy_0", 4);
  beside_opponent.set_train_iter_of("opponent_2", 100);
  EXPECT_EQ(beside_opponent.UsedUpBudget(), std::nullopt) << "the opponent's do not count";
  beside_opponent.set_train_iter_of("policy_0", 5);
  EXPECT_THAT(beside_opponent.UsedUpBudget(), Optional(std::string("5 train iterations of 5")));

  budgets = {};
  budgets.max_time = absl::Seconds(9);
  RunProgress timed = Make(budgets);
  clock_.Advance(absl::Seconds(100));
  EXPECT_EQ(timed.UsedUpBudget(), std::nullopt) << "it was not started";
  timed.Start();
  clock_.Advance(absl::Seconds(8));
  EXPECT_EQ(timed.TimeLeft(), absl::Seconds(1));
  EXPECT_EQ(timed.UsedUpBudget(), std::nullopt);
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(timed.UsedUpBudget(), Optional(std::string("the time of 9s is over")));

  RunProgress unlimited = Make();
  unlimited.Start();
  EXPECT_EQ(unlimited.TimeLeft(), absl::InfiniteDuration());
  EXPECT_EQ(unlimited.UsedUpBudget(), std::nullopt);
}

TEST_F(RunProgressTest, KeepsTheBestReturn) {
  RunProgress progress = Make();
  EXPECT_FALSE(StatusOf(progress).has_best_eval_value());
  progress.NoteEvaluation(-5);
  progress.NoteEvaluation(-9);
  EXPECT_EQ(StatusOf(progress, /*has_evaluation=*/true).best_eval_value(), -5);
}

TEST_F(RunProgressTest, ShowsReturnsReportedValuesAndSettings) {
  RunProgress progress = Make();
  EXPECT_EQ(StatusOf(progress).shown_size(), 0);
  progress.NoteReturns({10, 20});
  LearnerInfo info;
  for (int i = 0; i < RunProgress::kMaxShown + 1; ++i) {
    info.add_shown()->set_name(i == 0 ? "loss\x1b" : "more");
  }
  info.mutable_shown(0)->set_value(0.5);
  progress.NoteReported(info.shown());
  CollectorTask task;
  task.add_collect_setting()->set_name("eps");
  progress.NoteCollectSettings(task.collect_setting());
  const RunStatus status = StatusOf(progress);
  ASSERT_EQ(status.shown_size(), 1 + RunProgress::kMaxShown + 1);
  EXPECT_EQ(status.shown(0).name(), "return");
  EXPECT_EQ(status.shown(0).value(), 15);
  EXPECT_EQ(status.shown(1).name(), "loss ") << "names come from workers";
  EXPECT_EQ(status.shown(1).value(), 0.5);
  EXPECT_EQ(status.shown(RunProgress::kMaxShown + 1).name(), "eps");
}

TEST_F(RunProgressTest, ContinuesFromItsSavedState) {
  RunProgress before = Make();
  StateRecord state;
  before.Save(&state);
  EXPECT_FALSE(state.has_best_eval_value());
  EXPECT_FALSE(state.has_collecting_seconds());
  before.Start();
  clock_.Advance(absl::Seconds(2));
  before.BeginCollecting();
  clock_.Advance(absl::Seconds(4));
  before.AddEnvSteps(33);
  before.set_train_iter_of("policy_0", 2);
  before.set_train_iter_of("policy_1", 1);
  before.NoteEvaluation(50);
  before.set_converged();
  before.Save(&state);

  clock_.Advance(absl::Seconds(1000));
  RunProgress after = Make();
  after.Load(state);
  EXPECT_EQ(after.Elapsed(), absl::Seconds(6));
  EXPECT_EQ(after.env_steps(), 33);
  EXPECT_EQ(after.train_iter(), 3);
  EXPECT_EQ(after.train_iter_of("policy_0"), 2);
  EXPECT_EQ(after.train_iter_of("policy_2"), 0);
  EXPECT_TRUE(after.converged());
  after.Start();
  EXPECT_FALSE(after.BeginCollecting());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(after.Elapsed(), absl::Seconds(7));
  const RunStatus status = StatusOf(after, /*has_evaluation=*/true);
  EXPECT_EQ(status.collecting_seconds(), 5);
  EXPECT_EQ(status.best_eval_value(), 50);
  EXPECT_EQ(status.envstep(), 33);
}

}  // namespace
}  // namespace ding
