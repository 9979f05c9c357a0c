// Calls a function that may be the user's.
#ifndef DING_WORKER_LEARNER_CALL_USER_H_
#define DING_WORKER_LEARNER_CALL_USER_H_

#include <exception>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ding {

// What `call` returns, a Status or a StatusOr; an exception becomes kInternal: "<who> threw ...".
template <typename Call>
std::invoke_result_t<Call&> CallUser(absl::string_view who, Call&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(who, " threw ", error.what()));
  } catch (...) {
    return absl::InternalError(absl::StrCat(who, " threw something that is no std::exception"));
  }
}

}  // namespace ding

#endif  // DING_WORKER_LEARNER_CALL_USER_H_
