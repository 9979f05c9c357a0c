// Reports all problems of a config in one error, so that a user can mend them together.
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_PROBLEMS_H_
#define DING_WORKER_BASE_PROBLEMS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace ding {

// Returns OK if `problems` is empty, else kInvalidArgument with the text "<where>: <problem>; <problem>".
inline absl::Status ProblemsToStatus(const std::vector<std::string>& problems,
                                     absl::string_view where) {
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", absl::StrJoin(problems, "; ")));
}

}  // namespace ding

#endif  // DING_WORKER_BASE_PROBLEMS_H_
