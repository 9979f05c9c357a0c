// Decides whether a run may continue from a resume point, and stores the sizes of the run's logs in
// its manifest.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_RUN_RESUME_H_
#define DING_WORKER_WORKER_RUN_RESUME_H_

#include "absl/status/status.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/run/run_folder.h"

namespace ding {

// OK if the run `now` continues the run `saved`: they may differ only in name, path of the data
// set, stop value, stoppers, budgets, periods of logs and the settings of resume points. Both are configs as
// LoadExperimentConfig() returns them.
//   kInvalidArgument  lists every other difference
absl::Status CheckSameExperiment(const ExperimentConfig& saved, const ExperimentConfig& now);

// Writes the sizes of the logs into the fields of a resume point's manifest, and reads them again.
void DescribeLogs(const LogSizes& logs, CheckpointInfo* info);
LogSizes LogsOfCheckpoint(const CheckpointInfo& info);

// The command that resumes the run in `exp_dir` with `program`, for people. Where the environment has a
// DING_WORKER_COMMAND, as tools/train sets it, this command takes the place of the program.
std::string ResumeCommand(absl::string_view program, const std::string& exp_dir);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_RESUME_H_
