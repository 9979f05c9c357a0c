// Whether a run may go on from a resume point, and what a resume point says of the run's folder.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_RESUME_H_
#define DING_WORKER_WORKER_RESUME_H_

#include "absl/status/status.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/run_folder.h"

namespace ding {

// OK if the run `now` continues the run `saved`: they differ in nothing but the name, stop value,
// budgets, periods of logs and the settings of resume points. Both as LoadExperimentConfig() returns
// them.
//   kInvalidArgument  lists every other difference
absl::Status CheckSameExperiment(const ExperimentConfig& saved, const ExperimentConfig& now);

// The fields of a resume point's manifest that say how far logs and time had come.
void DescribeLogs(const LogSizes& logs, CheckpointInfo* info);
LogSizes LogsOfCheckpoint(const CheckpointInfo& info);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RESUME_H_
