#include "ding_worker/metrics/text_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

using ::ding::internal_metrics::AppendFile;

absl::StatusOr<std::unique_ptr<TextLog>> TextLog::Create(const Options& options) {
  AppendFile::Options file_options;
  file_options.clock = options.clock;
  // Write each entry at once, because people watch the file and entries are rare.
  file_options.flush_interval = absl::ZeroDuration();
  DING_ASSIGN_OR_RETURN(auto file, AppendFile::Open(options.path, file_options));
  return std::unique_ptr<TextLog>(new TextLog(options, std::move(file)));
}

TextLog::TextLog(const Options& options, std::unique_ptr<AppendFile> file)
    : options_(options), file_(std::move(file)) {}

void TextLog::Write(absl::string_view component, absl::string_view entry) {
  const std::string line = absl::StrCat(
      absl::FormatTime("%Y-%m-%d %H:%M:%E3S", options_.clock->Now(), options_.time_zone), " ",
      component, ": ", absl::StripSuffix(entry, "\n"), "\n");
  MutexLock lock(&mutex_);
  file_->Append(line);
}

absl::Status TextLog::Flush() {
  MutexLock lock(&mutex_);
  return file_->Flush();
}

}  // namespace ding
