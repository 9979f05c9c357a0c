// The folder of one run, and what is written to it while it runs.
//
//   <exp_dir>/
//     total_config.textproto    the resolved config
//     result.json               what came out, once the run is over
//     ckpt/<name>/              checkpoints and resume points (see run_checkpoints.h)
//     log/serial/               TensorBoard event files
//     log/metrics.csv           the same scalars for other readers
//     log/serial_logger.txt     the text log: everything that the workers say
//
// Ownership: while it lives, what is logged by glog in this process goes to the text log; at most
//            one lives at a time. Of one folder at most one lives on the machine: it holds a lock,
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
#include "ding_worker/metrics/text_log.h"

namespace ding {

// Bytes of each file of the logs, by its path below log/.
using LogSizes = std::map<std::string, int64_t>;

class RunFolder {
 public:
  // Makes the folder `exp_dir`, or, if that is empty, `exp_name` below the current folder; when
  // that one exists already, `exp_name` with the time behind it.
  //   kAlreadyExists                            exp_dir was asked for and is there: a run is never
  //   overwritten kPermissionDenied, kResourceExhausted...  the folder cannot be written
  static absl::StatusOr<std::unique_ptr<RunFolder>> Create(const std::string& exp_dir,
                                                           const std::string& exp_name,
                                                           const Clock* clock);
  // Opens the folder of a run that goes on. Its logs are cut back to `logs`; what is not among them
  // came later, and is removed. So is an old result.
  //   kNotFound            there is no such folder
  //   kFailedPrecondition  another process writes to it
  static absl::StatusOr<std::unique_ptr<RunFolder>> Reopen(const std::string& exp_dir,
                                                           const LogSizes& logs,
                                                           const Clock* clock);
  ~RunFolder();

  const std::string& path() const { return path_; }
  const std::shared_ptr<MetricSink>& metrics() const { return metrics_; }

  // Writes a file of the folder as a whole.
  absl::Status WriteText(absl::string_view name, absl::string_view content) const;
  // The first error of the logs since the last call: they never interrupt a run.
  absl::Status FlushLogs();
  // Flushes, and returns how long the logs are now.
  absl::StatusOr<LogSizes> MeasureLogs();

 private:
  class GlogSink;
  class Lock;

  RunFolder(std::string path, std::unique_ptr<Lock> lock, std::shared_ptr<MetricSink> metrics,
            std::unique_ptr<TextLog> log);
  static absl::StatusOr<std::unique_ptr<RunFolder>> OpenLogs(std::string path,
                                                             std::unique_ptr<Lock> lock,
                                                             const Clock* clock);

  const std::string path_;
  const std::unique_ptr<Lock> lock_;
  const std::shared_ptr<MetricSink> metrics_;
  const std::unique_ptr<TextLog> log_;
  const std::unique_ptr<GlogSink> glog_sink_;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_FOLDER_H_
