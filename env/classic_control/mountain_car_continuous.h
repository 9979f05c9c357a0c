// MountainCarContinuous: MountainCar with a continuous throttle and a cost for its use.
//
// Equations as in Gymnasium's MountainCarContinuous-v0, which keeps its state in float32 between
// steps.
//
// Observation: float32[2], as MountainCar.   Action: float32[1] in [-1, 1]; the env manager refuses
// an action outside, where Gymnasium clips it.   Reward: -0.1 action^2, and 100 at the goal.
// Terminated: position >= 0.45 with a velocity >= 0.   Time limit: 999 steps.
//
// Threads: as Env; MountainCarContinuousStep is a pure function.
#ifndef DING_WORKER_ENV_CLASSIC_CONTROL_MOUNTAIN_CAR_CONTINUOUS_H_
#define DING_WORKER_ENV_CLASSIC_CONTROL_MOUNTAIN_CAR_CONTINUOUS_H_

#include <algorithm>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/env/classic_control/mountain_car.h"
#include "ding_worker/env/classic_control/outcome.h"
#include "ding_worker/env/env.h"

namespace ding {

inline constexpr double kMountainCarContinuousGoal = 0.45;

inline ClassicOutcome MountainCarContinuousStep(float action, MountainCarState* state) {
  constexpr double kPower = 0.0015;
  MoveMountainCar(std::clamp<double>(action, -1, 1) * kPower, state);
  ClassicOutcome outcome;
  outcome.terminated = state->position >= kMountainCarContinuousGoal && state->velocity >= 0;
  outcome.reward = (outcome.terminated ? 100 : 0) - 0.1 * (static_cast<double>(action) * action);
  state->position = static_cast<float>(state->position);
  state->velocity = static_cast<float>(state->velocity);
  return outcome;
}

// "MountainCarContinuous-v0".
absl::StatusOr<std::unique_ptr<Env>> CreateMountainCarContinuous();

}  // namespace ding

#endif  // DING_WORKER_ENV_CLASSIC_CONTROL_MOUNTAIN_CAR_CONTINUOUS_H_
