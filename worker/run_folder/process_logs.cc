#include "ding_worker/worker/run_folder/process_logs.h"

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/metrics/csv.h"
#include "ding_worker/metrics/tensorboard.h"
#include "glog/logging.h"

namespace ding {
namespace {

absl::string_view SeverityName(google::LogSeverity severity) {
  switch (severity) {
    case google::GLOG_INFO:
      return "info";
    case google::GLOG_WARNING:
      return "warning";
    default:
      return "error";
  }
}

// Where events and all lines go; null: nowhere.
struct EventTarget {
  Mutex mutex;
  EventLog* log ABSL_GUARDED_BY(mutex) = nullptr;
  LogSink* listener ABSL_GUARDED_BY(mutex) = nullptr;
};

EventTarget& Events() {
  static EventTarget* const target = new EventTarget;  // Threads may log until the process ends.
  return *target;
}

void SendEventsTo(EventLog* log) {
  const MutexLock lock(&Events().mutex);
  Events().log = log;
}

// Sends the log lines of this process to glog, and events to their file.
class GlogOutput : public LogSink {
 public:
  void Send(const LogLine& line) override {
    google::LogMessage(line.file, line.line, Severity(line.severity)).stream() << line.message;
    const MutexLock lock(&Events().mutex);
    if (Events().log != nullptr) Events().log->Write(line);
    if (Events().listener != nullptr) Events().listener->Send(line);
  }

 private:
  static google::LogSeverity Severity(LogSeverity severity) {
    switch (severity) {
      case LogSeverity::kVerbose:
      case LogSeverity::kInfo:
        return google::GLOG_INFO;
      case LogSeverity::kWarning:
        return google::GLOG_WARNING;
      case LogSeverity::kError:
        break;
    }
    return google::GLOG_ERROR;
  }
};

}  // namespace

std::string LogFolder(absl::string_view exp_dir) { return JoinPath(exp_dir, "log"); }

// Copies the messages of glog to the text log.
class ProcessLogs::GlogSink : public google::LogSink {
 public:
  explicit GlogSink(TextLog* log) : log_(log) { google::AddLogSink(this); }
  ~GlogSink() override { google::RemoveLogSink(this); }

  void send(google::LogSeverity severity, const char* /*full_filename*/,
            const char* /*base_filename*/, int /*line*/, const google::LogMessageTime& /*time*/,
            const char* message, size_t message_len) override {
    log_->Write(SeverityName(severity), absl::string_view(message, message_len));
  }

 private:
  TextLog* const log_;
};

absl::StatusOr<std::unique_ptr<ProcessLogs>> ProcessLogs::Open(const std::string& exp_dir,
                                                               const std::string& process, Of of,
                                                               const Clock* clock) {
  const bool worker = of == Of::kWorker;
  LogToGlog();
  const std::string log_folder = LogFolder(exp_dir);
  DING_RETURN_IF_ERROR(CreateDirectories(log_folder));

  TextLog::Options log_options;
  log_options.path = JoinPath(log_folder, absl::StrCat(process, "_logger.txt"));
  log_options.clock = clock;
  DING_ASSIGN_OR_RETURN(std::unique_ptr<TextLog> log, TextLog::Create(log_options));

  TensorBoardSink::Options tensorboard;
  tensorboard.folder = JoinPath(log_folder, process);
  tensorboard.clock = clock;
  DING_ASSIGN_OR_RETURN(std::shared_ptr<MetricSink> events, TensorBoardSink::Create(tensorboard));
  CsvSink::Options csv;
  csv.path = JoinPath(log_folder, worker ? absl::StrCat(process, ".csv") : "metrics.csv");
  csv.clock = clock;
  DING_ASSIGN_OR_RETURN(std::shared_ptr<MetricSink> rows, CsvSink::Create(csv));

  const std::string name = worker ? absl::StrCat(process, "_", kEventsName) : kEventsName;
  DING_ASSIGN_OR_RETURN(std::unique_ptr<EventLog> run_events,
                        EventLog::Create(JoinPath(log_folder, name), clock));

  auto metrics =
      std::make_shared<MultiSink>(std::vector<std::shared_ptr<MetricSink>>{events, rows});
  return absl::WrapUnique(
      new ProcessLogs(std::move(metrics), std::move(log), std::move(run_events)));
}

ProcessLogs::ProcessLogs(std::shared_ptr<MetricSink> metrics, std::unique_ptr<TextLog> log,
                         std::unique_ptr<EventLog> events)
    : metrics_(std::move(metrics)),
      log_(std::move(log)),
      events_(std::move(events)),
      glog_sink_(std::make_unique<GlogSink>(log_.get())) {
  SendEventsTo(events_.get());
}

ProcessLogs::~ProcessLogs() { SendEventsTo(nullptr); }

absl::Status ProcessLogs::Flush() {
  absl::Status status = metrics_->Flush();
  status.Update(log_->Flush());
  status.Update(events_->Flush());
  return status;
}

void LogToGlog() {
  if (FLAGS_v > 0) SetMinLogSeverity(LogSeverity::kVerbose);
  // It lives until the process ends, because any thread may log until then.
  static GlogOutput* const output = new GlogOutput;
  SetLogSink(output);
}

void ListenToLogs(LogSink* listener) {
  static const bool quiet = [] {
    for (const google::LogSeverity severity :
         {google::GLOG_INFO, google::GLOG_WARNING, google::GLOG_ERROR, google::GLOG_FATAL}) {
      google::SetLogDestination(severity, "");
    }
    FLAGS_stderrthreshold = google::GLOG_FATAL;
    if (!google::IsGoogleLoggingInitialized()) google::InitGoogleLogging("ding_worker");
    return true;
  }();
  static_cast<void>(quiet);
  LogToGlog();
  const MutexLock lock(&Events().mutex);
  Events().listener = listener;
}

}  // namespace ding
