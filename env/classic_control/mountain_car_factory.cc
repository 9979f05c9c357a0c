// Registers MountainCar-v0.
#include "ding_worker/base/registry.h"
#include "ding_worker/env/classic_control/mountain_car.h"
#include "ding_worker/env/env_params.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

DING_REGISTER(EnvRegistry(), "MountainCar-v0", WithoutParams(CreateMountainCar),
              "rock a weak car up a hill: 3 actions, up to 200 steps");

}  // namespace
}  // namespace ding
