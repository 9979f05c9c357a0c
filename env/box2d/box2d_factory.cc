// Registers LunarLander-v3, LunarLanderContinuous-v3, BipedalWalker-v3 and
// BipedalWalkerHardcore-v3.

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/env/box2d/bipedal_walker.h"
#include "ding_worker/env/box2d/box2d.pb.h"
#include "ding_worker/env/box2d/lunar_lander.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

template <auto create>
absl::StatusOr<std::unique_ptr<Env>> CreateLander(const EnvConfig& config,
                                                  const LunarLanderParams& params) {
  // A program fills defaults in, so that a field with its default may be one that is not set.
  const LunarLanderParams defaults;
  const bool has_power = params.wind_power() != defaults.wind_power();
  const bool has_turbulence = params.turbulence_power() != defaults.turbulence_power();
  if (!params.enable_wind() && (has_power || has_turbulence)) {
    return absl::InvalidArgumentError(
        absl::StrCat("env '", config.type(), "': ", has_power ? "wind_power" : "turbulence_power",
                     " is set, but there is no wind: set enable_wind: true"));
  }
  LunarLanderOptions options;
  options.gravity = params.gravity();
  options.enable_wind = params.enable_wind();
  options.wind_power = params.wind_power();
  options.turbulence_power = params.turbulence_power();
  return create(options);
}

DING_REGISTER(EnvRegistry(), "LunarLander-v3", CreateLander<CreateLunarLander>,
              "land between two flags: 4 actions, up to 1000 steps");
DING_REGISTER(EnvRegistry(), "LunarLanderContinuous-v3", CreateLander<CreateLunarLanderContinuous>,
              "land between two flags: 2 continuous engines, up to 1000 steps");

DING_REGISTER(EnvRegistry(), "BipedalWalker-v3",
              WithoutParams([] { return CreateBipedalWalker(/*hardcore=*/false); }),
              "walk on two legs over rough ground: 4 torques, up to 1600 steps");
DING_REGISTER(EnvRegistry(), "BipedalWalkerHardcore-v3",
              WithoutParams([] { return CreateBipedalWalker(/*hardcore=*/true); }),
              "BipedalWalker-v3 with stumps, stairs and pits, up to 2000 steps");

}  // namespace
}  // namespace ding
