#include "ding_worker/coordinator/state/task_scheduler.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

constexpr uint32_t kWorker = 2;
constexpr uint32_t kOther = 3;

int64_t At(int64_t seconds) { return absl::ToInt64Nanoseconds(absl::Seconds(seconds)); }

LearnerTask Learner(const std::string& task_id) {
  LearnerTask task;
  task.set_task_id(task_id);
  return task;
}

CollectorTask Collector(const std::string& task_id, const std::string& buffer_id = "buffer_0") {
  CollectorTask task;
  task.set_task_id(task_id);
  task.set_buffer_id(buffer_id);
  return task;
}

Resources Cpus(double cpus) {
  Resources resources;
  resources.set_cpus(cpus);
  return resources;
}

class TaskSchedulerTest : public testing::Test {
 protected:
  // The tasks that wait, in their order.
  std::vector<std::string> Waiting() const {
    std::vector<JournalRecord> records;
    scheduler_.Save(&records);
    std::vector<std::string> ids;
    for (const JournalRecord& record : records) {
      ids.push_back(record.has_learner_task() ? record.learner_task().task_id()
                                              : record.collector_task().task_id());
    }
    return ids;
  }

  TaskScheduler scheduler_{{/*learner_task_timeout=*/absl::Seconds(60),
                            /*collector_task_timeout=*/absl::Seconds(10)}};
};

TEST_F(TaskSchedulerTest, OffersTasksInTheirOrderUntilTheyAreStarted) {
  scheduler_.Add(Collector("a"), At(0));
  scheduler_.Add(Collector("b"), At(0));
  scheduler_.Add(Collector("c"), At(0));
  scheduler_.Add(Learner("d"), At(0));
  std::vector<std::string> offered;
  scheduler_.OfferCollectorTasks([&](const CollectorTask& task) {
    offered.push_back(task.task_id());
    return task.task_id() == "b";
  });
  EXPECT_THAT(offered, ElementsAre("a", "b", "c"));
  EXPECT_THAT(Waiting(), ElementsAre("d", "a", "c"));
  scheduler_.OfferLearnerTasks([](const LearnerTask& /*task*/) { return false; });
  EXPECT_THAT(Waiting(), ElementsAre("d", "a", "c"));
  scheduler_.OfferLearnerTasks([](const LearnerTask& /*task*/) { return true; });
  EXPECT_THAT(Waiting(), ElementsAre("a", "c"));
}

TEST_F(TaskSchedulerTest, ATaskThatIsAddedByAnOfferWaits) {
  scheduler_.Add(Collector("a"), At(0));
  scheduler_.OfferCollectorTasks([&](const CollectorTask& /*task*/) {
    scheduler_.Add(Collector("b"), At(0));
    return true;
  });
  EXPECT_THAT(Waiting(), ElementsAre("b"));
}

TEST_F(TaskSchedulerTest, TasksExpireAfterTheirTimeout) {
  EXPECT_EQ(scheduler_.TimeToExpiry(At(0)), absl::InfiniteDuration());
  scheduler_.Add(Learner("a"), At(0));
  EXPECT_EQ(scheduler_.TimeToExpiry(At(1)), absl::Seconds(59));
  scheduler_.Add(Collector("b"), At(2));
  scheduler_.Add(Collector("c"), At(3));
  EXPECT_EQ(scheduler_.TimeToExpiry(At(4)), absl::Seconds(8));
  EXPECT_FALSE(scheduler_.TakeExpiredCollectorTask(At(11)).has_value());
  const std::optional<CollectorTask> expired = scheduler_.TakeExpiredCollectorTask(At(12));
  ASSERT_TRUE(expired.has_value());
  EXPECT_EQ(expired->task_id(), "b");
  EXPECT_FALSE(scheduler_.TakeExpiredCollectorTask(At(12)).has_value());
  EXPECT_FALSE(scheduler_.TakeExpiredLearnerTask(At(59)).has_value());
  EXPECT_EQ(scheduler_.TakeExpiredLearnerTask(At(60))->task_id(), "a");
  EXPECT_THAT(Waiting(), ElementsAre("c"));
}

TEST_F(TaskSchedulerTest, RemovesTheTasksOfABuffer) {
  scheduler_.Add(Collector("a", "buffer_0"), At(0));
  scheduler_.Add(Collector("b", "buffer_1"), At(0));
  scheduler_.Add(Collector("c", "buffer_0"), At(0));
  const auto is_c = [](const CollectorTask& task) { return task.task_id() == "c"; };
  EXPECT_TRUE(scheduler_.HasCollectorTask(is_c));
  const std::vector<CollectorTask> taken = scheduler_.TakeCollectorTasksOf("buffer_0");
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].task_id(), "a");
  EXPECT_EQ(taken[1].task_id(), "c");
  EXPECT_FALSE(scheduler_.HasCollectorTask(is_c));
  EXPECT_THAT(Waiting(), ElementsAre("b"));
}

TEST_F(TaskSchedulerTest, AssignsFreeWorkersThatHaveTheResources) {
  EXPECT_FALSE(scheduler_.Assign(Hello::COLLECTOR, Cpus(1)).has_value());
  scheduler_.SetFree(Hello::COLLECTOR, kWorker, Cpus(4));
  scheduler_.SetFree(Hello::COLLECTOR, kOther, Cpus(2));
  EXPECT_FALSE(scheduler_.Assign(Hello::LEARNER, Cpus(1)).has_value());
  EXPECT_FALSE(scheduler_.Assign(Hello::COLLECTOR, Cpus(3), /*except=*/kWorker).has_value());
  EXPECT_THAT(scheduler_.Assign(Hello::COLLECTOR, Cpus(3)), Optional(kWorker));
  EXPECT_FALSE(scheduler_.Assign(Hello::COLLECTOR, Cpus(3)).has_value()) << "it is busy";
  scheduler_.Remove(Hello::COLLECTOR, kOther);
  EXPECT_FALSE(scheduler_.Assign(Hello::COLLECTOR, Cpus(1)).has_value());
}

TEST_F(TaskSchedulerTest, CountsConsecutiveFailuresPerKindAndPerWorker) {
  const TaskScheduler::TaskKind collects = {Hello::COLLECTOR, "p"};
  EXPECT_EQ(scheduler_.NoteFailure(collects, kWorker).of_kind, 1);
  EXPECT_TRUE(scheduler_.HasFailed(collects, kWorker));
  EXPECT_FALSE(scheduler_.HasFailed(collects, kOther));
  EXPECT_FALSE(scheduler_.HasFailed({Hello::LEARNER, "p"}, kWorker));
  TaskScheduler::Streak streak = scheduler_.NoteFailure(collects, kOther);
  EXPECT_EQ(streak.of_kind, 2);
  EXPECT_EQ(streak.of_worker, 1);
  // A success of one worker ends the streak of its kind, and its own.
  scheduler_.NoteSuccess(collects, kOther);
  EXPECT_FALSE(scheduler_.HasFailed(collects, kWorker));
  streak = scheduler_.NoteFailure(collects, kWorker);
  EXPECT_EQ(streak.of_kind, 1);
  EXPECT_EQ(streak.of_worker, 2);
  EXPECT_EQ(scheduler_.NoteFailure(collects, kOther).of_worker, 1);
  scheduler_.Remove(Hello::COLLECTOR, kWorker);
  EXPECT_EQ(scheduler_.NoteFailure(collects, kWorker).of_worker, 1);
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(TaskSchedulerTest, TasksOfOnePolicyDoNotHideThatThoseOfAnotherFail) {
  const TaskScheduler::TaskKind fails = {Hello::COLLECTOR, "p"};
  const TaskScheduler::TaskKind works = {Hello::COLLECTOR, "q"};
  EXPECT_EQ(scheduler_.NoteFailure(fails, kWorker).of_kind, 1);
  scheduler_.NoteSuccess(works, kWorker);
  const TaskScheduler::Streak streak = scheduler_.NoteFailure(fails, kWorker);
  EXPECT_EQ(streak.of_kind, 2);
  EXPECT_EQ(streak.of_worker, 1) << "the worker is not to blame";
  EXPECT_FALSE(scheduler_.HasFailed(works, kWorker));
}

TEST_F(TaskSchedulerTest, OnlyTrainingBeyondAllEarlierIterationsIsASuccess) {
  const auto fail = [this] {
    return scheduler_.NoteFailure({Hello::LEARNER, "p"}, kOther).of_kind;
  };
  scheduler_.NoteTrained(kOther, "p", 10, /*begins=*/true);
  EXPECT_EQ(fail(), 1);
  scheduler_.NoteTrained(kOther, "p", 11, /*begins=*/false);
  EXPECT_EQ(fail(), 1);
  scheduler_.NoteTrained(kOther, "p", 0, /*begins=*/true);
  scheduler_.NoteTrained(kOther, "p", 11, /*begins=*/false);
  EXPECT_EQ(fail(), 2);
  scheduler_.NoteTrained(kOther, "q", 5, /*begins=*/true);
  EXPECT_EQ(fail(), 3);
  scheduler_.ForgetTrained("p");
  scheduler_.NoteTrained(kOther, "p", 3, /*begins=*/true);
  scheduler_.NoteTrained(kOther, "p", 4, /*begins=*/false);
  EXPECT_EQ(fail(), 1);
}

}  // namespace
}  // namespace ding
