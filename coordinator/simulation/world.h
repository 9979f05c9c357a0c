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
#include <queue>
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
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/core/run_driver.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/simulation/sim_disk.h"
#include "ding_worker/coordinator/simulation/simulation.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_simulation {

inline constexpr int64_t kMillis = 1000000;
inline constexpr int64_t kSecond = 1000 * kMillis;
inline constexpr int64_t kCapacity = 24;            // rows of the buffer
inline constexpr int64_t kFaultTime = 6 * kSecond;  // faults happen before
inline constexpr int64_t kMaxTime = 600 * kSecond;  // the run must be over then
inline constexpr int64_t kLease = 5 * kSecond;
inline constexpr int64_t kMaxEnvStep = 250;
inline constexpr size_t kMaxAgents = 64;
inline constexpr size_t kUnderWay = 3;  // announcements of a collector without an acknowledgement

using Row = std::pair<int64_t, int64_t>;  // chunk, number in it

class World;

// Notes which tasks are given, and whether each is over once.
class CheckedCommander : public SoloCommander {
 public:
  CheckedCommander(const SoloCommander& solo, World* world) : SoloCommander(solo), world_(world) {}

  std::optional<CollectorTask> GetCollectorTask() override {
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
  void FinishLearnerTask(const LearnerTask& task) override {
    NoteOver(task.task_id());
    SoloCommander::FinishLearnerTask(task);
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

  World* const world_;
  std::set<std::string> given_;
  bool recovered_ = false;
};

// One process of the coordinator.
struct Process {
  Process(World* all, SimDisk* disk);

  World* const world;
  std::unique_ptr<Journal> journal;
  std::unique_ptr<CoordinatorSender> sender;
  std::unique_ptr<internal_coordinator::RunDriver> driver;
  CheckedCommander* commander = nullptr;
  std::vector<Row> pushed;  // into its buffer, in order, also those of before
  bool alive = true;
  bool stopped = false;  // as by SIGSTOP
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
  // What it knows of its task:
  StartTask task;
  bool has_task = false;
  int64_t steps = 0;
  int64_t chunks_left = 0;
  uint32_t chunk = 0;  // the next number
  uint64_t sequence = 0;
  uint64_t acknowledged = 0;
  std::map<uint64_t, std::vector<Row>> sent;  // rows by sequence
  std::string last_data;                      // the last message with data
  bool busy = false;                          // something is scheduled for it
  uint64_t demand = 0;
  uint64_t read = 0;
  uint64_t version = 0;
};

// A connection between a worker and a process of the coordinator.
struct Session {
  std::shared_ptr<Process> process;
  int agent = 0;
  int life = 0;
  uint32_t number = 0;
  bool open = true;  // as the worker sees it
  bool coordinator_open = true;
  bool waits = false;           // the coordinator takes no message now
  int64_t to_worker_nanos = 0;  // when the last message arrives
  int64_t to_coordinator_nanos = 0;
  std::deque<WorkerMessage> inbox;
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
  void DeleteKey(const std::string& key);
  absl::StatusOr<std::vector<std::string>> ListKeys(const std::string& prefix) const {
    std::vector<std::string> keys;
    for (auto it = store_.lower_bound(prefix); it != store_.end(); ++it) {
      if (it->compare(0, prefix.size(), prefix) != 0) break;
      keys.push_back(*it);
    }
    return keys;
  }
  // Says that a rule is broken, and how.
  void Break(const std::string& rule, const std::string& how) {
    Trace(absl::StrCat("BROKEN: ", rule, ": ", how));
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
    bool operator<(const Timed& other) const {  // the queue begins with the largest
      return std::tie(nanos, order) > std::tie(other.nanos, other.order);
    }
  };

  void At(int64_t nanos, std::function<void()> what) {
    queue_.push({std::max(nanos, now()), ++order_, std::move(what)});
  }
  void In(int64_t nanos, std::function<void()> what) { At(now() + nanos, std::move(what)); }
  // A delay around its mean, with a long tail.
  int64_t Delay(int64_t mean) {
    const double factor = rng_.UniformInt(20) == 0 ? 20 : 2;
    return 1 + static_cast<int64_t>(static_cast<double>(mean) * factor * rng_.Uniform());
  }
  void Trace(const std::string& line) {
    if (!options_.traces) return;
    result_.trace.push_back(
        absl::StrCat(absl::FormatDuration(absl::Nanoseconds(now())), "  ", line));
  }

  void PlanFaults();
  void Happen(Fault fault);

  // The coordinator.
  void StartProcess();
  void Kill(const std::shared_ptr<Process>& process);
  void AfterEvents(const std::shared_ptr<Process>& process);
  internal_coordinator::RunDriver::Result Apply(const std::shared_ptr<Process>& process,
                                                Event* event) {
    return process->driver->Apply(now(), event);
  }
  void SetTimer(const std::shared_ptr<Process>& process);
  void TakeInbox(int session);
  void LoseWorker(int session, const std::string& why);
  void CheckRecovered(const Process& process);
  void CheckAlways(Process* process);

  // Workers.
  void Connect(int agent);
  void Leave(int agent);
  void CutAtWorker(int session, const std::string& why);
  void Cut(int session, bool half_open);
  void Send(int agent, WorkerMessage message);
  void Receive(int session, const CoordinatorMessage& message);
  void Act(int agent);
  void ActSoon(int agent, int64_t mean);
  void Collect(Agent* agent);
  void Learn(Agent* agent);
  void TakeAnswer(Agent* agent, const LearnerData& data);
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
  std::priority_queue<Timed> queue_;
  uint64_t order_ = 0;
  SimulationResult result_;

  std::shared_ptr<Process> process_;  // the newest
  std::vector<Session> sessions_;
  std::vector<Agent> agents_;
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
