// Calls a commander that a user may have written, for the coordinator: if it throws or cannot save its state, status() is
// an error from then on, and the coordinator ends the run with it. The commander is not called again.
//
// Threads: thread-compatible.
//
// Example:
//   const bool converged = commander.Call(&BaseCommander::FinishCollectorTask, task, info);
#ifndef DING_WORKER_COORDINATOR_COMMANDER_GUARDED_COMMANDER_H_
#define DING_WORKER_COORDINATOR_COMMANDER_GUARDED_COMMANDER_H_

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/data/state.h"

namespace ding {

class GuardedCommander {
 public:
  explicit GuardedCommander(std::unique_ptr<BaseCommander> commander)
      : commander_(std::move(commander)) {}

  // Calls a member function. Returns what it returns; if the commander throws now or has failed before, the error, or
  // a default value if the function does not return a Status.
  template <typename Function, typename... Arguments>
  auto Call(Function function, Arguments&&... arguments) const {
    using Result = std::decay_t<std::invoke_result_t<Function, BaseCommander&, Arguments...>>;
    std::conditional_t<std::is_void_v<Result>, absl::Status, Result> result{};
    if (failed_.ok()) {
      failed_ = CallUser("the commander", [&] {
        if constexpr (std::is_void_v<Result>) {
          std::invoke(function, *commander_, std::forward<Arguments>(arguments)...);
        } else {
          result = std::invoke(function, *commander_, std::forward<Arguments>(arguments)...);
        }
        return absl::OkStatus();
      });
    }
    if (!failed_.ok()) result = {};
    if constexpr (std::is_same_v<Result, absl::Status>) return failed_.ok() ? result : failed_;
    if constexpr (!std::is_void_v<Result>) return result;
  }
  absl::Status status() const { return Call(&BaseCommander::status); }
  absl::Status SaveState(StateWriter* writer) const {
    const absl::Status saved = Call(&BaseCommander::SaveState, writer);
    if (failed_.ok()) failed_ = Annotate(saved, "the commander cannot save its state");
    return failed_;
  }

 private:
  const std::unique_ptr<BaseCommander> commander_;
  mutable absl::Status failed_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_GUARDED_COMMANDER_H_
