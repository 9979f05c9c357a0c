// The coordinator's process of a parallel run, from its config to its result.
//
// Threads: for main().
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/interaction/transport.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/run_result.h"

namespace ding {

struct ParallelRunOptions {
  std::string exp_dir;  // as of RunFolder::Create()
  std::string listen;   // where workers are to connect to
  // Program to start as worker processes, which are watched; empty: somebody else starts them.
  std::string program;
  std::string program_name;                // as it is told; empty: `program`
  std::vector<std::string> program_flags;  // that each of them gets, besides those of its part
  // Asked now and then: whether to end the run.
  std::function<bool()> interrupted = [] { return false; };
};

// Runs until it has converged, its budget is used up, or it is interrupted; writes the run's folder
// and returns the result. `config` has no FindParallelProblems().
absl::StatusOr<RunResult> RunParallel(const ExperimentConfig& config,
                                      const ParallelRunOptions& options, Transport* transport);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_H_
