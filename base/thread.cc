#include "ding_worker/base/thread.h"

#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ding {

absl::StatusOr<std::thread> StartThread(absl::string_view purpose, std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot start a thread for ", purpose, ": ", error.code().message(),
        "; raise the limit of processes (ulimit -u, pids.max of a container) or of memory "
        "(ulimit -v)"));
  }
}

}  // namespace ding
