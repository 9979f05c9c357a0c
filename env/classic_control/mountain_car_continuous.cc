#include "ding_worker/env/classic_control/mountain_car_continuous.h"

#include <utility>

#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/classic_control/classic_env.h"

namespace ding {
namespace {

struct MountainCarContinuousModel {
  using State = MountainCarState;
  using Action = float;

  static State Start(Rng* rng) { return {rng->Uniform(-0.6, -0.4), 0}; }

  static ClassicOutcome Step(Action action, State* state) {
    return MountainCarContinuousStep(action, state);
  }

  static void Observe(const State& state, float* obs) {
    obs[0] = static_cast<float>(state.position);
    obs[1] = static_cast<float>(state.velocity);
  }

  static Image Draw(const State& state) {
    return DrawMountainCar(state, kMountainCarContinuousGoal);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Env>> CreateMountainCarContinuous() {
  EnvSpec spec;
  spec.name = "MountainCarContinuous-v0";
  DING_ASSIGN_OR_RETURN(spec.observation,
                        MakeSpec({Box("obs", {2}, {kMountainCarMinPosition, -kMountainCarMaxSpeed},
                                      {kMountainCarMaxPosition, kMountainCarMaxSpeed})}));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Box("action", {1}, {-1}, {1})}));
  spec.reward_low = -0.1;
  spec.reward_high = 100;
  spec.max_episode_steps = 999;
  return std::make_unique<ClassicEnv<MountainCarContinuousModel>>(std::move(spec));
}

}  // namespace ding
