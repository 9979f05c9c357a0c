// Calls code that a user may have written, and turns its exceptions into errors.
//
// Threads: the same rules as for the function that is called.
//
// Example:
//   DING_RETURN_IF_ERROR(CallUser("the hook", [&] { return hook->Call(learner); }));
#ifndef DING_WORKER_BASE_CALL_USER_H_
#define DING_WORKER_BASE_CALL_USER_H_

#include <exception>
#include <type_traits>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ding {

// Returns what `call` returns, a Status or a StatusOr. An exception becomes the error kInternal with the
// text "<what> threw an exception: ...". Inlined because every step of an env goes through it.
template <typename Call>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline std::invoke_result_t<Call&> CallUser(absl::string_view what,
                                                                         Call&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, " threw an exception: ", error.what()));
  } catch (...) {
    return absl::InternalError(
        absl::StrCat(what, " threw an exception that is not a std::exception"));
  }
}

}  // namespace ding

#endif  // DING_WORKER_BASE_CALL_USER_H_
