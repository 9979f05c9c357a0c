// The invariants of the simulation, and the history by which they are checked.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_SIMULATION_INVARIANTS_H_
#define DING_WORKER_COORDINATOR_SIMULATION_INVARIANTS_H_

#include <cstdint>
#include <set>
#include <utility>

namespace ding {
namespace internal_simulation {

struct World;
struct Process;

using Row = std::pair<int64_t, int64_t>;  // chunk, number in it

class Invariants {
 public:
  explicit Invariants(World* world) : world_(world) {}

  // A worker is given a number.
  void NoteNumber(uint32_t number);
  // A collector makes steps.
  void NoteSteps(int64_t steps) { true_steps_ += steps; }
  // A collector knows that the row is safe.
  void NoteAcknowledged(const Process& process, const Row& row);
  void NotePowerLoss() { power_was_lost_ = true; }
  // A coordinator starts, after the one before, if there was one.
  void NoteStart();
  void CheckRecovered(const Process& before, const Process& process);
  // Checks the changes of a process since the last call.
  void CheckAlways(Process* process);

 private:
  void CheckQueues(const Process& process) const;
  void CheckTasks(const Process& process) const;

  World* const world_;
  std::set<uint32_t> numbers_;  // that workers were given
  std::set<Row> acknowledged_;
  bool power_was_lost_ = false;
  int64_t true_steps_ = 0;  // of all collectors
};

}  // namespace internal_simulation
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_SIMULATION_INVARIANTS_H_
