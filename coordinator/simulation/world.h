// The world of the simulation: processes of the coordinator, workers, connections, the store and the disk.
//
// Everything that happens is a function in a queue, ordered by the time at which it happens.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_SIMULATION_WORLD_H_
#define DING_WORKER_COORDINATOR_SIMULATION_WORLD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/collector/comm/collector_slave.h"
#include "ding_worker/collector/parallel/collector_link.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/core/run_driver.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/simulation/sim_disk.h"
#include "ding_worker/coordinator/simulation/simulation.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/comm/learner_slave.h"
#include "ding_worker/replay_buffer/buffer.h"

namespace ding {
namespace internal_simulation {

inline constexpr int64_t kMillis = 1000000;
inline constexpr int64_t kSecond = 1000 * kMillis;
inline constexpr int64_t kCapacity = 24;            // rows of the buffer
inline constexpr int64_t kFaultTime = 4 * kSecond;  // faults happen before
inline constexpr int64_t kMaxTime = 600 * kSecond;  // the run must be over then
inline constexpr int64_t kLease = 5 * kSecond;
inline constexpr int64_t kMaxEnvStep = 120;
inline constexpr size_t kMaxLogRecords = 128;
inline constexpr size_t kMaxStored = 96;  // keys
inline constexpr size_t kMaxInbox = 32;   // messages of a worker that the coordinator has not taken
inline constexpr size_t kMaxAgents = 64;
inline constexpr int kDemands = 2;      // that a learner has under way
inline constexpr int64_t kMaxRows = 5;  // of a chunk

using Row = std::pair<int64_t, int64_t>;  // chunk, number in it

class World;
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

// Notes which tasks are given, and whether each is over once.
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
  // Throws if the process says so.
  void MayFail() const;

  Process* const process_;
  std::set<std::string> given_;
  bool recovered_ = false;
};

// One process of the coordinator.
struct Process {
  Process(World* all, SimDisk* disk, int64_t ahead_nanos);

  World* const world;
  MachineClock clock;
  int64_t epoch = 0;  // of its log
  std::unique_ptr<Journal> journal;
  std::unique_ptr<CoordinatorSender> sender;
  IBuffer* buffer = nullptr;  // null: there is none yet
  CheckedCommander* commander = nullptr;
  std::unique_ptr<internal_coordinator::RunDriver> driver;
  std::vector<Row> pushed;  // into its buffer, in order, also those of before
  bool alive = true;
  bool dies = false;             // with its next message
  bool user_code_fails = false;  // with the next call
  bool changed = false;          // since its state was checked last
  bool stopped = false;          // as by SIGSTOP
  bool has_seen_end = false;
  int64_t timer_nanos = -1;  // when the next timer event comes
  int64_t last_envstep = 0;
};

// A worker's process.
struct Agent {
  Hello::Role role = Hello::COLLECTOR;
  std::string name;
  int64_t pid = 0;
  bool gone = false;  // it was told to leave, or its place is not needed
  int life = 0;       // counts its processes
  int64_t stopped_until = 0;
  uint32_t number = 0;  // 0: it has not joined
  int32_t incarnation = 0;
  int session = -1;
  // What it knows of its task, as its real code does:
  StartTask task;
  bool has_task = false;
  CollectorProtocol collector;
  DemandProtocol demands;
  // What it does:
  CollectorProgress progress;
  int64_t chunks_left = 0;
  uint32_t chunk = 0;                         // the next number
  std::map<uint64_t, std::vector<Row>> sent;  // rows by sequence, until they are acknowledged
  std::string last_data;                      // the last message with data
  uint32_t last_data_number = 0;              // the worker's number then
  bool busy = false;                          // something is scheduled for it
  int demands_under_way = 0;
  std::deque<std::pair<uint64_t, std::string>> drawn;  // batches that are to be read, by answer
  uint64_t version =
      0;  // of the policy: the next one of a learner, the one that a collector acts by
};

// A connection between a worker and a process of the coordinator.
struct Session {
  std::shared_ptr<Process> process;
  int agent = 0;
  int life = 0;
  uint32_t number = 0;
  bool open = true;  // as the worker sees it
  bool coordinator_open = true;
  bool silent = false;          // nothing arrives any more
  bool confused = false;        // the worker has sent what another one should have
  bool waits = false;           // the coordinator takes no message now
  int64_t to_worker_nanos = 0;  // when the last message arrives
  int64_t to_coordinator_nanos = 0;
  std::deque<WorkerMessage> inbox;
  uint64_t acknowledged = 0;  // the last number that the coordinator has sent
};

class World {
 public:
  explicit World(const SimulationOptions& options)
      : options_(options), rng_(options.seed, "simulation"), disk_(options.seed % 3 != 0) {
    limited_ = rng_.UniformInt(3) == 0;
    mean_delay_ = static_cast<int64_t>(kMillis * (1 + rng_.UniformInt(20)));
  }

  SimulationResult Run();

  // The following are for the processes.
  int64_t now() const { return clock_.MonotonicNanos(); }
  const Clock* clock() const { return &clock_; }
  void Deliver(Process* from, uint32_t worker, const CoordinatorMessage& message);
  void DeleteKey(const Process& from, const std::string& key);
  absl::StatusOr<std::vector<std::string>> ListKeys(const std::string& prefix) const {
    std::vector<std::string> keys;
    for (auto it = store_.lower_bound(prefix); it != store_.end(); ++it) {
      if (it->compare(0, prefix.size(), prefix) != 0) break;
      keys.push_back(*it);
    }
    return keys;
  }
  bool Has(const std::string& key) const {
    return store_.count(key) > 0 || lost_keys_.count(key) > 0;
  }
  // Adds a line to the trace.
  template <typename... Parts>
  void Trace(const Parts&... parts) {
    if (!options_.traces) return;
    result_.trace.push_back(
        absl::StrCat(absl::FormatDuration(absl::Nanoseconds(now())), "  ", parts...));
  }
  // Says that a rule is broken, and how.
  void Break(const std::string& rule, const std::string& how) {
    Trace("BROKEN: ", rule, ": ", how);
    if (!result_.rule.empty()) return;
    result_.rule = rule;
    result_.broken = absl::StrCat(rule, ": ", how, " (step ", result_.steps, ")");
  }
  bool limited() const { return limited_; }

 private:
  struct Timed {
    int64_t nanos;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Timed& other) const {  // the heap begins with the largest
      return std::tie(nanos, order) > std::tie(other.nanos, other.order);
    }
  };

  void At(int64_t nanos, std::function<void()> what) {
    queue_.push_back({std::max(nanos, now()), ++order_, std::move(what)});
    std::push_heap(queue_.begin(), queue_.end());
  }
  void In(int64_t nanos, std::function<void()> what) { At(now() + nanos, std::move(what)); }
  // A delay around its mean, with a long tail.
  int64_t Delay(int64_t mean) {
    const double factor = rng_.UniformInt(20) == 0 ? 20 : 2;
    return 1 + static_cast<int64_t>(static_cast<double>(mean) * factor * rng_.Uniform());
  }
  // Adds to the digest of all that happens.
  void Note(uint64_t what) {
    result_.digest = (result_.digest ^ what) * 0x9E3779B97F4A7C15;
    result_.digest ^= result_.digest >> 29;
  }

  void PlanFaults();
  void Happen(Fault fault);

  // The coordinator.
  void StartProcess();
  void Kill(const std::shared_ptr<Process>& process);
  void JumpClock(const std::shared_ptr<Process>& process);
  void Operate(const std::shared_ptr<Process>& process);
  void AfterEvents(const std::shared_ptr<Process>& process);
  internal_coordinator::RunDriver::Result Apply(const std::shared_ptr<Process>& process,
                                                Event* event) {
    process->changed = true;
    return process->driver->Apply(process->clock.MonotonicNanos(), event);
  }
  void SetTimer(const std::shared_ptr<Process>& process);
  void TakeInbox(int session);
  void LoseWorker(int session, const std::string& why);
  void CheckRecovered(const Process& process);
  void CheckAlways(Process* process);
  void CheckQueues(const Process& process);
  void CheckTasks(const Process& process);

  // Workers.
  void Connect(int agent);
  void Leave(int agent);
  void CutAtWorker(int session, const std::string& why);
  void Cut(int session, bool half_open);
  // Both sides notice that they have heard nothing for the length of the lease.
  void EndLease(int session);
  void StopWorker(int agent);
  void Send(int agent, WorkerMessage message);
  void Receive(int session, const CoordinatorMessage& message);
  void BeginTask(Agent* agent, const StartTask& start);
  // Notes that a collector knows that the row is safe.
  void NoteAcknowledged(const Process& process, const Row& row);
  void Act(int agent);
  void ActSoon(int agent, int64_t mean);
  void MakeRows();
  void Collect(Agent* agent);
  void Learn(Agent* agent);
  // Lets the learner read the next batch.
  void ReadBatch(Agent* agent);
  void PublishPolicy(Agent* agent);
  void Respawn(int agent);
  void Supervise();
  // Says who waits for what.
  void TraceStatus();
  void AddAgent(Hello::Role role);

  const SimulationOptions options_;
  Rng rng_;
  SimulatedClock clock_;
  SimDisk disk_;
  bool limited_ = false;  // whether the run has a replay ratio
  int64_t mean_delay_ = kMillis;
  std::vector<Timed> queue_;  // a heap
  uint64_t order_ = 0;
  SimulationResult result_;

  std::shared_ptr<Process> process_;  // the newest
  std::vector<std::shared_ptr<Process>> processes_;
  std::vector<Session> sessions_;
  std::vector<Agent> agents_;
  std::vector<SegmentBatch> rows_;  // what collectors collect: one row, two rows, ...
  int64_t pids_ = 100;
  std::set<std::string> store_;
  std::set<uint32_t> numbers_;       // that workers were given
  std::set<Row> acknowledged_;       // rows of which a collector knows that they are safe
  std::set<std::string> lost_keys_;  // by the store
  bool power_was_lost_ = false;
  int64_t true_steps_ = 0;  // of all collectors
  int64_t checkpoint_ = 0;  // the learner's train iteration in its checkpoint
  bool over_ = false;
};

}  // namespace internal_simulation
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_SIMULATION_WORLD_H_
