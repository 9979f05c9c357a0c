// Kills processes of a parallel run at random moments, and checks that the run continues, converges
// when it is allowed to, has lost nothing that was acknowledged, replaces everything that was
// killed, and leaves nothing behind: no process, no data in the store or in the memory of the
// machine, and no open file of the process that supervises the others.
//
//     RunSoak ── starts ──► the run ◄── SIGKILL, at a random moment, of one that does something
//        └── asks for its status: has the victim's successor taken up its work?
//
// Threads: to be called from main() and tests. The caller must have called AdoptOrphans().
// Errors:  kInternal says what the run did not do, with the end of its output.
#ifndef DING_WORKER_WORKER_TESTING_SOAK_H_
#define DING_WORKER_WORKER_TESTING_SOAK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

enum class Victim {
  kCollector,     // one that collects
  kEvaluator,     // a collector that evaluates
  kLearner,       // the only one
  kGroupLearner,  // one of those that learn together
  kAggregator,
  kCoordinator,
  kRedis,
};

// A name for people: "a collector".
std::string NameOf(Victim victim);

struct SoakOptions {
  std::string program = "worker/parallel";
  std::string config = "worker/configs/cartpole_dqn_soak.textproto";
  std::string folder;                  // folder of the run, which must not exist
  bool relative_folder = false;        // the program gets it relative to the current folder
  std::vector<std::string> arguments;  // further arguments of the program
  uint64_t seed = 0;                   // seed of the run, and of the choice of moments and victims
  // Each victim is killed once, in a random order, before any is killed again.
  std::vector<Victim> victims = {Victim::kCollector, Victim::kEvaluator, Victim::kLearner,
                                 Victim::kCoordinator};
  // The Redis in which the run stores its data and its journal; it must keep every write that it
  // has acknowledged. Null: the data are in the memory of the machine, and the journal is in a
  // file.
  RedisServer* redis = nullptr;
  int kills = 20;
  double seconds = 60;  // time span of the kills; the run does not converge before, nor soon after
  double stop_value = 195;
  // Called with one line for each event.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

struct SoakKill {
  Victim victim;
  // Time until a successor does the victim's work. For the coordinator: until the first new sample.
  // For Redis: until rows come and the learner continues. Negative: the run had converged before.
  double back_seconds = -1;
};

struct SoakReport {
  std::vector<SoakKill> kills;
  int64_t rows_pushed = 0;
  int64_t rows_acknowledged = 0;
  int64_t rows_evicted = 0;
  double converged_after = 0;  // seconds beyond options.seconds
};

absl::StatusOr<SoakReport> RunSoak(const SoakOptions& options, Transport* transport);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_SOAK_H_
