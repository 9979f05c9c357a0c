// Registers CartPole-v0 and CartPole-v1, and both with masked velocities.
#include "ding_worker/base/registry.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env_params.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

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

}  // namespace
}  // namespace ding
