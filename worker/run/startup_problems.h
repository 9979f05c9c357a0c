// Collects the errors of several modules that are being made, so that all of them are reported at
// once.
#ifndef DING_WORKER_WORKER_RUN_STARTUP_PROBLEMS_H_
#define DING_WORKER_WORKER_RUN_STARTUP_PROBLEMS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace ding {

// Moves the value of `made` to `*out`; an error is appended to `*problems` instead, prefixed by
// `what`.
template <typename T>
void TakeOrReport(absl::StatusOr<T> made, absl::string_view what, T* out,
                  std::vector<std::string>* problems) {
  if (made.ok()) {
    *out = *std::move(made);
  } else {
    problems->push_back(absl::StrCat(what, ": ", made.status().message()));
  }
}

// kInvalidArgument with all problems, if there are any.
inline absl::Status StartupProblemsToStatus(const std::vector<std::string>& problems) {
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the run cannot start:\n  ", absl::StrJoin(problems, "\n  ")));
}

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_STARTUP_PROBLEMS_H_
