// WrapperStack, the wrappers (env/env_wrapper.h) of one env; and envs and workers wrapped by a
// stack.
//
// Ownership: they own the env or the workers, and the wrappers.
// Threads:   a WrapperStack is thread-compatible; the others as Env and EnvWorkers.
#ifndef DING_WORKER_ENV_WRAPPED_ENV_H_
#define DING_WORKER_ENV_WRAPPED_ENV_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_workers.h"
#include "ding_worker/env/env_wrapper.h"

namespace ding {

// The wrappers of one env, and the rows between them. It passes calls from the outside in, and
// answers from the inside out; its user makes the calls of the env that the stack asks for:
//
//     Ask ask = stack.BeginStep(action);
//     while (ask != Ask::kNothing) {
//       ...  // the env steps with stack.inner_action(), or resets
//       ask = stack.Answer(&result);
//     }
class WrapperStack {
 public:
  using Ask = EnvWrapper::Ask;

  // `wrappers`: at least one, from the inside out, for an env of the spec `inner` with one player.
  static absl::StatusOr<WrapperStack> Create(EnvSpec inner,
                                             std::vector<std::unique_ptr<EnvWrapper>> wrappers);

  const EnvSpec& inner_spec() const { return inner_; }
  // The spec of the wrapped env.
  const EnvSpec& spec() const { return wrappers_.back()->spec(); }
  bool changes_observation() const { return last_change_ >= 0; }

  // Sets the rows of observations: the row that the env writes, and the row of the wrapped env.
  // They must be the same if nothing changes the observation. Without `inner` the env writes
  // inner_obs().
  void SetRows(std::optional<RowRef> inner, const RowRef& outer);
  // Does the same without `inner`; may be called before each step.
  void SetOuterRow(const RowRef& outer) {
    for (size_t level = first_outer_; level < obs_.size(); ++level) obs_[level] = outer;
  }
  RowRef inner_obs() const { return obs_.front(); }

  // The rows must be set; `action` must stay valid until Answer() returns kNothing.
  Ask BeginReset(const EpisodeStart& start);
  Ask BeginStep(const RowView& action);
  // Call it when the env has made the call. After a step, `result` is the env's result; when this
  // returns kNothing, it is the result of the wrapped env.
  absl::StatusOr<Ask> Answer(StepResult* result);
  // Ends the episode after a void or failed step.
  void GiveUp();

  // How the next episode of the env begins, and the action of its next step.
  const EpisodeStart& start() const { return start_; }
  RowView inner_action() const { return actions_.front(); }

  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  WrapperStack(EnvSpec inner, std::vector<std::unique_ptr<EnvWrapper>> wrappers);

  int size() const { return static_cast<int>(wrappers_.size()); }
  // Passes `ask`, a request of wrapper `from`, on to the env.
  Ask Descend(int from, Ask ask);

  EnvSpec inner_;
  std::vector<std::unique_ptr<EnvWrapper>> wrappers_;
  int last_change_ = -1;  // the outermost wrapper that changes the observation
  // Level i is inside of wrapper i. Level size() is the wrapped env.
  std::vector<BatchBuilder> own_obs_;      // [size()], a row each
  std::vector<BatchBuilder> own_actions_;  // [size()], a row each
  std::vector<RowRef> action_rows_;        // [size()], the rows of own_actions_
  std::vector<RowRef> obs_;                // [size() + 1]
  size_t first_outer_ = 0;                 // from this level on, obs_ is the row of the wrapped env
  std::vector<RowView> actions_;           // [size() + 1]
  std::vector<Ask> asked_;                 // what wrapper i asked of the level inside of it
  EpisodeStart start_;
};

// Makes the stack of an env of this spec.
using WrapperStackFactory = std::function<absl::StatusOr<WrapperStack>(const EnvSpec&)>;

// Wraps an env. Returns the errors of `make_stack`.
absl::StatusOr<std::unique_ptr<Env>> MakeWrappedEnv(std::unique_ptr<Env> env,
                                                    const WrapperStackFactory& make_stack);

// Wraps each env of `workers`; the wrappers run in the caller's thread. Observations stay where
// they are unless a wrapper changes their fields.
absl::StatusOr<std::unique_ptr<EnvWorkers>> WrapWorkers(std::unique_ptr<EnvWorkers> workers,
                                                        const WrapperStackFactory& make_stack);

// The rest is in the path of each step.

inline WrapperStack::Ask WrapperStack::Descend(int from, Ask ask) {
  for (int i = from; i >= 0; --i) {
    const auto level = static_cast<size_t>(i);
    EnvWrapper& wrapper = *wrappers_[level];
    const RowRef& own = action_rows_[level];
    if (ask == Ask::kReset) {
      ask = wrapper.BeginReset(start_, own);
    } else {
      wrapper.BeginStep(actions_[level + 1], own);
    }
    actions_[level] = wrapper.changes().action ? RowView(own) : actions_[level + 1];
    asked_[level] = ask;
  }
  return ask;
}

inline WrapperStack::Ask WrapperStack::BeginReset(const EpisodeStart& start) {
  start_ = start;
  return Descend(size() - 1, Ask::kReset);
}

inline WrapperStack::Ask WrapperStack::BeginStep(const RowView& action) {
  actions_.back() = action;
  return Descend(size() - 1, Ask::kStep);
}

inline absl::StatusOr<WrapperStack::Ask> WrapperStack::Answer(StepResult* result) {
  for (int i = 0; i < size(); ++i) {
    const auto level = static_cast<size_t>(i);
    EnvWrapper& wrapper = *wrappers_[level];
    const RowRef& own = action_rows_[level];
    const bool was_reset = asked_[level] == Ask::kReset;
    DING_ASSIGN_OR_RETURN(const Ask next,
                          was_reset ? wrapper.AfterReset(obs_[level], obs_[level + 1], own)
                                    : wrapper.AfterStep(obs_[level], obs_[level + 1], own, result));
    if (next == Ask::kNothing) continue;
    asked_[level] = next;
    return Descend(i - 1, next);
  }
  return Ask::kNothing;
}

}  // namespace ding

#endif  // DING_WORKER_ENV_WRAPPED_ENV_H_
