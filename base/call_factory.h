// Calls the factory of a module that a registry has found, which a user may have written.
//
// Threads: the same rules as for the factory.
//
// Example:
//   DING_ASSIGN_OR_RETURN(const SelectorFactory create, SelectorRegistry().Find(config.type()));
//   return CallFactory("selector", config.type(), [&] { return create(config); });
#ifndef DING_WORKER_BASE_CALL_FACTORY_H_
#define DING_WORKER_BASE_CALL_FACTORY_H_

#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/call_user.h"

namespace ding {

// Returns what the factory of the type `type` returns: a StatusOr of a pointer. An exception and a null
// pointer become the error kInternal: "the factory of <kind> '<type>' threw an exception: ...", or "...
// returned none".
template <typename Call>
std::invoke_result_t<Call&> CallFactory(absl::string_view kind, absl::string_view type,
                                        Call&& call) {
  const std::string factory = absl::StrCat("the factory of ", kind, " '", type, "'");
  std::invoke_result_t<Call&> made = CallUser(factory, call);
  if (!made.ok() || *made != nullptr) return made;
  return absl::InternalError(absl::StrCat(factory, " returned none"));
}

}  // namespace ding

#endif  // DING_WORKER_BASE_CALL_FACTORY_H_
