#include "ding_worker/coordinator/state/worker_roster.h"

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace internal_coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

int64_t At(int64_t seconds) { return absl::ToInt64Nanoseconds(absl::Seconds(seconds)); }

Hello HelloOf(Hello::Role role, const std::string& name, int64_t pid = 7) {
  Hello hello;
  hello.set_role(role);
  hello.set_name(name);
  hello.set_pid(pid);
  return hello;
}

Resources Of(double cpus, int64_t memory_bytes = 0, int gpus = 0) {
  Resources resources;
  resources.set_cpus(cpus);
  resources.set_memory_bytes(memory_bytes);
  resources.set_gpus(gpus);
  return resources;
}

PolicyVersion Version(const std::string& key) {
  PolicyVersion version;
  version.set_key(key);
  return version;
}

class WorkerRosterTest : public testing::Test {
 protected:
  void Add(uint32_t id, Hello::Role role, const std::string& name,
           const Resources& resources = {}) {
    Hello hello = HelloOf(role, name);
    *hello.mutable_resources() = resources;
    workers_.SetFree(workers_.Add(id, hello, "peer", At(0)));
  }
  // Returns the number of the collector that is assigned; 0 if there is none.
  uint32_t Assign(const Resources& needed, std::optional<uint32_t> except = std::nullopt) {
    const Worker* const worker = workers_.Assign(Hello::COLLECTOR, needed, except);
    return worker == nullptr ? 0 : worker->id;
  }
  // Worker `id` collects, begun at second 0.
  RunningTask* Collects(uint32_t id, const std::string& task_id) {
    RunningTask task;
    task.start.mutable_collector()->set_task_id(task_id);
    workers_.Find(id)->task = task;
    return &*workers_.Find(id)->task;
  }

  WorkerRoster workers_;
};

TEST_F(WorkerRosterTest, FindsWorkersAndTheirTasks) {
  Add(1, Hello::COLLECTOR, "a");
  EXPECT_EQ(workers_.Find(2), nullptr);
  Worker* const worker = workers_.Find(1);
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(worker->hello.name(), "a");
  EXPECT_EQ(worker->FindTask("task"), nullptr) << "it runs none";
  RunningTask* const task = Collects(1, "task");
  EXPECT_EQ(worker->FindTask("task"), task);
  EXPECT_EQ(worker->FindTask("another"), nullptr);
  workers_.Remove(worker);
  EXPECT_EQ(workers_.Find(1), nullptr);
}

TEST_F(WorkerRosterTest, GivesEachNumberOnce) {
  EXPECT_EQ(workers_.NewNumber(), 1u);
  Add(5, Hello::COLLECTOR, "a");
  EXPECT_EQ(workers_.NewNumber(), 6u);
  StateRecord state;
  workers_.Save(&state);
  WorkerRoster next;
  next.Load(state);
  EXPECT_EQ(next.NewNumber(), 7u);
}

TEST_F(WorkerRosterTest, CountsStepsThatRowsBack) {
  Add(1, Hello::COLLECTOR, "a");
  RunningTask* const task = Collects(1, "task_1");
  task->steps = 10;
  EXPECT_EQ(task->StepsWith(10), 10);
  EXPECT_EQ(task->StepsWith(2), 4 * 2);
  task->start.mutable_collector()->set_eval_flag(true);
  EXPECT_EQ(task->StepsWith(10), 0) << "steps of evaluations do not count";
}

TEST_F(WorkerRosterTest, AssignsTheSuitableWorkerWithTheMostCpus) {
  Add(1, Hello::COLLECTOR, "a", Of(2, 100));
  Add(2, Hello::COLLECTOR, "b", Of(8, 10));
  Add(3, Hello::COLLECTOR, "c", Of(4, 100, 1));
  Add(4, Hello::LEARNER, "d", Of(16, 100, 1));
  EXPECT_FALSE(workers_.HasAssigned(Hello::COLLECTOR));
  EXPECT_EQ(Assign(Of(1, 50), /*except=*/3), 1u);
  EXPECT_EQ(Assign(Of(1, 50)), 3u);
  EXPECT_EQ(Assign(Of(1, 50)), 0u);
  EXPECT_EQ(Assign(Of(1, 0, 1)), 0u);
  EXPECT_EQ(Assign({}), 2u);
  EXPECT_EQ(Assign({}), 0u);
  EXPECT_TRUE(workers_.HasAssigned(Hello::COLLECTOR));
  EXPECT_FALSE(workers_.HasAssigned(Hello::LEARNER));
}

TEST_F(WorkerRosterTest, AssignsTheWorkerThatIsFreeForLongest) {
  for (const uint32_t id : {7, 5, 6}) Add(id, Hello::COLLECTOR, "a", Of(2));
  EXPECT_EQ(Assign(Of(1)), 7u);
  workers_.SetFree(workers_.Find(7));
  EXPECT_EQ(Assign(Of(1)), 5u);
  workers_.Drain(workers_.Find(6));
  EXPECT_EQ(Assign(Of(1)), 7u) << "the other one is draining";
  workers_.SetFree(workers_.Find(5));
  workers_.Remove(workers_.Find(5));
  EXPECT_EQ(Assign(Of(1)), 0u);
}

TEST_F(WorkerRosterTest, KnowsWhichPoliciesAndVersionsTasksUse) {
  Add(1, Hello::COLLECTOR, "a");
  CollectorTask& task = *Collects(1, "task")->start.mutable_collector();
  task.set_policy_id("policy_0");
  *task.mutable_policy() = Version("own");
  task.add_player()->set_update_policy(true);
  *task.mutable_player(0)->mutable_policy() = Version("own");
  *task.add_player()->mutable_policy() = Version("opponent");
  EXPECT_TRUE(workers_.IsPlayed("policy_0"));
  EXPECT_FALSE(workers_.IsPlayed("policy_1"));
  EXPECT_TRUE(workers_.Needs(Version("opponent")));
  EXPECT_FALSE(workers_.Needs(Version("own"))) << "a newer one takes its place";
  task.set_eval_flag(true);
  EXPECT_TRUE(workers_.Needs(Version("own")));
}

TEST_F(WorkerRosterTest, TheWitnessIsAnotherCollectorThatGetsTasks) {
  Add(1, Hello::COLLECTOR, "a");
  Add(2, Hello::LEARNER, "b");
  EXPECT_FALSE(workers_.HasOtherCollector(1));
  EXPECT_TRUE(workers_.HasOtherCollector(2));
  Add(3, Hello::COLLECTOR, "c");
  EXPECT_TRUE(workers_.HasOtherCollector(1));
  EXPECT_EQ(workers_.collectors(), 2);
  workers_.Drain(workers_.Find(3));
  EXPECT_FALSE(workers_.HasOtherCollector(1));
}

TEST_F(WorkerRosterTest, SurplusCollectorsAreThoseWithoutATaskAndTheNewest) {
  for (uint32_t id = 1; id <= 5; ++id) Add(id, Hello::COLLECTOR, "x");
  Add(6, Hello::LEARNER, "y");
  Collects(1, "task_1");
  Collects(4, "task_4");
  workers_.Drain(workers_.Find(5));
  EXPECT_THAT(workers_.Surplus(0), ElementsAre(3, 2, 4, 1));
  EXPECT_THAT(workers_.Surplus(1), ElementsAre(3, 2, 4));
  EXPECT_THAT(workers_.Surplus(4), IsEmpty());
  EXPECT_THAT(workers_.Surplus(9), IsEmpty());
}

TEST_F(WorkerRosterTest, AWorkerThatWasSentAwayIsNotAdmittedForTenMinutes) {
  const Hello bad = HelloOf(Hello::COLLECTOR, "a", 7);
  workers_.NoteSentAway(bad, "it lies", At(0));
  EXPECT_THAT(workers_.CheckNotSentAway(bad, At(599)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("a (pid 7) was sent away 9m59s ago: it lies")));
  EXPECT_THAT(workers_.CheckNotSentAway(HelloOf(Hello::COLLECTOR, "a", 8), At(1)), IsOk());
  EXPECT_THAT(workers_.CheckNotSentAway(bad, At(600)), IsOk());
  for (int64_t pid = 0; pid < 2000; ++pid) {
    workers_.NoteSentAway(HelloOf(Hello::COLLECTOR, "b", pid), "it lies", At(100));
  }
  EXPECT_THAT(workers_.CheckNotSentAway(HelloOf(Hello::COLLECTOR, "b", 1999), At(100)), IsOk())
      << "the memory for them is bounded";
}

TEST_F(WorkerRosterTest, DrainingContinuesAfterARestart) {
  Add(1, Hello::COLLECTOR, "a");
  Add(2, Hello::COLLECTOR, "b");
  workers_.Drain(workers_.Find(1));
  StateRecord state;
  workers_.Save(&state);
  WorkerRoster next;
  next.Load(state);
  EXPECT_FALSE(next.TakeWasDraining(HelloOf(Hello::COLLECTOR, "a", 8))) << "another process";
  StateRecord again;
  next.Save(&again);
  EXPECT_EQ(again.SerializeAsString(), state.SerializeAsString());
  EXPECT_TRUE(next.TakeWasDraining(HelloOf(Hello::COLLECTOR, "a")));
  EXPECT_FALSE(next.TakeWasDraining(HelloOf(Hello::COLLECTOR, "a")));
}

TEST_F(WorkerRosterTest, FillsTheStatusOfWorkers) {
  Add(1, Hello::COLLECTOR, "a");
  Add(2, Hello::LEARNER, "b");
  Add(3, Hello::COLLECTOR, "c");
  Add(4, Hello::COLLECTOR, "d");
  RunningTask* const task = Collects(1, "task");
  task->steps = 40;
  task->rows = 40;
  WorkerStatus* const member = workers_.Find(2)->group.add_member();
  member->set_name("member");
  member->set_alive_seconds(5);
  workers_.Find(2)->group_nanos = At(8);
  workers_.Drain(workers_.Find(3));
  workers_.Remove(workers_.Find(3));
  workers_.Remove(workers_.Find(4));
  RunStatus status;
  workers_.FillStatus(At(10), &status);
  EXPECT_EQ(status.workers_joined(), 4);
  EXPECT_EQ(status.workers_lost(), 1) << "one was let go";
  ASSERT_EQ(status.worker_size(), 2);
  EXPECT_EQ(status.worker(0).task_id(), "task");
  EXPECT_EQ(status.worker(0).alive_seconds(), 10);
  EXPECT_EQ(status.worker(0).steps_per_second(), 4);
  EXPECT_EQ(status.worker(1).member(0).alive_seconds(), 7);
  EXPECT_THAT(workers_.Names(), ElementsAre("a", "b", "member"));
  task->stalls = true;
  task->progress_nanos = At(4);
  RunStatus stalled;
  workers_.FillStatus(At(10), &stalled);
  EXPECT_EQ(stalled.worker(0).stalled_seconds(), 6);
  EXPECT_EQ(stalled.worker(0).waits_for(), "something that it has not reported");
}

}  // namespace
}  // namespace internal_coordinator
}  // namespace ding
