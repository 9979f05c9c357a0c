#include "ding_worker/env/classic_control/pendulum.h"

#include <utility>

#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/classic_control/raster.h"

namespace ding {
namespace {

constexpr double kPi = 3.14159265358979323846;

struct PendulumModel {
  using State = PendulumState;
  using Derived = PendulumAngle;
  using Action = float;

  static State Start(Rng* rng) {
    State state;
    state.theta = rng->Uniform(-kPi, kPi);
    state.theta_dot = rng->Uniform(-1, 1);
    return state;
  }

  static Derived Derive(const State& state) { return AngleOf(state); }

  static ClassicOutcome Step(Action action, const Derived& before, State* state) {
    return PendulumStep(action, before, state);
  }

  static void Observe(const State& state, float* obs) {
    obs[0] = static_cast<float>(std::cos(state.theta));
    obs[1] = static_cast<float>(std::sin(state.theta));
    obs[2] = static_cast<float>(state.theta_dot);
  }

  static Image Draw(const State& state) {
    constexpr double kScale = 500 / 4.4;
    constexpr Color kRod = {204, 77, 77};
    constexpr Point kAxle = {250, 250};
    constexpr double kHalfWidth = 0.1 * kScale;
    Canvas canvas(500, 500);
    // Angle 0 points up: the rod lies along the x axis and is turned by a quarter.
    const double angle = state.theta + kPi / 2;
    canvas.Polygon(Rectangle(kAxle, 0, kScale, -kHalfWidth, kHalfWidth, angle), kRod);
    canvas.Circle(kAxle, kHalfWidth, kRod);
    canvas.Circle({kAxle.x + kScale * std::cos(angle), kAxle.y + kScale * std::sin(angle)},
                  kHalfWidth, kRod);
    canvas.Circle(kAxle, 0.05 * kScale, kBlack);
    return std::move(canvas).image();
  }
};

struct MaskedPendulumModel : PendulumModel {
  static void Observe(const State& state, float* obs) {
    obs[0] = static_cast<float>(std::cos(state.theta));
    obs[1] = static_cast<float>(std::sin(state.theta));
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Env>> CreatePendulum(bool shows_velocity) {
  EnvSpec spec;
  spec.name = shows_velocity ? "Pendulum-v1" : "Pendulum-v1-masked-velocity";
  DING_ASSIGN_OR_RETURN(spec.observation,
                        MakeSpec({shows_velocity ? Box("obs", {3}, {-1, -1, -kPendulumMaxSpeed},
                                                       {1, 1, kPendulumMaxSpeed})
                                                 : Box("obs", {2}, {-1}, {1})}));
  DING_ASSIGN_OR_RETURN(
      spec.action, MakeSpec({Box("action", {1}, {-kPendulumMaxTorque}, {kPendulumMaxTorque})}));
  spec.reward_low = -(kPi * kPi + 0.1 * kPendulumMaxSpeed * kPendulumMaxSpeed +
                      0.001 * kPendulumMaxTorque * kPendulumMaxTorque);
  spec.reward_high = 0;
  spec.max_episode_steps = 200;
  if (!shows_velocity) return std::make_unique<ClassicEnv<MaskedPendulumModel>>(std::move(spec));
  return std::make_unique<ClassicEnv<PendulumModel>>(std::move(spec));
}

}  // namespace ding
