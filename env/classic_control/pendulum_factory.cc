// Registers Pendulum-v1 and Pendulum-v1-masked-velocity.
#include "ding_worker/base/registry.h"
#include "ding_worker/env/classic_control/pendulum.h"
#include "ding_worker/env/env_params.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

DING_REGISTER(EnvRegistry(), "Pendulum-v1", WithoutParams([] { return CreatePendulum(); }),
              "swing a pendulum up and hold it: continuous torque, 200 steps");
DING_REGISTER(EnvRegistry(), "Pendulum-v1-masked-velocity",
              WithoutParams([] { return CreatePendulum(/*shows_velocity=*/false); }),
              "Pendulum-v1 that shows the angle only");

}  // namespace
}  // namespace ding
