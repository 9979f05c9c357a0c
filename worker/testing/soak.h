// Kills processes of a parallel run at random moments, and checks that the run goes on, converges when it is allowed
// to, has lost nothing that was acknowledged, brings everybody back, and leaves nothing behind: no process, no data in the store or in the
// memory of the machine, no open file of whoever watches the processes.
//
//     RunSoak ── starts ──► the run ◄── SIGKILL, at a random moment, of one that does something
//        └── asks for its status: has the victim's successor taken up its work?
//
// Threads: for main() and tests. The caller has called AdoptOrphans().
// Errors:  kInternal says what the run did not do, with the end of what it said.
#ifndef DING_WORKER_WORKER_TESTING_SOAK_H_
#define DING_WORKER_WORKER_TESTING_SOAK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

enum class Victim {
  kCollector,     // that collects
  kEvaluator,     // a collector that evaluates
  kLearner,       // the only one
  kGroupLearner,  // one of those that learn together
  kAggregator,
  kCoordinator,
  kRedis,
};

// For people: "a collector".
std::string NameOf(Victim victim);

struct SoakOptions {
  std::string program = "worker/parallel";
  std::string config = "worker/configs/cartpole_dqn_soak.textproto";
  std::string folder;            // of the run, which must not exist
  bool relative_folder = false;  // the program is told of it by its path from the current folder
  std::vector<std::string> arguments;  // more of them
  uint64_t seed = 0;                   // of the run, and of moments and victims
  // All get their turn before one gets its next, in a random order.
  std::vector<Victim> victims = {Victim::kCollector, Victim::kEvaluator, Victim::kLearner,
                                 Victim::kCoordinator};
  // Where the run stores its data and its journal; null: in the memory of the machine, and a file. It
  // keeps what it has replied to.
  RedisServer* redis = nullptr;
  int kills = 20;
  double seconds = 60;  // in which they happen; the run does not converge before, nor soon after
  double stop_value = 195;
  // Told what happens, in a line.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

struct SoakKill {
  Victim victim;
  // Until a successor does the victim's work; of the coordinator: until the first new sample; of
  // Redis: until rows come and the learner goes on. Negative: the run had converged before.
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
