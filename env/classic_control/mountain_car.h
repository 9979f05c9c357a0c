// MountainCar: an underpowered car in a valley has to build up momentum to reach the flag on the
// right hill. MountainCarContinuous: the same with a continuous throttle and a cost for its use.
//
// Moore, "Efficient memory-based learning for robot control" (1990); equations as in Gymnasium's
// MountainCar-v0 and MountainCarContinuous-v0. The latter keeps its state in float32 between steps.
//
// Observation: float32[2], position in [-1.2, 0.6], velocity (per step, at most 0.07).
// Action: 0 push left, 1 none, 2 push right. Continuous: float32[1] in [-1, 1]; the env manager
// refuses an action outside, where Gymnasium clips it.
// Reward: -1 per step. Continuous: -0.1 action^2, and 100 at the goal.
// Terminated: position >= 0.5, continuous 0.45, with a velocity >= 0.   Time limit: 200 steps,
// continuous 999.
//
// Threads: as Env; the functions on states are pure.
#ifndef DING_WORKER_ENV_CLASSIC_CONTROL_MOUNTAIN_CAR_H_
#define DING_WORKER_ENV_CLASSIC_CONTROL_MOUNTAIN_CAR_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/image.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/env.h"

namespace ding {

struct MountainCarState {
  double position = 0;
  double velocity = 0;
};

inline constexpr double kMountainCarMinPosition = -1.2;
inline constexpr double kMountainCarMaxPosition = 0.6;
inline constexpr double kMountainCarMaxSpeed = 0.07;
inline constexpr double kMountainCarGoal = 0.5;
inline constexpr double kMountainCarContinuousGoal = 0.45;

// The slope of the valley under the car, up to a factor, before a step.
struct MountainCarSlope {
  double cosine;
};
inline MountainCarSlope SlopeUnder(const MountainCarState& state) {
  return {std::cos(3 * state.position)};
}

// Moves the car one step under `push` and gravity; the wall on the left stops it.
inline void MoveMountainCar(double push, const MountainCarSlope& slope, MountainCarState* state) {
  constexpr double kGravity = 0.0025;
  const double velocity = std::clamp(state->velocity + push - kGravity * slope.cosine,
                                     -kMountainCarMaxSpeed, kMountainCarMaxSpeed);
  state->position =
      std::clamp(state->position + velocity, kMountainCarMinPosition, kMountainCarMaxPosition);
  const bool at_wall = state->position == kMountainCarMinPosition && velocity < 0;
  state->velocity = at_wall ? 0 : velocity;
}

inline ClassicOutcome MountainCarStep(int64_t action, const MountainCarSlope& slope,
                                      MountainCarState* state) {
  constexpr double kForce = 0.001;
  MoveMountainCar(static_cast<double>(action - 1) * kForce, slope, state);
  return {-1, state->position >= kMountainCarGoal && state->velocity >= 0};
}

inline ClassicOutcome MountainCarContinuousStep(float action, const MountainCarSlope& slope,
                                                MountainCarState* state) {
  constexpr double kPower = 0.0015;
  MoveMountainCar(std::clamp<double>(action, -1, 1) * kPower, slope, state);
  ClassicOutcome outcome;
  outcome.terminated = state->position >= kMountainCarContinuousGoal && state->velocity >= 0;
  outcome.reward = (outcome.terminated ? 100 : 0) - 0.1 * (static_cast<double>(action) * action);
  state->position = static_cast<float>(state->position);
  state->velocity = static_cast<float>(state->velocity);
  return outcome;
}

// Draws the car, with the flag at `goal`.
Image DrawMountainCar(const MountainCarState& state, double goal);

// "MountainCar-v0".
absl::StatusOr<std::unique_ptr<Env>> CreateMountainCar();
// "MountainCarContinuous-v0".
absl::StatusOr<std::unique_ptr<Env>> CreateMountainCarContinuous();

}  // namespace ding

#endif  // DING_WORKER_ENV_CLASSIC_CONTROL_MOUNTAIN_CAR_H_
