// The folder of one run, the files that are written to it while it runs, and whether a run may
// continue in it.
//
//   <exp_dir>/
//     total_config.textproto    the resolved config
//     result.json               the result, once the run is over
//     ckpt/<name>/              checkpoints and resume points (see run_checkpoints.h)
//     log/<process>/            TensorBoard event files, metrics.csv, the text log and the events
//                               (process_logs.h)
//
// Threads: thread-safe; RunFolder once made.
#ifndef DING_WORKER_WORKER_RUN_FOLDER_RUN_FOLDER_H_
#define DING_WORKER_WORKER_RUN_FOLDER_RUN_FOLDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/run_folder/process_logs.h"

namespace ding {

// Bytes of each file of the logs, by its path below log/.
using LogSizes = std::map<std::string, int64_t>;

// Ownership: owns its ProcessLogs. At most one RunFolder per folder exists on a machine: it holds a
//            lock, which is released when the process ends.
class RunFolder {
 public:
  // Makes the folder of a new run. If `exp_dir` is empty, makes `exp_name` below the current
  // folder, or `exp_name` with the time appended if that one exists already. `process` is the name
  // of its logs.
  //   kAlreadyExists  `exp_dir` was given and exists: a run is never overwritten
  //   kPermissionDenied, kResourceExhausted, ...  the folder cannot be written
  static absl::StatusOr<std::unique_ptr<RunFolder>> Create(const std::string& exp_dir,
                                                           const std::string& exp_name,
                                                           const std::string& process,
                                                           const Clock* clock);
  // Opens the folder of a run that is resumed. Its logs are cut back to `logs`; log files that are
  // not listed there are newer and are removed. Events stay. An old result is removed, too.
  //   kNotFound            there is no such folder
  //   kFailedPrecondition  another process writes to it
  static absl::StatusOr<std::unique_ptr<RunFolder>> Reopen(const std::string& exp_dir,
                                                           const LogSizes& logs,
                                                           const std::string& process,
                                                           const Clock* clock);
  // The same, but the logs are kept and appended to, since other processes write logs there, too.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Continue(const std::string& exp_dir,
                                                             const std::string& process,
                                                             const Clock* clock);
  // Returns kAlreadyExists, as Create() does, if `exp_dir` exists.
  static absl::Status CheckFree(const std::string& exp_dir);
  // Locks a folder, as a run that works in it does, for as long as the result lives.
  //   kFailedPrecondition  another process writes to it
  static absl::StatusOr<std::shared_ptr<void>> TakeLock(const std::string& folder);
  // Returns the absolute path of the folder that Create() would make now; makes nothing.
  static absl::StatusOr<std::string> ChoosePath(const std::string& exp_dir,
                                                const std::string& exp_name, const Clock* clock);
  ~RunFolder();

  // The absolute path, which means the same in every process of the run.
  const std::string& path() const { return path_; }
  const std::shared_ptr<MetricSink>& metrics() const { return logs_->metrics(); }

  // Writes a file of the folder atomically.
  absl::Status WriteText(absl::string_view name, absl::string_view content) const;
  // Returns the first error of the logs since the last call; such errors never interrupt a run.
  absl::Status FlushLogs() { return logs_->Flush(); }
  // Flushes the logs to the disk and returns their sizes.
  absl::StatusOr<LogSizes> MeasureLogs();

 private:
  class Lock;

  RunFolder(std::string path, std::unique_ptr<Lock> lock, std::unique_ptr<ProcessLogs> logs);
  static absl::StatusOr<std::unique_ptr<RunFolder>> OpenLogs(std::string path,
                                                             std::unique_ptr<Lock> lock,
                                                             const std::string& process,
                                                             const Clock* clock);

  const std::string path_;
  const std::unique_ptr<Lock> lock_;
  const std::unique_ptr<ProcessLogs> logs_;
};

// OK if the run `now` may continue from a resume point of the run `saved`: they may differ only in
// name, path of the data set, stop value, stoppers, budgets, periods of logs and the settings of
// resume points. Both are configs as LoadExperimentConfig() returns them.
//   kInvalidArgument  lists every other difference
absl::Status CheckSameExperiment(const ExperimentConfig& saved, const ExperimentConfig& now);

// Write the sizes of the logs into the fields of a resume point's manifest, and read them again.
void DescribeLogs(const LogSizes& logs, CheckpointInfo* info);
LogSizes LogsOfCheckpoint(const CheckpointInfo& info);

// The command that resumes the run in `exp_dir` with `program`, for people. Where the environment
// has a DING_WORKER_COMMAND, as tools/train sets it, this command takes the place of the program.
std::string ResumeCommand(absl::string_view program, const std::string& exp_dir);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_FOLDER_RUN_FOLDER_H_
