// The processes of the coordinator: its real code, with a commander and a buffer that check their
// calls.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_SIMULATION_COORDINATORS_H_
#define DING_WORKER_COORDINATOR_SIMULATION_COORDINATORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/core/run_driver.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/simulation/invariants.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/replay_buffer/buffer.h"

namespace ding {
namespace internal_simulation {

struct World;
struct Process;

// The clock of a machine: ahead of the world's time, by ever more.
class MachineClock : public Clock {
 public:
  MachineClock(const Clock* world, int64_t ahead_nanos) : world_(*world), ahead_(ahead_nanos) {}
  absl::Time Now() const override { return world_.Now() + absl::Nanoseconds(ahead_); }
  int64_t MonotonicNanos() const override { return world_.MonotonicNanos() + ahead_; }
  void Jump(int64_t nanos) { ahead_ += nanos; }

 private:
  const Clock& world_;
  int64_t ahead_;
};

// Notes which tasks are given, and checks that each one ends exactly once.
class CheckedCommander : public SoloCommander {
 public:
  CheckedCommander(const SoloCommander& solo, Process* process)
      : SoloCommander(solo), process_(process) {}

  std::optional<CollectorTask> GetCollectorTask() override {
    MayFail();
    std::optional<CollectorTask> task = SoloCommander::GetCollectorTask();
    if (task.has_value()) given_.insert(task->task_id());
    return task;
  }
  std::optional<LearnerTask> GetLearnerTask() override {
    std::optional<LearnerTask> task = SoloCommander::GetLearnerTask();
    if (task.has_value()) given_.insert(task->task_id());
    return task;
  }
  bool FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) override {
    NoteOver(task.task_id());
    return SoloCommander::FinishCollectorTask(task, info);
  }
  std::string FinishLearnerTask(const LearnerTask& task) override {
    NoteOver(task.task_id());
    return SoloCommander::FinishLearnerTask(task);
  }
  void NotifyFailCollectorTask(const CollectorTask& task) override {
    NoteOver(task.task_id());
    SoloCommander::NotifyFailCollectorTask(task);
  }
  void NotifyFailLearnerTask(const LearnerTask& task) override {
    NoteOver(task.task_id());
    SoloCommander::NotifyFailLearnerTask(task);
  }

  // Tasks of an earlier coordinator are not checked.
  void set_recovered() { recovered_ = true; }
  // The number of tasks that were given by this commander and are not over.
  size_t open() const { return given_.size(); }

 private:
  void NoteOver(const std::string& task_id);
  // Throws if Process::user_code_fails is set.
  void MayFail() const;

  Process* const process_;
  std::set<std::string> given_;
  bool recovered_ = false;
};

// One process of the coordinator.
struct Process {
  Process(World* all, int64_t ahead_nanos);

  // Whether it takes messages.
  bool works() const { return alive && !stopped; }

  World* const world;
  MachineClock clock;
  int64_t epoch = 0;  // of its log
  std::unique_ptr<Journal> journal;
  std::unique_ptr<CoordinatorSender> sender;
  IBuffer* buffer = nullptr;  // null: there is none yet
  CheckedCommander* commander = nullptr;
  std::unique_ptr<internal_coordinator::RunDriver> driver;
  std::vector<Row>
      pushed;  // all rows that this process and its predecessors pushed into the buffer, in order
  bool alive = true;
  bool dies = false;             // with its next message
  bool user_code_fails = false;  // with the next call
  bool changed = false;          // since its state was checked last
  bool stopped = false;          // as by SIGSTOP
  bool has_seen_end = false;
  int64_t timer_nanos = -1;  // when the next timer event comes
  int64_t last_envstep = 0;
};

class Coordinators {
 public:
  explicit Coordinators(World* world) : world_(world) {}

  // The process that started last; null: no process could start yet.
  const std::shared_ptr<Process>& newest() const { return newest_; }
  bool works() const { return newest_ != nullptr && newest_->works(); }
  // Whether the newest one has ended the run.
  bool over() const { return over_; }

  void Start();
  void Kill(const std::shared_ptr<Process>& process);
  // Stops the newest process, starts another one, and lets the first one wake up.
  void ReplaceSlow();
  void JumpClock();
  // An operator sends a request.
  void Operate();
  internal_coordinator::RunDriver::Result Apply(const std::shared_ptr<Process>& process,
                                                Event* event);
  // Writes the records and carries out the effects of the applied events.
  void AfterEvents(const std::shared_ptr<Process>& process);
  void DeleteKey(const Process& from, const std::string& key);
  // Checks all processes.
  void Check();

 private:
  void SetTimer(const std::shared_ptr<Process>& process);

  World* const world_;
  std::shared_ptr<Process> newest_;
  std::vector<std::shared_ptr<Process>> processes_;
  bool over_ = false;
};

}  // namespace internal_simulation
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_SIMULATION_COORDINATORS_H_
