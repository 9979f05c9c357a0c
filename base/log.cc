#include "ding_worker/base/log.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"

namespace ding {
namespace {

std::atomic<LogSink*> sink{nullptr};
std::atomic<LogSeverity> min_severity{LogSeverity::kInfo};

// One write, so that lines of several threads and processes do not mix.
void WriteToStderr(const LogLine& line) {
  const char letter = "VIWE"[static_cast<int>(line.severity)];
  const std::string time =
      absl::FormatTime("%m%d %H:%M:%E6S", Clock::Real()->Now(), absl::LocalTimeZone());
  const std::string text = absl::StrCat(absl::string_view(&letter, 1), time, " ", line.file, ":",
                                        line.line, "] ", line.message, "\n");
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) {
    // There is no place left to say so.
  }
}

}  // namespace

LogSink* SetLogSink(LogSink* new_sink) { return sink.exchange(new_sink); }

LogSeverity SetMinLogSeverity(LogSeverity least) { return min_severity.exchange(least); }

namespace internal_log {

bool IsWanted(LogSeverity severity) { return severity >= min_severity.load(); }

Message::~Message() {
  const std::string message = stream_.str();
  const LogLine line{severity_, file_, line_, message};
  LogSink* const to = sink.load();
  if (to != nullptr) {
    to->Send(line);
  } else {
    WriteToStderr(line);
  }
}

}  // namespace internal_log
}  // namespace ding
