// Runs all processes of a parallel run on this machine: starts the coordinator and the workers,
// replaces each one that dies, and keeps as many collectors running as the coordinator wants.
//
//     RunParallelJob ──► Supervisor ──► coordinator ◄── learner-0, collector-0, collector-1 ...
//           │                              ▲
//           └──────── asks for the status ─┘
//
// A coordinator that is killed is started again at the same address and continues the run; workers
// join it again. A coordinator that has answered before and stops answering is killed. A
// coordinator that ends by itself has ended the run, if there is a result. A worker that is alive
// but has been missing from the status for a while hangs or is stopped: it is replaced.
//
// Ownership: owns the processes. If this process dies, they end too: the coordinator ends the run
//            as if it had been interrupted.
// Threads:   to be called from main().
#ifndef DING_WORKER_WORKER_PROCESSES_PARALLEL_JOB_H_
#define DING_WORKER_WORKER_PROCESSES_PARALLEL_JOB_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

struct ParallelJobOptions {
  std::string program;       // path
  std::string program_name;  // argv[0] of the processes
  std::string exp_dir;       // folder of the run, absolute; must not exist, unless it is resumed
  bool resume = false;
  // Arguments for the coordinator besides its role and folder: config, settings, address to listen
  // on.
  std::vector<std::string> coordinator_arguments;
  // Arguments for all processes, which they need to connect to each other.
  std::vector<std::string> link_arguments;
  int gpus = 0;      // that each worker reports
  int learners = 1;  // more than one learn together, through an aggregator that starts them
  int learner_tasks =
      1;               // at a time, at least 1, each with a learner of its own if there are several
  int collectors = 1;  // their number until the coordinator asks for another number
  // Polled: returns the signal that interrupted this process, or 0 if none did.
  std::function<int()> interrupted = [] { return 0; };
};

// Returns the exit status of the coordinator, which has reported the result of the run or why there
// is none. If the run does not end in order, prints where the data are from which it can continue.
//   kInternal  one of the processes keeps ending soon after its start, or the coordinator has ended
//              as if the run had come to its end, and left no result
absl::StatusOr<int> RunParallelJob(const ParallelJobOptions& options, Transport* transport);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROCESSES_PARALLEL_JOB_H_
