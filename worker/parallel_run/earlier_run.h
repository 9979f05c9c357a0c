// Finds out from where a run goes on that begins with a checkpoint of an earlier one
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

// Returns the env steps of the earlier run, from which this one goes on counting; 0 if the config does
// not want that. A run of `journal` (which may be null) has its own count, so that it needs the
// checkpoint no more.
//   kInvalidArgument  the checkpoint does not say how many they were
//   other codes       it cannot be read
absl::StatusOr<int64_t> FirstEnvStep(const ExperimentConfig& config, const Journal* journal);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_EARLIER_RUN_H_
