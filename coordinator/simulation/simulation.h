// Runs a whole control plane in one thread on a virtual clock: the coordinator's real state
// machine, driver and journal, with models of its collectors, its learner, operators, the store,
// the network and the disk. Faults happen at random moments. After every step the simulation checks
// its invariants (invariants.h).
//
//     seed ──► faults, delays ──► [ workers ◄─ network ─► RunDriver ◄─► Journal ◄─► disk ] ──► a broken rule, or none
//
// A seed repeats a run exactly.
//
// Threads: thread-compatible; several simulations may run at once, each on a thread of its own.
#ifndef DING_WORKER_COORDINATOR_SIMULATION_SIMULATION_H_
#define DING_WORKER_COORDINATOR_SIMULATION_SIMULATION_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ding {

// What goes wrong.
enum class Fault {
  kKillCoordinator,  // its process dies, perhaps before it sends what it has written, and another one continues
  kPowerLoss,    // the same, and the disk loses unsynced commits
  kReplaceSlow,  // the process is stopped, another one takes its place, and the first one wakes up
  kKillCollector,  // and another process takes its place
  kKillLearner,    // likewise
  kCutConnection,  // both sides notice
  kHalfOpen,       // one side, or none, notices before the lease runs out
  kSlowWorker,     // it stops for a while, perhaps for longer than its lease
  kSlowNetwork,    // messages take long for a while
  kClockJump,      // the clock of the coordinator's machine jumps forward
  kFullDisk,       // for a while nothing can be written
  kLostChunks,     // the store loses some data
  kRepeatMessage,  // a collector repeats its last data, perhaps after it has joined again
  kOperator,       // the operator grows, shrinks, drains or stops
  kUserCodeFails,  // the commander or the buffer throws, which ends the run
};
inline constexpr int kFaults = 15;
std::string FaultName(Fault fault);

struct SimulationOptions {
  uint64_t seed = 0;
  int planted = 0;                  // the bug that is planted; 0: none
  bool traces = false;              // whether Result::trace says what happens
  std::vector<bool> left_out = {};  // faults that do not happen, by their number in the run
};

struct SimulationResult {
  int64_t steps = 0;
  std::array<int64_t, kFaults> faults{};  // how many of each kind happened
  int64_t planned_faults = 0;
  std::string rule;     // the rule that was broken; empty: none
  std::string broken;   // the same, with what was found
  uint64_t digest = 0;  // of all that happened: a seed always has the same one
  std::vector<std::string> trace;
};

SimulationResult Simulate(const SimulationOptions& options);

// Returns options for the smallest run that it finds and that breaks the same rule: it leaves out
// faults of a run that breaks a rule, as long as that rule is still broken.
SimulationOptions Shrink(SimulationOptions options);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_SIMULATION_SIMULATION_H_
