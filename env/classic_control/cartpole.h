// CartPole: keep a pole upright on a cart by pushing the cart left or right.
//
// Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning
// control problems", IEEE SMC-13 (1983); equations as in Gymnasium's CartPole (Florian, "Correct
// equations for the dynamics of the cart-pole system", 2007, eq. 23 and 24, without friction),
// integrated by Euler's method.
//
// Observation: float32[4], x (m), dx/dt, angle from upright (rad), dangle/dt.   Action: 0 left,
// 1 right (10 N).   Reward: 1 per step, the last one included.   Terminated: |x| > 2.4 or
// |angle| > 12 degrees.   Time limit: 200 (v0) or 500 steps (v1).
//
// "-masked-velocity" shows x and angle only, float32[2]: a policy has to infer the velocities from
// earlier observations.
//
// Threads: as Env; the functions on states are pure.
#ifndef DING_WORKER_ENV_CLASSIC_CONTROL_CARTPOLE_H_
#define DING_WORKER_ENV_CLASSIC_CONTROL_CARTPOLE_H_

#include <cmath>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/env.h"

namespace ding {

struct CartPoleState {
  double x = 0;
  double x_dot = 0;
  double theta = 0;
  double theta_dot = 0;
};

inline constexpr double kCartPoleXLimit = 2.4;
inline constexpr double kCartPoleThetaLimit = 12 * 2 * 3.14159265358979323846 / 360;
inline constexpr double kCartPoleHalfLength = 0.5;

// Cosine and sine of the angle before a step.
struct CartPoleSines {
  double cosine;
  double sine;
};
inline CartPoleSines SinesOf(const CartPoleState& state) {
  return {std::cos(state.theta), std::sin(state.theta)};
}

// The system is unstable, so rounding errors show after some hundred steps: the operations are in
// the order of the original.
inline ClassicOutcome CartPoleStep(int64_t action, const CartPoleSines& sines,
                                   CartPoleState* state) {
  constexpr double kGravity = 9.8;
  constexpr double kPoleMass = 0.1;
  constexpr double kTotalMass = kPoleMass + 1.0;
  constexpr double kPoleMassLength = kPoleMass * kCartPoleHalfLength;
  // A table, because a branch on the action is not predictable and costs a fifth of the step.
  constexpr double kForces[] = {-10, 10};
  constexpr double kSeconds = 0.02;
  const double force = kForces[action == 1 ? 1 : 0];
  const auto [cosine, sine] = sines;
  // The new position depends on the old velocities only, so the branch on it need not wait for the
  // accelerations.
  state->x += kSeconds * state->x_dot;
  const double theta = state->theta + kSeconds * state->theta_dot;
  const bool terminated =
      std::abs(state->x) > kCartPoleXLimit || std::abs(theta) > kCartPoleThetaLimit;
  const double push =
      (force + kPoleMassLength * (state->theta_dot * state->theta_dot) * sine) / kTotalMass;
  const double theta_acc =
      (kGravity * sine - cosine * push) /
      (kCartPoleHalfLength * (4.0 / 3.0 - kPoleMass * (cosine * cosine) / kTotalMass));
  const double x_acc = push - kPoleMassLength * theta_acc * cosine / kTotalMass;
  state->x_dot += kSeconds * x_acc;
  state->theta = theta;
  state->theta_dot += kSeconds * theta_acc;
  return {1, terminated};
}
inline ClassicOutcome CartPoleStep(int64_t action, CartPoleState* state) {
  return CartPoleStep(action, SinesOf(*state), state);
}

absl::StatusOr<std::unique_ptr<Env>> CreateCartPole(absl::string_view name,
                                                    int64_t max_episode_steps,
                                                    bool shows_velocity = true);

}  // namespace ding

#endif  // DING_WORKER_ENV_CLASSIC_CONTROL_CARTPOLE_H_
