// The folder of one run, and what is written to it while it runs.
//
//   <exp_dir>/
//     total_config.textproto    the resolved config
//     result.json               what came out, once the run is over
//     ckpt/<name>/              checkpoints and resume points (see run_checkpoints.h)
//     log/<process>/            TensorBoard event files, metrics.csv and the text log
//                               (process_logs.h)
//
// Ownership: owns its ProcessLogs. Of one folder at most one lives on the machine: it holds a lock,
//            which goes with the process.
// Threads:   thread-safe once made.
#ifndef DING_WORKER_WORKER_RUN_FOLDER_H_
#define DING_WORKER_WORKER_RUN_FOLDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/process_logs.h"

namespace ding {

// Bytes of each file of the logs, by its path below log/.
using LogSizes = std::map<std::string, int64_t>;

class RunFolder {
 public:
  // `process` names its logs. Makes the folder `exp_dir`, or, if that is empty, `exp_name` below the
  // current folder; when that one exists already, `exp_name` with the time behind it.
  //   kAlreadyExists  exp_dir was asked for and is there: a run is never overwritten
  //   kPermissionDenied, kResourceExhausted, ...  the folder cannot be written
  static absl::StatusOr<std::unique_ptr<RunFolder>> Create(const std::string& exp_dir,
                                                           const std::string& exp_name,
                                                           const std::string& process,
                                                           const Clock* clock);
  // Opens the folder of a run that goes on. Its logs are cut back to `logs`; what is not among them
  // came later, and is removed. So is an old result.
  //   kNotFound            there is no such folder
  //   kFailedPrecondition  another process writes to it
  static absl::StatusOr<std::unique_ptr<RunFolder>> Reopen(const std::string& exp_dir,
                                                           const LogSizes& logs,
                                                           const std::string& process,
                                                           const Clock* clock);
  // The same, but for the logs, which other processes write, too: they are appended to.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Continue(const std::string& exp_dir,
                                                             const std::string& process,
                                                             const Clock* clock);
  // kAlreadyExists, as of Create(), if it is there.
  static absl::Status CheckFree(const std::string& exp_dir);
  // The folder that Create() would make now, from the root; nothing is made.
  static absl::StatusOr<std::string> ChoosePath(const std::string& exp_dir,
                                                const std::string& exp_name, const Clock* clock);
  ~RunFolder();

  // From the root: it means the same in every process of the run.
  const std::string& path() const { return path_; }
  const std::shared_ptr<MetricSink>& metrics() const { return logs_->metrics(); }

  // Writes a file of the folder as a whole.
  absl::Status WriteText(absl::string_view name, absl::string_view content) const;
  // The first error of the logs since the last call: they never interrupt a run.
  absl::Status FlushLogs() { return logs_->Flush(); }
  // Flushes, and returns how long the logs are now.
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

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_FOLDER_H_
