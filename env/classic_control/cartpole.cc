#include "ding_worker/env/classic_control/cartpole.h"

#include <limits>
#include <string>
#include <utility>

#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/classic_control/raster.h"

namespace ding {
namespace {

struct CartPoleModel {
  using State = CartPoleState;
  using Derived = CartPoleSines;
  using Action = int64_t;

  static State Start(Rng* rng) {
    State state;
    for (double* const number : {&state.x, &state.x_dot, &state.theta, &state.theta_dot}) {
      *number = rng->Uniform(-0.05, 0.05);
    }
    return state;
  }

  static Derived Derive(const State& state) { return SinesOf(state); }

  static ClassicOutcome Step(Action action, const Derived& sines, State* state) {
    return CartPoleStep(action, sines, state);
  }

  static void Observe(const State& state, float* obs) {
    obs[0] = static_cast<float>(state.x);
    obs[1] = static_cast<float>(state.x_dot);
    obs[2] = static_cast<float>(state.theta);
    obs[3] = static_cast<float>(state.theta_dot);
  }

  static Image Draw(const State& state) {
    constexpr double kScale = 600 / (2 * kCartPoleXLimit);
    constexpr double kTrack = 100;
    Canvas canvas(600, 400);
    const double x = state.x * kScale + 300;
    const Point axle{x, kTrack + 7.5};
    canvas.Line({0, kTrack}, {600, kTrack}, 1, kBlack);
    canvas.Polygon(Rectangle({x, kTrack}, -25, 25, -15, 15, 0), kBlack);
    // The pole leans to the right for a positive angle.
    const double length = 2 * kCartPoleHalfLength * kScale;
    canvas.Polygon(Rectangle(axle, -5, 5, -5, length - 5, -state.theta), {202, 152, 101});
    canvas.Circle(axle, 5, {129, 132, 203});
    return std::move(canvas).image();
  }
};

struct MaskedCartPoleModel : CartPoleModel {
  static void Observe(const State& state, float* obs) {
    obs[0] = static_cast<float>(state.x);
    obs[1] = static_cast<float>(state.theta);
  }
};

// The bounds are twice the limits, so that the last observation of an episode is within them.
FieldSpec Observation(bool shows_velocity) {
  constexpr double kX = 2 * kCartPoleXLimit;
  constexpr double kTheta = 2 * kCartPoleThetaLimit;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!shows_velocity) return Box("obs", {2}, {-kX, -kTheta}, {kX, kTheta});
  return Box("obs", {4}, {-kX, -kInfinity, -kTheta, -kInfinity},
             {kX, kInfinity, kTheta, kInfinity});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Env>> CreateCartPole(absl::string_view name,
                                                    int64_t max_episode_steps,
                                                    bool shows_velocity) {
  EnvSpec spec;
  spec.name = std::string(name);
  DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({Observation(shows_velocity)}));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", 2)}));
  spec.reward_low = 1;
  spec.reward_high = 1;
  spec.max_episode_steps = max_episode_steps;
  if (!shows_velocity) return std::make_unique<ClassicEnv<MaskedCartPoleModel>>(std::move(spec));
  return std::make_unique<ClassicEnv<CartPoleModel>>(std::move(spec));
}

}  // namespace ding
