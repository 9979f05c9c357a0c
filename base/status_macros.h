// Macros that return early with the error of an absl::Status or absl::StatusOr (Abseil 20220623 has
// none), and other helpers for absl::Status: context, and all problems of a config in one error.
//
// Threads: thread-safe.
//
// Example:
//   DING_RETURN_IF_ERROR(buffer->Push(segments, envstep));
//   DING_ASSIGN_OR_RETURN(const Batch batch, buffer->Sample(64, train_iter));
#ifndef DING_WORKER_BASE_STATUS_MACROS_H_
#define DING_WORKER_BASE_STATUS_MACROS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/version.h"

namespace ding {

// Returns `status` with "<context>: " before its message; an OK status stays as it is. Use it where
// a layer knows where the error occurred ("env 3", "hook 'save_ckpt'") and the layer below does
// not.
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

// Reports all problems of a config in one error, so that a user can mend them together. Returns OK
// if `problems` is empty, else kInvalidArgument with the text "<where>: <problem>; <problem>". With
// an empty `where`, the text is "<problem>; <problem>".
inline absl::Status ProblemsToStatus(const std::vector<std::string>& problems,
                                     absl::string_view where = "") {
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, where.empty() ? "" : ": ", absl::StrJoin(problems, "; ")));
}

}  // namespace ding

// Returns the status of `expr` from the enclosing function if it is an error.
#define DING_RETURN_IF_ERROR(expr)                                   \
  do {                                                               \
    absl::Status ding_status_ = (expr);                              \
    if (ABSL_PREDICT_FALSE(!ding_status_.ok())) return ding_status_; \
  } while (false)

#define DING_STATUS_CONCAT_INNER_(a, b) a##b
#define DING_STATUS_CONCAT_(a, b) DING_STATUS_CONCAT_INNER_(a, b)

// Assigns the value of `expr`, a StatusOr, to `lhs`, which may be a declaration; or returns its
// error.
#define DING_ASSIGN_OR_RETURN(lhs, expr) \
  DING_ASSIGN_OR_RETURN_IMPL_(DING_STATUS_CONCAT_(ding_status_or_, __LINE__), lhs, expr)

#define DING_ASSIGN_OR_RETURN_IMPL_(var, lhs, expr)                  \
  auto var = (expr);                                                 \
  if (ABSL_PREDICT_FALSE(!var.ok())) return std::move(var).status(); \
  lhs = std::move(var).value()

#endif  // DING_WORKER_BASE_STATUS_MACROS_H_
