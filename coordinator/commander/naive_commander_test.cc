#include "ding_worker/coordinator/testing/naive_commander.h"

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::unique_ptr<NaiveCommander> Make(int collectors, int learners) {
  NaiveCommander::Options options;
  options.collector_task_space = collectors;
  options.learner_task_space = learners;
  return NaiveCommander::Create(options).value();
}

TEST(NaiveCommander, GivesAsManyTasksAsThereIsSpace) {
  const auto commander = Make(2, 1);
  const std::optional<CollectorTask> first = commander->GetCollectorTask();
  const std::optional<CollectorTask> second = commander->GetCollectorTask();
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->task_id(), "collector_task_id1");
  EXPECT_EQ(second->task_id(), "collector_task_id2");
  EXPECT_EQ(first->buffer_id(), "test");
  EXPECT_EQ(first->policy_id(), "test.pth");
  EXPECT_FALSE(first->eval_flag());
  ASSERT_EQ(first->collect_setting_size(), 1);
  EXPECT_EQ(first->collect_setting(0).name(), "eps");
  EXPECT_EQ(first->collect_setting(0).value(), 0.9);
  EXPECT_FALSE(commander->GetCollectorTask().has_value());

  const std::optional<LearnerTask> learner = commander->GetLearnerTask();
  ASSERT_TRUE(learner.has_value());
  EXPECT_EQ(learner->task_id(), "learner_task_id1");
  EXPECT_EQ(learner->buffer_id(), "test");
  EXPECT_EQ(learner->policy_id(), "test.pth");
  EXPECT_FALSE(commander->GetLearnerTask().has_value());

  CollectorFinished finished;
  finished.set_collector_done(true);
  finished.set_step_count(7);
  EXPECT_TRUE(commander->JudgeCollectorFinish(finished));
  EXPECT_FALSE(commander->FinishCollectorTask(*first, finished));
  commander->NotifyFailCollectorTask(*second);
  EXPECT_EQ(commander->FinishLearnerTask(*learner), "test");
  EXPECT_EQ(commander->collector_space().running(), 0);
  EXPECT_EQ(commander->learner_space().running(), 0);
  EXPECT_EQ(commander->finished_collector_tasks(), 1);
  EXPECT_EQ(commander->finished_learner_tasks(), 1);
  EXPECT_EQ(commander->total_collector_env_step(), 7);
  EXPECT_EQ(commander->GetCollectorTask()->task_id(), "collector_task_id3");
  commander->NotifyFailLearnerTask(*commander->GetLearnerTask());
  EXPECT_EQ(commander->GetLearnerTask()->task_id(), "learner_task_id3");
}

TEST(NaiveCommander, SpaceGrowsAndShrinksWhileTasksRun) {
  const auto commander = Make(1, 1);
  const CollectorTask first = *commander->GetCollectorTask();
  commander->IncreaseCollectorTaskSpace();
  const std::optional<CollectorTask> second = commander->GetCollectorTask();
  ASSERT_TRUE(second.has_value());
  commander->DecreaseCollectorTaskSpace();
  EXPECT_EQ(commander->collector_space().running(), 2);
  commander->NotifyFailCollectorTask(first);
  EXPECT_FALSE(commander->GetCollectorTask().has_value());
  commander->NotifyFailCollectorTask(*second);
  EXPECT_TRUE(commander->GetCollectorTask().has_value());
}

TEST(NaiveCommander, KeepsTheInfosPerTask) {
  const auto commander = Make(1, 1);
  const LearnerTask task = *commander->GetLearnerTask();
  LearnerInfo info;
  for (int step = 1; step <= 3; ++step) {
    info.set_learner_step(step);
    commander->UpdateLearnerInfo(task, info);
  }
  ASSERT_EQ(commander->learner_infos(task.task_id()).size(), 3u);
  EXPECT_EQ(commander->learner_infos(task.task_id())[2].learner_step(), 3);
  EXPECT_TRUE(commander->learner_infos("another").empty());
  EXPECT_FALSE(commander->JudgeLearnerFinish(info));
  info.set_learner_done(true);
  EXPECT_TRUE(commander->JudgeLearnerFinish(info));
}

TEST(NaiveCommander, WrongOptionsAreReportedTogether) {
  NaiveCommander::Options options;
  options.collector_task_space = 0;
  options.learner_task_space = -1;
  EXPECT_THAT(NaiveCommander::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("collector_task_space is 0, expected at least 1"),
                             HasSubstr("learner_task_space is -1, expected at least 1"))));
}

}  // namespace
}  // namespace ding
