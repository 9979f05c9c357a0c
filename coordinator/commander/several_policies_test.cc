// Tests SoloCommander with several learner tasks: turns, convergence, what is reported, and its
// state.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/testing/fake_command_mode.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class SeveralPoliciesTest : public testing::Test {
 protected:
  SeveralPoliciesTest() {
    deps_.clock = &clock_;
    deps_.metrics = metrics_;
    options_.learner_task_space = 2;
    options_.stop_value = 20;
  }
  void Start() {
    commander_ = SoloCommander::Create(options_, &policy_, deps_).value();
    for (int i = 0; i < 2; ++i) learners_.push_back(*commander_->GetLearnerTask());
  }
  void Publish(const std::string& policy_id, uint64_t version = 1) {
    PolicyVersion published;
    published.set_policy_id(policy_id);
    published.set_version(version);
    commander_->PolicyPublished(published);
  }
  // Finishes the next task, which is expected to be for this policy; an evaluation has this mean.
  void Finish(const std::string& policy_id, int64_t steps, double mean = 1,
              int64_t train_iter = 5) {
    const CollectorTask task = *commander_->GetCollectorTask();
    EXPECT_EQ(task.policy_id(), policy_id);
    FinishTask(task, steps, mean, train_iter);
  }
  void FinishTask(const CollectorTask& task, int64_t steps, double mean, int64_t train_iter = 5) {
    CollectorFinished info;
    info.set_collector_done(true);
    info.set_train_iter(train_iter);
    info.set_step_count(steps);
    info.add_episode_return(mean);
    has_converged_ = commander_->FinishCollectorTask(task, info);
  }

  SimulatedClock clock_;
  std::shared_ptr<RecordingSink> metrics_ = std::make_shared<RecordingSink>();
  ComponentDeps deps_;
  FakeCommandMode policy_;
  SoloCommander::Options options_;
  std::unique_ptr<SoloCommander> commander_;
  std::vector<LearnerTask> learners_;
  bool has_converged_ = false;
};

TEST_F(SeveralPoliciesTest, EachHasItsBufferAndItsName) {
  Start();
  EXPECT_EQ(learners_[0].policy_id(), "policy_0");
  EXPECT_EQ(learners_[0].buffer_id(), "buffer_0");
  EXPECT_EQ(learners_[0].name(), "policy_0");
  EXPECT_EQ(learners_[1].policy_id(), "policy_1");
  EXPECT_EQ(learners_[1].buffer_id(), "buffer_1");
  EXPECT_EQ(learners_[1].name(), "policy_1");
  EXPECT_FALSE(commander_->GetLearnerTask().has_value());
}

// One collector, whose tasks of one policy are three times as long as those of the other.
TEST_F(SeveralPoliciesTest, AnOpponentLearnsFromTasksOfItsOwnAndIsNotEvaluated) {
  FakeCommandMode of_opponent;
  options_.has_opponent = true;
  options_.opponent = &of_opponent;
  Start();
  EXPECT_EQ(learners_[0].policy_id(), "policy_0");
  EXPECT_EQ(learners_[0].name(), "");
  EXPECT_EQ(learners_[1].policy_id(), "opponent_1");
  EXPECT_EQ(learners_[1].buffer_id(), "buffer_1");
  EXPECT_EQ(learners_[1].name(), "opponent");
  Publish("policy_0", 1);
  EXPECT_FALSE(commander_->GetCollectorTask().has_value()) << "there is nobody to play against";
  Publish("opponent_1", 2);
  int evaluations = 0;
  std::map<std::string, int64_t> given;
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(absl::Seconds(30));
    const CollectorTask task = *commander_->GetCollectorTask();
    const bool is_opponents = task.policy_id() == "opponent_1";
    ++given[task.buffer_id()];
    evaluations += task.eval_flag() ? 1 : 0;
    EXPECT_FALSE(task.eval_flag() && is_opponents);
    ASSERT_THAT(task.player(), SizeIs(2));
    EXPECT_EQ(task.home_seat(), is_opponents ? 1 : 0);
    EXPECT_TRUE(task.player(0).update_policy());
    EXPECT_FALSE(task.player(1).update_policy());
    EXPECT_EQ(task.player(1).policy().policy_id(), is_opponents ? "policy_0" : "opponent_1");
    EXPECT_EQ(task.player(1).policy().version(), is_opponents ? 1u : 2u);
    FinishTask(task, 10, 1);
  }
  EXPECT_GE(evaluations, 2);
  EXPECT_THAT(given, ElementsAre(testing::Pair("buffer_0", testing::Ge(10)),
                                 testing::Pair("buffer_1", testing::Ge(5))));
  // The run has converged when the policy has.
  while (!has_converged_) {
    clock_.Advance(absl::Seconds(90));
    const CollectorTask task = *commander_->GetCollectorTask();
    FinishTask(task, 10, task.eval_flag() ? 21 : 1);
  }
  EXPECT_TRUE(commander_->policies()[0].converged());
  EXPECT_FALSE(commander_->policies()[1].converged());
}

TEST_F(SeveralPoliciesTest, TheOneWithFewerEnvStepsIsNext) {
  Start();
  Publish("policy_0");
  Publish("policy_1");
  Finish("policy_0", 0);  // Its first task is an evaluation.
  std::map<std::string, int64_t> steps;
  for (int i = 0; i < 100; ++i) {
    const CollectorTask task = *commander_->GetCollectorTask();
    const int64_t length = task.policy_id() == "policy_0" ? 30 : 10;
    if (!task.eval_flag()) steps[task.policy_id()] += length;
    FinishTask(task, task.eval_flag() ? 0 : length, 1);
  }
  EXPECT_NEAR(static_cast<double>(steps["policy_0"]), static_cast<double>(steps["policy_1"]), 30);
}

TEST_F(SeveralPoliciesTest, TasksThatRunCountBeforeEnvSteps) {
  options_.collector_task_space = 4;
  Start();
  Publish("policy_0");
  Publish("policy_1");
  std::map<std::string, int> given;
  for (int i = 0; i < 4; ++i) ++given[commander_->GetCollectorTask()->policy_id()];
  EXPECT_THAT(given, ElementsAre(testing::Pair("policy_0", 2), testing::Pair("policy_1", 2)));
}

// Collectors must not wait for a policy whose learner has not begun.
TEST_F(SeveralPoliciesTest, OneWhoseLearnerHasNotBegunDoesNotHoldUpTheOther) {
  Start();
  Publish("policy_1");
  for (int i = 0; i < 5; ++i) Finish("policy_1", 10);
  Publish("policy_0");
  Finish("policy_0", 0);
  Finish("policy_0", 10);
}

TEST_F(SeveralPoliciesTest, OneThatBeginsLaterDoesNotGetAllCollectors) {
  Start();
  Publish("policy_0");
  Publish("policy_1");
  for (int i = 0; i < 8; ++i) FinishTask(*commander_->GetCollectorTask(), 100, 1);
  commander_->FinishLearnerTask(learners_[1]);
  EXPECT_EQ(commander_->GetLearnerTask()->policy_id(), "policy_2");
  Publish("policy_2");
  std::map<std::string, int> given;
  for (int i = 0; i < 10; ++i) {
    const CollectorTask task = *commander_->GetCollectorTask();
    ++given[task.policy_id()];
    FinishTask(task, 100, 1);
  }
  EXPECT_GE(given["policy_0"], 4);
  EXPECT_GE(given["policy_2"], 4);
}

TEST_F(SeveralPoliciesTest, EachExploresAndIsEvaluatedByItsOwnProgress) {
  Start();
  Publish("policy_0");
  Publish("policy_1");
  Finish("policy_0", 0);    // an evaluation
  Finish("policy_0", 100);  // collects
  Finish("policy_1", 0);    // an evaluation
  LearnerInfo info;
  info.set_learner_step(3);
  commander_->UpdateLearnerInfo(learners_[1], info);
  const CollectorTask task = *commander_->GetCollectorTask();
  EXPECT_EQ(task.policy_id(), "policy_1");
  EXPECT_FALSE(task.eval_flag());
  EXPECT_EQ(task.collect_setting(0).value(), 3000) << "without the 100 steps of the other one";
  EXPECT_EQ(commander_->total_collector_env_step(), 100);
}

TEST_F(SeveralPoliciesTest, TheRunConvergesWhenAllHave) {
  Start();
  Publish("policy_0", 4);
  Publish("policy_1");
  Finish("policy_0", 0, 25);
  EXPECT_FALSE(has_converged_);
  EXPECT_TRUE(commander_->policies()[0].converged());

  // The learner of the converged policy is done with its next report. Then nobody learns or
  // collects for the policy.
  LearnerInfo info;
  info.set_task_id(learners_[1].task_id());
  EXPECT_FALSE(commander_->JudgeLearnerFinish(info));
  info.set_task_id(learners_[0].task_id());
  EXPECT_TRUE(commander_->JudgeLearnerFinish(info));
  commander_->FinishLearnerTask(learners_[0]);
  EXPECT_FALSE(commander_->GetLearnerTask().has_value());
  Finish("policy_1", 0, 5);
  Finish("policy_1", 10);
  EXPECT_EQ(commander_->last_eval_value(), 5) << "the lowest";

  RunStatus status;
  commander_->AddStatus(&status);
  ASSERT_THAT(status.trained_policy(), SizeIs(2));
  EXPECT_EQ(status.trained_policy(0).policy_id(), "policy_0");
  EXPECT_EQ(status.trained_policy(0).policy_version(), 4);
  EXPECT_EQ(status.trained_policy(0).eval_value(), 25);
  EXPECT_TRUE(status.trained_policy(0).converged());
  EXPECT_EQ(status.trained_policy(1).envstep(), 10);
  EXPECT_THAT(status.trained_policy(1).eval_return(), ElementsAre(5));
  EXPECT_FALSE(status.trained_policy(1).converged());

  clock_.Advance(absl::Seconds(61));
  Finish("policy_1", 0, 21);
  EXPECT_TRUE(has_converged_);
  EXPECT_EQ(commander_->last_eval_value(), 21);
  EXPECT_FALSE(commander_->GetCollectorTask().has_value());
}

TEST_F(SeveralPoliciesTest, ALearnerThatIsLostAfterItHasConvergedIsNotReplaced) {
  Start();
  Publish("policy_0");
  commander_->NotifyFailLearnerTask(learners_[1]);
  Finish("policy_0", 0, 25);
  commander_->NotifyFailLearnerTask(learners_[0]);
  EXPECT_EQ(commander_->GetLearnerTask()->policy_id(), "policy_1") << "the other one is";
  EXPECT_FALSE(commander_->GetLearnerTask().has_value());
}

TEST_F(SeveralPoliciesTest, MeasurementsHaveTheNameOfTheirPolicy) {
  Start();
  Publish("policy_0");
  Publish("policy_1");
  Finish("policy_0", 0, 3);
  Finish("policy_0", 100, 4);
  Finish("policy_1", 0, 5);
  Finish("policy_1", 50, 6);
  EXPECT_THAT(metrics_->ValuesOf("policy_0_evaluator_iter/reward_mean"), ElementsAre(3));
  EXPECT_THAT(metrics_->ValuesOf("policy_0_collector_iter/reward_mean"), ElementsAre(4));
  EXPECT_THAT(metrics_->ValuesOf("policy_1_evaluator_step/reward_mean"), ElementsAre(5));
  EXPECT_THAT(metrics_->ValuesOf("policy_1_collector_iter/total_envstep_count"), ElementsAre(50));
  EXPECT_THAT(metrics_->ValuesOf("evaluator_iter/reward_mean"), IsEmpty());
}

TEST_F(SeveralPoliciesTest, AWorsePolicyIsGivenUpForOneThatBeginsWithTheBetterOne) {
  options_.prepare = [](const TrainedPolicies& others, LearnerTask* task) {
    task->add_setting(others.empty() ? "rate=1" : "rate=2");
    if (!others.empty() && others[0].has_newest()) {
      *task->mutable_init_policy() = others[0].newest();
    }
  };
  options_.give_up = [](const TrainedPolicy& policy, const TrainedPolicies& all) {
    return std::any_of(all.begin(), all.end(), [&policy](const TrainedPolicy& other) {
      return EvalValue(other).value_or(0) > EvalValue(policy).value_or(0);
    });
  };
  Start();
  EXPECT_THAT(learners_[0].setting(), ElementsAre("rate=1"));
  EXPECT_THAT(learners_[1].setting(), ElementsAre("rate=2"));
  EXPECT_FALSE(learners_[1].has_init_policy());
  Publish("policy_0", 4);
  Publish("policy_1", 9);
  Finish("policy_0", 0, 8);
  Finish("policy_0", 100);
  Finish("policy_1", 0, 5);
  LearnerInfo info;
  info.set_task_id(learners_[0].task_id());
  EXPECT_FALSE(commander_->JudgeLearnerFinish(info));
  info.set_task_id(learners_[1].task_id());
  EXPECT_TRUE(commander_->JudgeLearnerFinish(info));
  commander_->FinishLearnerTask(learners_[1]);
  LearnerTask next = *commander_->GetLearnerTask();
  EXPECT_EQ(next.policy_id(), "policy_2");
  EXPECT_EQ(next.init_policy().policy_id(), "policy_0");
  EXPECT_EQ(next.init_policy().version(), 4);
  commander_->NotifyFailLearnerTask(next);
  next = *commander_->GetLearnerTask();
  EXPECT_TRUE(next.resume());
  EXPECT_THAT(next.setting(), ElementsAre("rate=2"));
  EXPECT_EQ(next.init_policy().version(), 4) << "there may be no checkpoint yet";
}

TEST_F(SeveralPoliciesTest, AllContinueFromTheSavedState) {
  Start();
  Publish("policy_0", 3);
  Publish("policy_1", 7);
  Finish("policy_0", 0, 25);
  Finish("policy_1", 0, 5);
  Finish("policy_1", 40, 5);
  commander_->NotifyFailLearnerTask(learners_[1]);
  StateDict state;
  ASSERT_THAT(commander_->SaveState(&state), IsOk());

  const LearnerTask lost = learners_[0];
  commander_ = SoloCommander::Create(options_, &policy_, deps_).value();
  ASSERT_THAT(commander_->LoadState(&state), IsOk());
  commander_->NotifyFailLearnerTask(lost);  // It ran when the state was saved.
  const LearnerTask again = *commander_->GetLearnerTask();
  EXPECT_EQ(again.policy_id(), "policy_1");
  EXPECT_EQ(again.name(), "policy_1");
  EXPECT_TRUE(again.resume());
  EXPECT_FALSE(commander_->GetLearnerTask().has_value()) << "policy_0 has converged";
  ASSERT_THAT(commander_->policies(), SizeIs(2));
  EXPECT_TRUE(commander_->policies()[0].converged());
  EXPECT_EQ(commander_->policies()[0].newest().version(), 3);
  EXPECT_EQ(commander_->policies()[1].env_steps(), 40);
  EXPECT_EQ(commander_->policies()[1].evaluations(), 1);
  EXPECT_EQ(commander_->last_eval_value(), 5);
  const CollectorTask task = *commander_->GetCollectorTask();
  EXPECT_EQ(task.policy_id(), "policy_1");
  EXPECT_FALSE(task.eval_flag());
  clock_.Advance(absl::Seconds(61));
  FinishTask(task, 10, 1);
  Finish("policy_1", 0, 20);
  EXPECT_TRUE(has_converged_);
}

}  // namespace
}  // namespace ding
