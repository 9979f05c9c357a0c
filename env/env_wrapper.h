// Changes what an env shows, takes or pays, without knowing the env. Wrappers are stacked: each sees the one inside of it
// as its env.
//
//     policy ──action──► wrapper 1 ──► wrapper 0 ──► env
//            ◄──obs, reward, ends──────────┘
//
// A wrapper never calls the env. It is told what is asked of it and what the env inside answered, and says what that env is
// to do next (Ask). So one stack serves an Env that is called and envs of other processes that answer later.
//
//   BeginReset ──kReset──► (env resets) ──► AfterReset ──kNothing──► the episode has begun
//   BeginStep  ──────────► (env steps)  ──► AfterStep  ──kNothing──► the step is done
//                              ▲                └─kStep, kReset: once more
//
// Rows: `inner` is the observation of the env inside, `obs` that of the wrapped env. They are the same row if the wrapper
// does not change the observation; it may then change values in place. Likewise `inner_action`, which a wrapper writes if
// it changes actions. They are valid during the call only.
// State: SaveState() and LoadState() save all that the rest of the episode depends on.
//
// Ownership: belongs to a WrapperStack.
// Threads:   thread-compatible.
// Errors:    an error of AfterReset() or AfterStep() is one of the env.
#ifndef DING_WORKER_ENV_ENV_WRAPPER_H_
#define DING_WORKER_ENV_ENV_WRAPPER_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"

namespace ding {

class EnvWrapper {
 public:
  // What the env inside is to do next.
  enum class Ask { kNothing, kStep, kReset };

  // Whether it changes the fields of observations; of actions, or their values.
  struct Changes {
    bool observation = false;
    bool action = false;
    // What it does with the bounds of the action inside: clips to them actions of nearly any size, whose own bounds mean
    // nothing to the env, or maps its actions to them. The first one cannot stand inside of the second.
    bool clips_to_bounds = false;
    bool maps_to_bounds = false;
  };

  EnvWrapper(EnvSpec spec, Changes changes) : spec_(std::move(spec)), changes_(changes) {}
  virtual ~EnvWrapper() = default;

  // The spec of the wrapped env.
  const EnvSpec& spec() const { return spec_; }
  const Changes& changes() const { return changes_; }

  // A new episode is to begin. Returns kReset; or kStep, with an action in `inner_action`, if a step begins it.
  virtual Ask BeginReset(const EpisodeStart& /*start*/, const RowRef& /*inner_action*/) {
    return Ask::kReset;
  }
  // A step is to be made. Writes the action of the env inside, if the wrapper changes actions.
  virtual void BeginStep(const RowView& /*action*/, const RowRef& /*inner_action*/) {}

  // The env inside has reset or made a step, which the wrapper asked for. Writes `obs`, if the wrapper changes
  // observations, and changes `result`. Asks for a further step, whose action is in `inner_action`, or a reset.
  virtual absl::StatusOr<Ask> AfterReset(const RowView& inner, const RowRef& obs,
                                         const RowRef& /*inner_action*/) {
    Observe(inner, obs, /*first=*/true);
    return Ask::kNothing;
  }
  virtual absl::StatusOr<Ask> AfterStep(const RowView& inner, const RowRef& obs,
                                        const RowRef& /*inner_action*/, StepResult* /*result*/) {
    Observe(inner, obs, /*first=*/false);
    return Ask::kNothing;
  }
  // The episode was given up in a step that is void or failed: the next one begins by a reset.
  virtual void GiveUp() {}

  virtual absl::Status SaveState(StateWriter* /*writer*/) const { return absl::OkStatus(); }
  virtual absl::Status LoadState(StateReader* /*reader*/) { return absl::OkStatus(); }

 protected:
  // For wrappers that only change observations. `first`: it is the first one of an episode.
  virtual void Observe(const RowView& /*inner*/, const RowRef& /*obs*/, bool /*first*/) {}

 private:
  const EnvSpec spec_;
  const Changes changes_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_WRAPPER_H_
