// Pendulum: swing a pendulum up and keep it upright with a motor too weak to lift it directly.
//
// Equations as in Gymnasium's Pendulum-v1: a rod of mass 1 and length 1 turning about one end,
// gravity 10, integrated by the semi-implicit Euler method with steps of 0.05 s.
//
// Observation: float32[3], cosine and sine of the angle from upright, angular velocity (rad/s, at
// most 8).   Action: float32[1], torque in [-2, 2]; the env manager refuses an action outside,
// where Gymnasium clips it.   Reward: -(angle^2 + 0.1 velocity^2 + 0.001 torque^2), for the state
// before the step.   Never terminated.   Time limit: 200 steps.
//
// "-masked-velocity" shows cosine and sine only, float32[2].
//
// Threads: as Env; the functions on states are pure.
#ifndef DING_WORKER_ENV_CLASSIC_CONTROL_PENDULUM_H_
#define DING_WORKER_ENV_CLASSIC_CONTROL_PENDULUM_H_

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/env.h"

namespace ding {

struct PendulumState {
  double theta = 0;
  double theta_dot = 0;
};

inline constexpr double kPendulumMaxSpeed = 8;
inline constexpr double kPendulumMaxTorque = 2;

// Returns `angle` modulo 2 pi, in [-pi, pi).
inline double NormalizeAngle(double angle) {
  constexpr double kPi = 3.14159265358979323846;
  const double turned = std::fmod(angle + kPi, 2 * kPi);
  return (turned < 0 ? turned + 2 * kPi : turned) - kPi;
}

// The angle in [-pi, pi), and its sine, before a step.
struct PendulumAngle {
  double angle;
  double sine;
};
inline PendulumAngle AngleOf(const PendulumState& state) {
  return {NormalizeAngle(state.theta), std::sin(state.theta)};
}

inline ClassicOutcome PendulumStep(float action, const PendulumAngle& before,
                                   PendulumState* state) {
  constexpr double kGravity = 10;
  constexpr double kSeconds = 0.05;
  const double torque = std::clamp<double>(action, -kPendulumMaxTorque, kPendulumMaxTorque);
  const auto [angle, sine] = before;
  const double cost =
      angle * angle + 0.1 * (state->theta_dot * state->theta_dot) + 0.001 * (torque * torque);
  // 3 g / (2 l) and 3 / (m l^2) with m = l = 1.
  const double acceleration = 3 * kGravity / 2 * sine + 3 * torque;
  state->theta_dot =
      std::clamp(state->theta_dot + acceleration * kSeconds, -kPendulumMaxSpeed, kPendulumMaxSpeed);
  state->theta += state->theta_dot * kSeconds;
  return {-cost, false};
}

// "Pendulum-v1", or "Pendulum-v1-masked-velocity".
absl::StatusOr<std::unique_ptr<Env>> CreatePendulum(bool shows_velocity = true);

}  // namespace ding

#endif  // DING_WORKER_ENV_CLASSIC_CONTROL_PENDULUM_H_
