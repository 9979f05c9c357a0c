// Finds out how many env steps a run counts on from that begins with a checkpoint of an earlier run
// (policy.learn.resume_training).
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_EARLIER_RUN_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_EARLIER_RUN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Returns the env steps of the earlier run, from which this one counts on; 0 if the config does not set resume_training. A
// run that is in `journal` (which may be null) has its own count and does not need the checkpoint any more.
//   kInvalidArgument  the checkpoint does not say how many they were
//   other codes       it cannot be read
absl::StatusOr<int64_t> FirstEnvStep(const ExperimentConfig& config, const Journal* journal);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_EARLIER_RUN_H_
