// Acrobot: two links hang from a pivot; a motor in the joint between them has to swing the free end
// above a line.
//
// Sutton, "Generalization in reinforcement learning" (NIPS 1995); equations of motion as in Sutton
// and Barto, "Reinforcement learning: an introduction", section 11.3 of the first edition ("book"
// in Gymnasium's Acrobot-v1), integrated by the classic Runge-Kutta method with steps of 0.2 s.
//
// Observation: float32[6], cosine and sine of both angles, angular velocities (at most 4 pi and
// 9 pi). Angle 1 is measured from hanging down, angle 2 from link 1.
// Action: 0, 1, 2: torque -1, 0, 1 Nm.   Reward: -1 per step, 0 for the step that terminates.
// Terminated: -cos(a1) - cos(a1 + a2) > 1.   Time limit: 500 steps.
//
// Threads: as Env; AcrobotStep is a pure function.
#ifndef DING_WORKER_ENV_CLASSIC_CONTROL_ACROBOT_H_
#define DING_WORKER_ENV_CLASSIC_CONTROL_ACROBOT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/env.h"

namespace ding {

struct AcrobotState {
  double theta1 = 0;
  double theta2 = 0;
  double dtheta1 = 0;
  double dtheta2 = 0;
};

inline constexpr double kAcrobotPi = 3.14159265358979323846;
inline constexpr double kAcrobotMaxVelocity1 = 4 * kAcrobotPi;
inline constexpr double kAcrobotMaxVelocity2 = 9 * kAcrobotPi;

// The derivative of the state under a torque. The links have mass, length and inertia 1 and their
// centres of mass in the middle.
inline AcrobotState AcrobotDerivative(const AcrobotState& s, double torque) {
  constexpr double kGravity = 9.8;
  constexpr double kCenter = 0.5;
  const double cos2 = std::cos(s.theta2);
  const double sin2 = std::sin(s.theta2);
  const double d1 = kCenter * kCenter + (1 + kCenter * kCenter + 2 * kCenter * cos2) + 2;
  const double d2 = (kCenter * kCenter + kCenter * cos2) + 1;
  const double phi2 = kCenter * kGravity * std::cos(s.theta1 + s.theta2 - kAcrobotPi / 2);
  const double phi1 = -kCenter * (s.dtheta2 * s.dtheta2) * sin2 -
                      2 * kCenter * s.dtheta2 * s.dtheta1 * sin2 +
                      (kCenter + 1) * kGravity * std::cos(s.theta1 - kAcrobotPi / 2) + phi2;
  const double ddtheta2 =
      (torque + d2 / d1 * phi1 - kCenter * (s.dtheta1 * s.dtheta1) * sin2 - phi2) /
      (kCenter * kCenter + 1 - d2 * d2 / d1);
  const double ddtheta1 = -(d2 * ddtheta2 + phi1) / d1;
  return {s.dtheta1, s.dtheta2, ddtheta1, ddtheta2};
}

// Returns `angle` modulo 2 pi, in [-pi, pi].
inline double WrapAngle(double angle) {
  while (angle > kAcrobotPi) angle -= 2 * kAcrobotPi;
  while (angle < -kAcrobotPi) angle += 2 * kAcrobotPi;
  return angle;
}

inline ClassicOutcome AcrobotStep(int64_t action, AcrobotState* state) {
  constexpr double kSeconds = 0.2;
  const double torque = static_cast<double>(action - 1);
  const AcrobotState s = *state;
  const auto moved = [&s](const AcrobotState& rate, double seconds) -> AcrobotState {
    return {s.theta1 + seconds * rate.theta1, s.theta2 + seconds * rate.theta2,
            s.dtheta1 + seconds * rate.dtheta1, s.dtheta2 + seconds * rate.dtheta2};
  };
  const AcrobotState k1 = AcrobotDerivative(s, torque);
  const AcrobotState k2 = AcrobotDerivative(moved(k1, kSeconds / 2), torque);
  const AcrobotState k3 = AcrobotDerivative(moved(k2, kSeconds / 2), torque);
  const AcrobotState k4 = AcrobotDerivative(moved(k3, kSeconds), torque);
  const auto next = [&](double AcrobotState::*value) {
    return s.*value + kSeconds / 6 * (k1.*value + 2 * k2.*value + 2 * k3.*value + k4.*value);
  };
  state->theta1 = WrapAngle(next(&AcrobotState::theta1));
  state->theta2 = WrapAngle(next(&AcrobotState::theta2));
  state->dtheta1 =
      std::clamp(next(&AcrobotState::dtheta1), -kAcrobotMaxVelocity1, kAcrobotMaxVelocity1);
  state->dtheta2 =
      std::clamp(next(&AcrobotState::dtheta2), -kAcrobotMaxVelocity2, kAcrobotMaxVelocity2);
  const bool terminated = -std::cos(state->theta1) - std::cos(state->theta2 + state->theta1) > 1;
  return {terminated ? 0.0 : -1.0, terminated};
}

// "Acrobot-v1".
absl::StatusOr<std::unique_ptr<Env>> CreateAcrobot();

}  // namespace ding

#endif  // DING_WORKER_ENV_CLASSIC_CONTROL_ACROBOT_H_
