// Registers MountainCarContinuous-v0.
#include "ding_worker/base/registry.h"
#include "ding_worker/env/classic_control/mountain_car_continuous.h"
#include "ding_worker/env/env_params.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

DING_REGISTER(EnvRegistry(), "MountainCarContinuous-v0", WithoutParams(CreateMountainCarContinuous),
              "MountainCar with a continuous throttle; up to 999 steps");

}  // namespace
}  // namespace ding
