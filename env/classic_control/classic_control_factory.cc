// Registers Acrobot-v1, CartPole-v0 and -v1, MountainCar-v0, MountainCarContinuous-v0 and
// Pendulum-v1; CartPole and Pendulum also with masked velocities.

#include "ding_worker/base/registry.h"
#include "ding_worker/env/classic_control/acrobot.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/classic_control/mountain_car.h"
#include "ding_worker/env/classic_control/pendulum.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

DING_REGISTER(EnvRegistry(), "Acrobot-v1", WithoutParams(CreateAcrobot),
              "swing the end of two links above a line: 3 torques, up to 500 steps");

DING_REGISTER(EnvRegistry(), "CartPole-v0",
              WithoutParams([] { return CreateCartPole("CartPole-v0", 200); }),
              "keep a pole upright on a cart: 2 actions, up to 200 steps");
DING_REGISTER(EnvRegistry(), "CartPole-v1",
              WithoutParams([] { return CreateCartPole("CartPole-v1", 500); }),
              "keep a pole upright on a cart: 2 actions, up to 500 steps");
DING_REGISTER(EnvRegistry(), "CartPole-v0-masked-velocity", WithoutParams([] {
                return CreateCartPole("CartPole-v0-masked-velocity", 200, /*shows_velocity=*/false);
              }),
              "CartPole-v0 that shows positions only");
DING_REGISTER(EnvRegistry(), "CartPole-v1-masked-velocity", WithoutParams([] {
                return CreateCartPole("CartPole-v1-masked-velocity", 500, /*shows_velocity=*/false);
              }),
              "CartPole-v1 that shows positions only");

DING_REGISTER(EnvRegistry(), "MountainCar-v0", WithoutParams(CreateMountainCar),
              "rock a weak car up a hill: 3 actions, up to 200 steps");

DING_REGISTER(EnvRegistry(), "MountainCarContinuous-v0", WithoutParams(CreateMountainCarContinuous),
              "MountainCar with a continuous throttle; up to 999 steps");

DING_REGISTER(EnvRegistry(), "Pendulum-v1", WithoutParams([] { return CreatePendulum(); }),
              "swing a pendulum up and hold it: continuous torque, 200 steps");
DING_REGISTER(EnvRegistry(), "Pendulum-v1-masked-velocity",
              WithoutParams([] { return CreatePendulum(/*shows_velocity=*/false); }),
              "Pendulum-v1 that shows the angle only");

}  // namespace
}  // namespace ding
