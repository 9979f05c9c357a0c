#include "ding_worker/env/classic_control/acrobot.h"

#include <utility>

#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/classic_control/raster.h"

namespace ding {
namespace {

struct AcrobotModel {
  using State = AcrobotState;
  // A step has calls between its stages.
  struct Derived {};
  using Action = int64_t;

  // The start is rounded to float32, as in Gymnasium.
  static State Start(Rng* rng) {
    State state;
    for (double* const number : {&state.theta1, &state.theta2, &state.dtheta1, &state.dtheta2}) {
      *number = static_cast<float>(rng->Uniform(-0.1, 0.1));
    }
    return state;
  }

  static Derived Derive(const State& /*state*/) { return {}; }

  static ClassicOutcome Step(Action action, const Derived& /*none*/, State* state) {
    return AcrobotStep(action, state);
  }

  static void Observe(const State& state, float* obs) {
    obs[0] = static_cast<float>(std::cos(state.theta1));
    obs[1] = static_cast<float>(std::sin(state.theta1));
    obs[2] = static_cast<float>(std::cos(state.theta2));
    obs[3] = static_cast<float>(std::sin(state.theta2));
    obs[4] = static_cast<float>(state.dtheta1);
    obs[5] = static_cast<float>(state.dtheta2);
  }

  static Image Draw(const State& state) {
    constexpr double kScale = 500 / 4.4;
    constexpr double kHalfWidth = 0.1 * kScale;
    Canvas canvas(500, 500);
    canvas.Line({0, 250 + kScale}, {500, 250 + kScale}, 1, kBlack);
    Point joint = {250, 250};
    for (const double hang : {state.theta1, state.theta1 + state.theta2}) {
      const double angle = hang - kAcrobotPi / 2;
      canvas.Polygon(Rectangle(joint, 0, kScale, -kHalfWidth, kHalfWidth, angle), {0, 204, 204});
      canvas.Circle(joint, kHalfWidth, {204, 204, 0});
      joint = {joint.x + kScale * std::cos(angle), joint.y + kScale * std::sin(angle)};
    }
    return std::move(canvas).image();
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Env>> CreateAcrobot() {
  EnvSpec spec;
  spec.name = "Acrobot-v1";
  DING_ASSIGN_OR_RETURN(
      spec.observation,
      MakeSpec({Box("obs", {6}, {-1, -1, -1, -1, -kAcrobotMaxVelocity1, -kAcrobotMaxVelocity2},
                    {1, 1, 1, 1, kAcrobotMaxVelocity1, kAcrobotMaxVelocity2})}));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", 3)}));
  spec.reward_low = -1;
  spec.reward_high = 0;
  spec.max_episode_steps = 500;
  return std::make_unique<ClassicEnv<AcrobotModel>>(std::move(spec));
}

}  // namespace ding
