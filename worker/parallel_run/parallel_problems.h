// Finds what a parallel run cannot do.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_PROBLEMS_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_PROBLEMS_H_

#include <string>
#include <vector>

#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Returns one sentence for each thing in the config that a parallel run cannot do, or not as it is
// set.
std::vector<std::string> FindParallelProblems(const ExperimentConfig& config);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_PROBLEMS_H_
