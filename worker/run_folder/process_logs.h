// The logs of one process of a run, below the run's folder:
//
//   <exp_dir>/log/<process>/             TensorBoard event files
//   <exp_dir>/log/metrics.csv            the same scalars for other readers
//   <exp_dir>/log/<process>_logger.txt   the text log: everything that the process logs
//   <exp_dir>/log/events.jsonl           those of its lines that are events of the run
//
// The CSV and the events of a worker are <process>.csv and <process>_events.jsonl instead.
//
// LogToGlog() sends the log lines to glog before there is a run's folder.
//
// Threads: thread-safe; ProcessLogs once made.
#ifndef DING_WORKER_WORKER_RUN_FOLDER_PROCESS_LOGS_H_
#define DING_WORKER_WORKER_RUN_FOLDER_PROCESS_LOGS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/metrics/event_log.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/text_log.h"

namespace ding {

// In the folder of the logs: the events of the run. A run that goes on keeps them.
inline constexpr char kEventsName[] = "events.jsonl";

// "<exp_dir>/log"
std::string LogFolder(absl::string_view exp_dir);

// Ownership: while this object lives, what this process logs (base/log.h, glog) goes to the text
//            log and to the events; at most one such object lives at a time.
class ProcessLogs {
 public:
  enum class Of { kRun, kWorker };

  // Appends to existing logs. kPermissionDenied, kResourceExhausted, ...: they cannot be written.
  static absl::StatusOr<std::unique_ptr<ProcessLogs>> Open(const std::string& exp_dir,
                                                           const std::string& process, Of of,
                                                           const Clock* clock);
  ~ProcessLogs();

  const std::shared_ptr<MetricSink>& metrics() const { return metrics_; }

  // Returns the first error since the last call; errors of logs never interrupt a run.
  absl::Status Flush();

 private:
  class GlogSink;

  ProcessLogs(std::shared_ptr<MetricSink> metrics, std::unique_ptr<TextLog> log,
              std::unique_ptr<EventLog> events);

  const std::shared_ptr<MetricSink> metrics_;
  const std::unique_ptr<TextLog> log_;
  const std::unique_ptr<EventLog> events_;
  const std::unique_ptr<GlogSink> glog_sink_;
};

// Sends the log lines of this process to glog, which has its own flags, files and sinks, from now
// on, until another sink is set (base/log.h). With glog's flag --v=1 or above it also sends the
// lines of severity VERBOSE. May be called again, from any thread.
void LogToGlog();

// For a program whose main() is not ours: glog writes to no file and not to stderr from now on, and
// each log line goes to `listener`, too, until this is called again. Null: to nobody. The listener
// must not log.
void ListenToLogs(LogSink* listener);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_FOLDER_PROCESS_LOGS_H_
