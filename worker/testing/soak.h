// Kills workers and coordinators of a parallel run at random moments, and checks that the run goes on, converges when
// it is allowed to, and has lost nothing that was acknowledged.
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
#include "absl/time/time.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

struct SoakOptions {
  std::string program = "worker/parallel";
  std::string config = "worker/configs/cartpole_dqn_soak.textproto";
  std::string folder;  // of the run, which must not exist
  uint64_t seed = 0;   // of the run, and of moments and victims
  // In turn of a collector that collects, one that evaluates, the learner and the coordinator.
  int kills = 20;
  double seconds = 60;  // in which they happen; the run does not converge before
  double stop_value = 195;
  // Told what happens, in a line.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

struct SoakReport {
  int64_t kills = 0;
  // From the death of each collector to the first news of its successor's env steps; seconds.
  std::vector<double> recoveries;
  int64_t rows_pushed = 0;
  int64_t rows_acknowledged = 0;
  int64_t rows_evicted = 0;
  double converged_after = 0;  // seconds beyond options.seconds
  std::string result;          // the run's, as JSON
};

absl::StatusOr<SoakReport> RunSoak(const SoakOptions& options, Transport* transport);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_SOAK_H_
