// Calls code that a user may have written: a function, or the factory of a module that a registry
// has found. Turns its exceptions into errors.
//
// Threads: the same rules as for the function that is called.
//
// Example:
//   DING_RETURN_IF_ERROR(CallUser("the hook", [&] { return hook->Call(learner); }));
//   DING_ASSIGN_OR_RETURN(const SelectorFactory create, SelectorRegistry().Find(config.type()));
//   return CallFactory("selector", config.type(), [&] { return create(config); });
#ifndef DING_WORKER_BASE_CALL_USER_H_
#define DING_WORKER_BASE_CALL_USER_H_

#include <exception>
#include <string>
#include <type_traits>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"

namespace ding {

// Returns what `call` returns, a Status or a StatusOr. An exception becomes the error kInternal
// with the text "<what> threw an exception: ...". Inlined because every step of an env goes through
// it.
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

// Calls `call`, which must not throw, because nobody could handle its error. If it does, ends the
// program with the text "<what> threw an exception: ...".
template <typename Call>
void CallUserWhoMustNotThrow(absl::string_view what, Call&& call) {
  const absl::Status status = CallUser(what, [&call] {
    call();
    return absl::OkStatus();
  });
  DING_CHECK(status.ok()) << status.message();
}

// Returns what `call`, the factory of the module `type`, returns: a StatusOr of a pointer. An
// exception and a null pointer become the error kInternal: "the factory of <kind> '<type>' threw an
// exception: ...", or "... returned none".
template <typename Call>
std::invoke_result_t<Call&> CallFactory(absl::string_view kind, absl::string_view type,
                                        Call&& call) {
  const std::string factory = absl::StrCat("the factory of ", kind, " '", type, "'");
  std::invoke_result_t<Call&> made = CallUser(factory, call);
  if (!made.ok() || *made != nullptr) return made;
  return absl::InternalError(absl::StrCat(factory, " returned none"));
}

}  // namespace ding

#endif  // DING_WORKER_BASE_CALL_USER_H_
