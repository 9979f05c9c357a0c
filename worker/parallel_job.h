// All processes of a parallel run on this machine: starts the coordinator and the workers, starts
// another in the place of whichever dies, and keeps as many collectors as the coordinator wants.
//
//     RunParallelJob ──► Supervisor ──► coordinator ◄── learner-0, collector-0, collector-1 ...
//           │                              ▲
//           └──────── asks for the status ─┘
//
// A coordinator that is killed is started again, at the same address, and goes on with the run: workers
// join it again. One that has answered and then answers no more is killed. One that ends by itself has
// ended the run, if there is a result. A worker that lives and has been gone from the status for a while hangs, or is
// stopped: it is replaced.
//
// Ownership: owns the processes. If this process dies, they end: the coordinator ends the run as
//            when it is interrupted.
// Threads:   for main().
#ifndef DING_WORKER_WORKER_PARALLEL_JOB_H_
#define DING_WORKER_WORKER_PARALLEL_JOB_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

struct ParallelJobOptions {
  std::string program;       // path
  std::string program_name;  // as it is told
  std::string exp_dir;       // of the run, absolute; must not exist, unless it is resumed
  bool resume = false;
  // For the coordinator, beside its role and folder: config, settings, where to listen.
  std::vector<std::string> coordinator_arguments;
  // For all processes: what they need to reach each other.
  std::vector<std::string> link_arguments;
  int learners = 1;    // more than one learn together, by an aggregator that starts them
  int collectors = 1;  // until the coordinator says how many
  // Asked now and then: the signal that interrupted this process; 0: none did.
  std::function<int()> interrupted = [] { return 0; };
};

// The exit status of the coordinator, which has reported its result, or why there is none.
// When there is no orderly end it says where data are that the run can go on with.
//   kInternal  one of the processes keeps ending soon after its start, or the coordinator has ended
//              as if the run had come to its end, and left no result
absl::StatusOr<int> RunParallelJob(const ParallelJobOptions& options, Transport* transport);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_JOB_H_
