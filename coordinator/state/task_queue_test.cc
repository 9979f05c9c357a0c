#include "ding_worker/coordinator/state/task_queue.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

int64_t At(int64_t seconds) { return absl::ToInt64Nanoseconds(absl::Seconds(seconds)); }

StartTask Learner(const std::string& task_id) {
  StartTask task;
  task.mutable_learner()->set_task_id(task_id);
  return task;
}

StartTask Collector(const std::string& task_id) {
  StartTask task;
  task.mutable_collector()->set_task_id(task_id);
  return task;
}

class TaskQueueTest : public testing::Test {
 protected:
  std::vector<std::string> Waiting(Hello::Role role) const {
    std::vector<std::string> ids;
    for (const TaskQueue::Waiting& waiting : queue_.For(role)) {
      ids.push_back(TaskIdOf(waiting.task));
    }
    return ids;
  }

  TaskQueue queue_{/*learner_timeout=*/absl::Seconds(60), /*collector_timeout=*/absl::Seconds(10)};
};

TEST_F(TaskQueueTest, OffersTasksInTheirOrderUntilTheyAreTaken) {
  for (const char* const id : {"a", "b", "c"}) queue_.Add(Collector(id), At(0));
  queue_.Add(Learner("d"), At(0));
  std::vector<std::string> offered;
  queue_.TakeIf(Hello::COLLECTOR, [&](const StartTask& task) {
    offered.push_back(TaskIdOf(task));
    return TaskIdOf(task) == "b";
  });
  EXPECT_THAT(offered, ElementsAre("a", "b", "c"));
  EXPECT_THAT(Waiting(Hello::COLLECTOR), ElementsAre("a", "c"));
  EXPECT_THAT(Waiting(Hello::LEARNER), ElementsAre("d"));
  queue_.TakeIf(Hello::LEARNER, [](const StartTask& /*task*/) { return true; });
  EXPECT_THAT(Waiting(Hello::LEARNER), IsEmpty());
}

TEST_F(TaskQueueTest, TakeIf_AddsATask_ItWaits) {
  queue_.Add(Collector("a"), At(0));
  queue_.TakeIf(Hello::COLLECTOR, [&](const StartTask& /*task*/) {
    queue_.Add(Collector("b"), At(0));
    return true;
  });
  EXPECT_THAT(Waiting(Hello::COLLECTOR), ElementsAre("b"));
}

TEST_F(TaskQueueTest, TasksExpireAfterTheirTimeout) {
  EXPECT_EQ(queue_.TimeToExpiry(At(0)), absl::InfiniteDuration());
  queue_.Add(Learner("a"), At(0));
  EXPECT_EQ(queue_.TimeToExpiry(At(1)), absl::Seconds(59));
  queue_.Add(Collector("b"), At(2));
  queue_.Add(Collector("c"), At(3));
  EXPECT_EQ(queue_.TimeToExpiry(At(4)), absl::Seconds(8));
  EXPECT_FALSE(queue_.TakeExpired(At(11)).has_value());
  std::optional<StartTask> expired = queue_.TakeExpired(At(12));
  ASSERT_TRUE(expired.has_value());
  EXPECT_EQ(TaskIdOf(*expired), "b");
  EXPECT_FALSE(queue_.TakeExpired(At(12)).has_value());
  expired = queue_.TakeExpired(At(60));
  ASSERT_TRUE(expired.has_value());
  EXPECT_EQ(TaskIdOf(*expired), "a");
  EXPECT_THAT(Waiting(Hello::COLLECTOR), ElementsAre("c"));
}

}  // namespace
}  // namespace ding
