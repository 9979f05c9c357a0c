#include "ding_worker/env/process_end.h"

#include <sys/wait.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "ding_worker/env/env_process.h"

namespace ding {
namespace {

constexpr int kLastLines = 5;

}  // namespace

absl::Status WhyProcessEnded(const ForkServer& server, int child, int64_t memory_limit_mb,
                             const absl::Status& kill_cause) {
  const int status = server.wait_status(child);
  std::string how = absl::StrCat("its process ", server.HowItEnded(child));
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  if (!kill_cause.ok()) {
    how = absl::StrCat(kill_cause.message(), " and was killed");
    code = kill_cause.code();
  } else if (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == kMemoryExitCode) {
    how = absl::StrCat("its process passed memory_limit_mb (", memory_limit_mb, ")");
    code = absl::StatusCode::kResourceExhausted;
  }
  const std::string lines = server.LastLines(child, kLastLines);
  if (!lines.empty()) absl::StrAppend(&how, "; its last lines:\n", lines);
  return absl::Status(code, how);
}

}  // namespace ding
