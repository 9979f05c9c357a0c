#include "ding_worker/worker/run_folder/process_logs.h"

#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
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

// Sends the log lines of this process to glog.
class GlogOutput : public LogSink {
 public:
  void Send(const LogLine& line) override {
    google::LogMessage(line.file, line.line, Severity(line.severity)).stream() << line.message;
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
                                                               const std::string& process,
                                                               const std::string& csv_name,
                                                               const Clock* clock) {
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
  csv.path = JoinPath(log_folder, csv_name);
  csv.clock = clock;
  DING_ASSIGN_OR_RETURN(std::shared_ptr<MetricSink> rows, CsvSink::Create(csv));

  auto metrics =
      std::make_shared<MultiSink>(std::vector<std::shared_ptr<MetricSink>>{events, rows});
  return absl::WrapUnique(new ProcessLogs(std::move(metrics), std::move(log)));
}

ProcessLogs::ProcessLogs(std::shared_ptr<MetricSink> metrics, std::unique_ptr<TextLog> log)
    : metrics_(std::move(metrics)),
      log_(std::move(log)),
      glog_sink_(std::make_unique<GlogSink>(log_.get())) {}

ProcessLogs::~ProcessLogs() = default;

absl::Status ProcessLogs::Flush() {
  absl::Status status = metrics_->Flush();
  status.Update(log_->Flush());
  return status;
}

void LogToGlog() {
  if (FLAGS_v > 0) SetMinLogSeverity(LogSeverity::kVerbose);
  // It lives until the process ends, because any thread may log until then.
  static GlogOutput* const output = new GlogOutput;
  SetLogSink(output);
}

}  // namespace ding
