#include "ding_worker/worker/run_folder.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/metrics/csv.h"
#include "ding_worker/metrics/tensorboard.h"
#include "glog/logging.h"

namespace ding {
namespace {

constexpr int kMaxFolderNames = 100;

absl::StatusOr<std::string> MakeFolder(const std::string& exp_dir, const std::string& exp_name,
                                       const Clock* clock) {
  if (!exp_dir.empty()) {
    const absl::Status status = CreateNewDirectory(exp_dir);
    if (!absl::IsAlreadyExists(status)) {
      if (!status.ok()) return status;
      return exp_dir;
    }
    return absl::AlreadyExistsError(
        absl::StrCat("--exp_dir ", exp_dir,
                     " exists already and is not overwritten: name another folder or remove it"));
  }
  const std::string stamp = absl::FormatTime("_%y%m%d_%H%M%S", clock->Now(), absl::LocalTimeZone());
  for (int i = 0; i < kMaxFolderNames; ++i) {
    const std::string path =
        i == 0 ? exp_name
               : absl::StrCat(exp_name, stamp, i == 1 ? std::string() : absl::StrCat("_", i));
    const absl::Status status = CreateNewDirectory(path);
    if (status.ok()) return path;
    if (!absl::IsAlreadyExists(status)) return status;
  }
  return absl::AlreadyExistsError(
      absl::StrCat("folders ", exp_name, stamp, "_<n> exist already: name one by --exp_dir"));
}

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

}  // namespace

// Copies what glog logs to the text log.
class RunFolder::GlogSink : public google::LogSink {
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

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Create(const std::string& exp_dir,
                                                             const std::string& exp_name,
                                                             const Clock* clock) {
  DING_ASSIGN_OR_RETURN(std::string path, MakeFolder(exp_dir, exp_name, clock));
  const std::string log_folder = JoinPath(path, "log");
  DING_RETURN_IF_ERROR(CreateDirectories(log_folder));

  TextLog::Options log_options;
  log_options.path = JoinPath(log_folder, "serial_logger.txt");
  log_options.clock = clock;
  DING_ASSIGN_OR_RETURN(std::unique_ptr<TextLog> log, TextLog::Create(log_options));

  TensorBoardSink::Options tensorboard;
  tensorboard.folder = JoinPath(log_folder, "serial");
  tensorboard.clock = clock;
  DING_ASSIGN_OR_RETURN(std::shared_ptr<MetricSink> events, TensorBoardSink::Create(tensorboard));
  CsvSink::Options csv;
  csv.path = JoinPath(log_folder, "metrics.csv");
  csv.clock = clock;
  DING_ASSIGN_OR_RETURN(std::shared_ptr<MetricSink> rows, CsvSink::Create(csv));

  auto metrics =
      std::make_shared<MultiSink>(std::vector<std::shared_ptr<MetricSink>>{events, rows});
  return std::unique_ptr<RunFolder>(
      new RunFolder(std::move(path), std::move(metrics), std::move(log)));
}

RunFolder::RunFolder(std::string path, std::shared_ptr<MetricSink> metrics,
                     std::unique_ptr<TextLog> log)
    : path_(std::move(path)),
      metrics_(std::move(metrics)),
      log_(std::move(log)),
      glog_sink_(std::make_unique<GlogSink>(log_.get())) {}

RunFolder::~RunFolder() = default;

absl::Status RunFolder::WriteText(absl::string_view name, absl::string_view content) const {
  return WriteFileAtomically(JoinPath(path_, name), content);
}

absl::Status RunFolder::FlushLogs() {
  absl::Status status = metrics_->Flush();
  status.Update(log_->Flush());
  return status;
}

}  // namespace ding
