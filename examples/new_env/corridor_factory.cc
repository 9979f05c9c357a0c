// Registers Corridor.
#include "corridor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/env/env_registry.h"

namespace corridor_env {
namespace {

DING_REGISTER(ding::EnvRegistry(), "Corridor", ding::WithoutParams(CreateCorridor),
              "walk to the goal in a row of 11 places: 3 actions, up to 50 steps");

}  // namespace
}  // namespace corridor_env
