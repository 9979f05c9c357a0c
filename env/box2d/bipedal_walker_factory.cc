// Registers BipedalWalker-v3 and BipedalWalkerHardcore-v3.
#include "ding_worker/base/registry.h"
#include "ding_worker/env/box2d/bipedal_walker.h"
#include "ding_worker/env/env_params.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

DING_REGISTER(EnvRegistry(), "BipedalWalker-v3",
              WithoutParams([] { return CreateBipedalWalker(/*hardcore=*/false); }),
              "walk on two legs over rough ground: 4 torques, up to 1600 steps");
DING_REGISTER(EnvRegistry(), "BipedalWalkerHardcore-v3",
              WithoutParams([] { return CreateBipedalWalker(/*hardcore=*/true); }),
              "BipedalWalker-v3 with stumps, stairs and pits, up to 2000 steps");

}  // namespace
}  // namespace ding
