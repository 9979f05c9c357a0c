#include "ding_worker/coordinator/commander/solo_commander.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/trained_policy.pb.h"
#include "ding_worker/coordinator/testing/fake_command_mode.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class SoloCommanderTest : public testing::Test {
 protected:
  SoloCommanderTest() {
    deps_.clock = &clock_;
    deps_.metrics = metrics_;
    options_.collector_task_space = 2;
  }
  std::unique_ptr<SoloCommander> Make() {
    return SoloCommander::Create(options_, &policy_, deps_).value();
  }
  static CollectorFinished Finished(std::vector<double> returns, int64_t train_iter) {
    CollectorFinished info;
    info.set_collector_done(true);
    info.set_train_iter(train_iter);
    info.set_duration_seconds(4);
    info.set_step_count(40);
    info.set_sample_count(30);
    for (const double value : returns) info.add_episode_return(value);
    return info;
  }

  SimulatedClock clock_;
  std::shared_ptr<RecordingSink> metrics_ = std::make_shared<RecordingSink>();
  ComponentDeps deps_;
  FakeCommandMode policy_;
  SoloCommander::Options options_;
};

// Follows the steps of the test of the commander in DI-engine.
TEST_F(SoloCommanderTest, LearnsEvaluatesCollectsAndConverges) {
  options_.stop_value = 20;
  const auto commander = Make();
  EXPECT_FALSE(commander->GetCollectorTask().has_value());
  EXPECT_EQ(commander->collector_space().running(), 0);

  const std::optional<LearnerTask> learner = commander->GetLearnerTask();
  ASSERT_TRUE(learner.has_value());
  EXPECT_EQ(learner->policy_id(), commander->current_policy_id());
  EXPECT_EQ(learner->buffer_id(), commander->current_buffer_id());
  EXPECT_FALSE(learner->resume());
  EXPECT_FALSE(commander->GetLearnerTask().has_value());

  const std::optional<CollectorTask> evaluation = commander->GetCollectorTask();
  ASSERT_TRUE(evaluation.has_value());
  EXPECT_TRUE(evaluation->eval_flag());
  EXPECT_EQ(evaluation->policy_id(), learner->policy_id());
  EXPECT_EQ(evaluation->buffer_id(), learner->buffer_id());
  EXPECT_EQ(evaluation->collect_setting_size(), 0);
  EXPECT_FALSE(commander->FinishCollectorTask(*evaluation, Finished({1, 2}, 5)));
  EXPECT_EQ(commander->last_eval_value(), 1.5);
  EXPECT_THAT(commander->last_eval_returns(), ElementsAre(1, 2));

  LearnerInfo info;
  info.set_learner_step(3);
  commander->UpdateLearnerInfo(*learner, info);
  const std::optional<CollectorTask> collection = commander->GetCollectorTask();
  ASSERT_TRUE(collection.has_value());
  EXPECT_FALSE(collection->eval_flag());
  ASSERT_EQ(collection->collect_setting_size(), 1);
  EXPECT_EQ(collection->collect_setting(0).value(), 3000);
  EXPECT_FALSE(commander->FinishCollectorTask(*collection, Finished({100}, 5)));
  EXPECT_EQ(commander->total_collector_env_step(), 40);
  const std::optional<CollectorTask> another = commander->GetCollectorTask();
  EXPECT_EQ(another->collect_setting(0).value(), 3040);

  clock_.Advance(absl::Seconds(61));
  const std::optional<CollectorTask> last = commander->GetCollectorTask();
  ASSERT_TRUE(last->eval_flag());
  EXPECT_TRUE(commander->FinishCollectorTask(*last, Finished({19, 21}, 9)));
  EXPECT_TRUE(commander->converged());
  // The original forgot it when the next task finished (D91).
  EXPECT_TRUE(commander->FinishCollectorTask(*another, Finished({0}, 9)));
  EXPECT_FALSE(commander->GetCollectorTask().has_value());
  commander->NotifyFailLearnerTask(*learner);
  EXPECT_FALSE(commander->GetLearnerTask().has_value());
}

TEST_F(SoloCommanderTest, AnUntrainedPolicyDoesNotConverge) {
  options_.stop_value = 0;
  const auto commander = Make();
  (void)commander->GetLearnerTask();
  EXPECT_FALSE(commander->FinishCollectorTask(*commander->GetCollectorTask(), Finished({5}, 0)));
  EXPECT_EQ(commander->last_eval_value(), 5);
}

TEST_F(SoloCommanderTest, DoesNotConvergeBeforeStopAfterSeconds) {
  options_.stop_value = 20;
  options_.eval_interval = 1;
  options_.stop_after_seconds = 60;
  const auto commander = Make();
  (void)commander->GetLearnerTask();
  EXPECT_FALSE(commander->FinishCollectorTask(*commander->GetCollectorTask(), Finished({50}, 5)));
  (void)commander->GetCollectorTask();
  clock_.Advance(absl::Seconds(60));
  EXPECT_TRUE(commander->FinishCollectorTask(*commander->GetCollectorTask(), Finished({50}, 6)));
}

TEST_F(SoloCommanderTest, EvalIntervalCountsFromTheBeginOfTheLastEvaluation) {
  const auto commander = Make();
  (void)commander->GetLearnerTask();
  const CollectorTask first = *commander->GetCollectorTask();
  EXPECT_EQ(first.number(), 0);
  clock_.Advance(absl::Seconds(50));
  (void)commander->FinishCollectorTask(first, Finished({1}, 1));
  CollectorTask task = *commander->GetCollectorTask();
  EXPECT_FALSE(task.eval_flag());
  EXPECT_EQ(task.number(), 0);
  commander->NotifyFailCollectorTask(task);
  clock_.Advance(absl::Seconds(10));  // 60 seconds, not more
  task = *commander->GetCollectorTask();
  EXPECT_FALSE(task.eval_flag());
  EXPECT_EQ(task.number(), 1);
  clock_.Advance(absl::Nanoseconds(1));
  task = *commander->GetCollectorTask();
  EXPECT_TRUE(task.eval_flag());
  EXPECT_EQ(task.number(), 1);
}

TEST_F(SoloCommanderTest, WithADataSetItOnlyEvaluates) {
  options_.collects = false;
  options_.eval_interval = 10;
  const auto commander = Make();
  (void)commander->GetLearnerTask();
  const std::optional<CollectorTask> first = commander->GetCollectorTask();
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->eval_flag());
  EXPECT_FALSE(commander->GetCollectorTask().has_value()) << "one evaluation at a time";
  EXPECT_EQ(commander->AskAgainAfter(), absl::InfiniteDuration());
  clock_.Advance(absl::Seconds(4));
  commander->FinishCollectorTask(*first, Finished({1}, 5));
  EXPECT_FALSE(commander->GetCollectorTask().has_value());
  EXPECT_EQ(commander->AskAgainAfter(), absl::Seconds(6));
  clock_.Advance(absl::Seconds(6.5));
  const std::optional<CollectorTask> second = commander->GetCollectorTask();
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(second->eval_flag());
  EXPECT_FALSE(metrics_->ValuesOf("evaluator_iter/reward_mean").empty());
  EXPECT_TRUE(metrics_->ValuesOf("evaluator_step/reward_mean").empty()) << "no env steps";
}

TEST_F(SoloCommanderTest, WithADataSetAndNoEnvItOnlyLearns) {
  options_.collects = options_.evaluates = false;
  const auto commander = Make();
  EXPECT_TRUE(commander->GetLearnerTask().has_value());
  EXPECT_FALSE(commander->GetCollectorTask().has_value());
  EXPECT_EQ(commander->AskAgainAfter(), absl::InfiniteDuration());
}

TEST_F(SoloCommanderTest, LongEvaluationsDoNotPreventCollecting) {
  options_.eval_interval = 0;
  options_.collector_task_space = 3;
  const auto commander = Make();
  (void)commander->GetLearnerTask();
  CollectorTask task = *commander->GetCollectorTask();
  ASSERT_TRUE(task.eval_flag());
  for (int i = 0; i < 2; ++i) {
    clock_.Advance(absl::Seconds(100));
    EXPECT_FALSE(commander->GetCollectorTask()->eval_flag()) << "one evaluation at a time";
  }
  (void)commander->FinishCollectorTask(task, Finished({1}, 1));
  task = *commander->GetCollectorTask();
  EXPECT_TRUE(task.eval_flag());
  clock_.Advance(absl::Seconds(100));
  (void)commander->FinishCollectorTask(task, Finished({1}, 1));
  EXPECT_FALSE(commander->GetCollectorTask()->eval_flag()) << "a collecting task between two";
}

// The original left collectors with a buffer that never came (D93).
TEST_F(SoloCommanderTest, AFailedLearnerTaskIsGivenAgainToBeResumed) {
  const auto commander = Make();
  const LearnerTask task = *commander->GetLearnerTask();
  commander->NotifyFailLearnerTask(task);
  EXPECT_EQ(commander->learner_space().running(), 0);
  EXPECT_EQ(commander->current_buffer_id(), task.buffer_id());
  const LearnerTask again = *commander->GetLearnerTask();
  EXPECT_NE(again.task_id(), task.task_id());
  EXPECT_EQ(again.policy_id(), task.policy_id());
  EXPECT_EQ(again.buffer_id(), task.buffer_id());
  EXPECT_TRUE(again.resume());
}

TEST_F(SoloCommanderTest, AFinishedLearnerTaskIsFollowedByOneForAnotherPolicy) {
  const auto commander = Make();
  const LearnerTask task = *commander->GetLearnerTask();
  LearnerInfo info;
  info.set_learner_step(3);
  commander->UpdateLearnerInfo(task, info);
  (void)commander->FinishCollectorTask(*commander->GetCollectorTask(), Finished({1}, 1));
  EXPECT_EQ(commander->FinishLearnerTask(task), task.buffer_id());
  EXPECT_FALSE(commander->GetCollectorTask().has_value());
  const LearnerTask next = *commander->GetLearnerTask();
  EXPECT_NE(next.policy_id(), task.policy_id());
  EXPECT_NE(next.buffer_id(), task.buffer_id());
  EXPECT_FALSE(next.resume());
  const CollectorTask evaluation = *commander->GetCollectorTask();
  EXPECT_TRUE(evaluation.eval_flag());
  EXPECT_EQ(evaluation.policy_id(), next.policy_id());
  EXPECT_EQ(commander->GetCollectorTask()->collect_setting(0).value(), 0);
}

TEST_F(SoloCommanderTest, TaskIdsAreNeverUsedAgain) {
  const auto commander = Make();
  std::set<std::string> ids;
  for (int i = 0; i < 20; ++i) {
    const LearnerTask learner = *commander->GetLearnerTask();
    const CollectorTask collector = *commander->GetCollectorTask();
    EXPECT_TRUE(ids.insert(learner.task_id()).second);
    EXPECT_TRUE(ids.insert(collector.task_id()).second);
    commander->NotifyFailCollectorTask(collector);
    if (i % 2 == 0) {
      commander->NotifyFailLearnerTask(learner);
    } else {
      commander->FinishLearnerTask(learner);
    }
  }
}

TEST_F(SoloCommanderTest, CollectingTasksOfALogIntervalAreOneMeasurement) {
  const auto commander = Make();
  (void)commander->GetLearnerTask();
  (void)commander->GetCollectorTask();  // an evaluation
  const CollectorTask collection = *commander->GetCollectorTask();
  (void)commander->FinishCollectorTask(collection, Finished({1, 3}, 5));
  (void)commander->FinishCollectorTask(*commander->GetCollectorTask(), Finished({4}, 6));
  clock_.Advance(absl::Seconds(1));
  (void)commander->FinishCollectorTask(*commander->GetCollectorTask(), Finished({5, 6}, 7));
  EXPECT_THAT(metrics_->ValuesOf("collector_iter/episode_count"), ElementsAre(2, 3));
  EXPECT_THAT(metrics_->ValuesOf("collector_iter/reward_mean"), ElementsAre(2, 5));
  EXPECT_THAT(metrics_->ValuesOf("collector_iter/total_episode_count"), ElementsAre(2, 5));
}

TEST_F(SoloCommanderTest, MeasurementsOfCollectingTasksAreSomeTrainIterationsApart) {
  options_.log_interval = absl::ZeroDuration();
  options_.log_train_iters = 10;
  const auto commander = Make();
  (void)commander->GetLearnerTask();
  (void)commander->GetCollectorTask();                   // an evaluation
  for (const int64_t train_iter : {5, 14, 15, 24, 3}) {  // at last another learner begins anew
    (void)commander->FinishCollectorTask(*commander->GetCollectorTask(), Finished({1}, train_iter));
  }
  EXPECT_THAT(metrics_->ValuesOf("collector_iter/episode_count"), ElementsAre(1, 2, 2));
}

// The original had two of them swapped (D90).
TEST_F(SoloCommanderTest, MeasuresFinishedTasksLikeASerialRun) {
  const auto commander = Make();
  (void)commander->GetLearnerTask();
  const CollectorTask evaluation = *commander->GetCollectorTask();
  const CollectorTask collection = *commander->GetCollectorTask();
  (void)commander->FinishCollectorTask(collection, Finished({1, 3}, 5));
  (void)commander->FinishCollectorTask(evaluation, Finished({10, 14}, 6));
  EXPECT_THAT(metrics_->ValuesOf("collector_iter/episode_count"), ElementsAre(2));
  EXPECT_THAT(metrics_->ValuesOf("collector_iter/envstep_count"), ElementsAre(40));
  EXPECT_THAT(metrics_->ValuesOf("collector_iter/train_sample_count"), ElementsAre(30));
  EXPECT_THAT(metrics_->ValuesOf("collector_iter/avg_envstep_per_episode"), ElementsAre(20));
  EXPECT_THAT(metrics_->ValuesOf("collector_iter/avg_time_per_step"), ElementsAre(0.1));
  EXPECT_THAT(metrics_->ValuesOf("collector_iter/avg_time_per_episode"), ElementsAre(2));
  EXPECT_THAT(metrics_->ValuesOf("collector_iter/total_envstep_count"), ElementsAre(40));
  EXPECT_THAT(metrics_->ValuesOf("collector_step/reward_mean"), ElementsAre(2));
  EXPECT_THAT(metrics_->ValuesOf("collector_step/reward_std"), ElementsAre(1));
  EXPECT_THAT(metrics_->ScalarTags(), Not(Contains("collector_step/total_envstep_count")));
  EXPECT_THAT(metrics_->ValuesOf("evaluator_iter/reward_mean"), ElementsAre(12));
  EXPECT_THAT(metrics_->ValuesOf("evaluator_step/reward_max"), ElementsAre(14));
  EXPECT_THAT(metrics_->ScalarTags(), Not(Contains("evaluator_iter/train_sample_count")));
  for (const RecordingSink::ScalarRecord& record : metrics_->scalars()) {
    if (record.tag == "collector_iter/reward_mean") {
      EXPECT_EQ(record.step, 5);
    }
    if (record.tag == "evaluator_iter/reward_mean") {
      EXPECT_EQ(record.step, 6);
    }
    if (record.tag == "evaluator_step/reward_mean") {
      EXPECT_EQ(record.step, 40);
    }
  }
}

// The original divided by the number of steps and episodes (D81).
TEST_F(SoloCommanderTest, ATaskWithoutAnEpisodeHasNoReward) {
  const auto commander = Make();
  (void)commander->GetLearnerTask();
  const CollectorTask evaluation = *commander->GetCollectorTask();
  EXPECT_FALSE(commander->FinishCollectorTask(evaluation, CollectorFinished()));
  EXPECT_FALSE(commander->last_eval_value().has_value());
  EXPECT_THAT(metrics_->ScalarTags(), Not(Contains("evaluator_iter/reward_mean")));
  for (const RecordingSink::ScalarRecord& record : metrics_->scalars()) {
    EXPECT_TRUE(std::isfinite(record.value)) << record.tag;
  }
}

TEST_F(SoloCommanderTest, TasksHaveTheConfiguredResources) {
  options_.collector_resources.set_cpus(2);
  options_.learner_resources.set_gpus(1);
  const auto commander = Make();
  EXPECT_EQ(commander->GetLearnerTask()->resources().gpus(), 1);
  EXPECT_EQ(commander->GetCollectorTask()->resources().cpus(), 2);
}

TEST_F(SoloCommanderTest, TasksHaveNoSettingsWithoutACommandMode) {
  const auto commander = SoloCommander::Create(options_, nullptr, deps_).value();
  (void)commander->GetLearnerTask();
  (void)commander->GetCollectorTask();
  EXPECT_EQ(commander->GetCollectorTask()->collect_setting_size(), 0);
}

TEST_F(SoloCommanderTest, WrongOptionsAreReportedTogether) {
  options_.collector_task_space = 0;
  options_.eval_interval = std::nan("");
  options_.stop_value = std::nan("");
  EXPECT_THAT(SoloCommander::Create(options_, nullptr, deps_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("collector_task_space is 0"), HasSubstr("eval_interval is"),
                             HasSubstr("stop_value is NaN"))));
}

TEST_F(SoloCommanderTest, ContinuesFromItsSavedState) {
  options_.eval_interval = 60;
  const auto before = Make();
  const LearnerTask learner = *before->GetLearnerTask();
  before->FinishCollectorTask(*before->GetCollectorTask(), Finished({3, 5}, 7));
  const CollectorTask collecting = *before->GetCollectorTask();
  before->FinishCollectorTask(collecting, Finished({1}, 7));
  const CollectorTask running = *before->GetCollectorTask();
  LearnerInfo info;
  info.set_learner_step(70);
  before->UpdateLearnerInfo(learner, info);
  clock_.Advance(absl::Seconds(20));
  StateDict state;
  ASSERT_THAT(before->SaveState(&state), IsOk());

  const auto after = Make();
  ASSERT_THAT(after->LoadState(&state), IsOk());
  EXPECT_EQ(after->current_policy_id(), "policy_0");
  EXPECT_EQ(after->total_collector_env_step(), 40);
  EXPECT_THAT(after->last_eval_returns(), ElementsAre(3, 5));
  EXPECT_EQ(after->last_eval_value(), 4);
  EXPECT_EQ(after->collector_space().running(), 1);
  EXPECT_FALSE(after->GetLearnerTask().has_value()) << "one runs";
  after->NotifyFailCollectorTask(running);
  after->NotifyFailLearnerTask(learner);
  const LearnerTask again = *after->GetLearnerTask();
  EXPECT_TRUE(again.resume());
  EXPECT_EQ(again.policy_id(), learner.policy_id());
  EXPECT_EQ(again.task_id(), "learner_task_1");
  const CollectorTask next = *after->GetCollectorTask();
  EXPECT_EQ(next.task_id(), "collector_task_3");
  EXPECT_FALSE(next.eval_flag()) << "the last one was 20 seconds ago";
  EXPECT_EQ(next.collect_setting(0).value(), 70040);
  clock_.Advance(absl::Seconds(41));
  EXPECT_TRUE(after->GetCollectorTask()->eval_flag());
}

TEST_F(SoloCommanderTest, SavesALearnerTaskThatWaitsToBeGivenAgain) {
  const auto before = Make();
  before->NotifyFailLearnerTask(*before->GetLearnerTask());
  StateDict state;
  ASSERT_THAT(before->SaveState(&state), IsOk());
  const auto after = Make();
  ASSERT_THAT(after->LoadState(&state), IsOk());
  EXPECT_TRUE(after->GetLearnerTask()->resume());
  StateDict empty;
  EXPECT_THAT(after->LoadState(&empty), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(SoloCommanderTest, LoadState_DamagedOrImpossible_IsRefused) {
  const auto load = [this](const std::string& bytes) {
    StateDict state;
    EXPECT_THAT(state.WriteString("solo_commander", bytes), IsOk());
    return Make()->LoadState(&state);
  };
  EXPECT_THAT(load(""), IsOk());
  EXPECT_THAT(load("\xff\xff"), StatusIs(absl::StatusCode::kDataLoss));
  SoloCommanderState record;
  record.add_failed_learner_task()->set_policy_id("policy_7");
  EXPECT_THAT(load(record.SerializeAsString()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("policy_7, which is none")));
  for (const int64_t number : {int64_t{-2}, std::numeric_limits<int64_t>::max()}) {
    record.Clear();
    record.set_models(number);
    EXPECT_THAT(load(record.SerializeAsString()),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("models")));
    record.Clear();
    record.add_policy()->set_env_steps(number);
    EXPECT_THAT(load(record.SerializeAsString()),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("env_steps")));
  }
}

// How SoloCommander confirms that a policy has reached the stop value, and which version it keeps
// as the best.

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

TEST_F(ConfirmationTest, BestBy_TheMeanOfAnInfoValueChoosesTheBestPolicy) {
  options_.best_by = "success";
  const auto commander = Make();
  const auto finish = [&](uint64_t version, double mean_return, double success) {
    CollectorTask task = NextEvaluation(commander.get());
    *task.mutable_policy() = Version(version, learner_.policy_id());
    CollectorFinished info = Result({mean_return}, version);
    InfoValue* const value = info.add_info();
    value->set_name("success");
    value->set_mean(success);
    value->set_count(1);
    commander->FinishCollectorTask(task, info);
  };
  finish(1, 15, 0.2);
  finish(2, 5, 0.8);
  finish(3, 10, 0.5);
  EXPECT_EQ(Best(*commander), 2u);
  EXPECT_THAT(metrics_->ScalarTags(), Contains("evaluator_iter/info/success_mean"));
  Finish(commander.get(), NextEvaluation(commander.get()), 4, {18});
  EXPECT_EQ(Best(*commander), 2u);
  EXPECT_THAT(commander->status(), IsOk()) << "evaluations before had the value";
}

TEST_F(ConfirmationTest, BestBy_NoEvaluationHasTheValue_IsAnError) {
  options_.best_by = "succes";
  const auto commander = Make();
  Finish(commander.get(), NextEvaluation(commander.get()), 1, {5});
  EXPECT_THAT(commander->status(),
              IsInvalid("env.best_by: no episode of the evaluation has 'succes'"));
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
