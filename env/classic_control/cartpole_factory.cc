// Registers CartPole-v0 and CartPole-v1.
#include "ding_worker/base/registry.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/classic_control/classic_factory.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

DING_REGISTER(EnvRegistry(), "CartPole-v0",
              WithoutParams([] { return CreateCartPole("CartPole-v0", 200); }));
DING_REGISTER(EnvRegistry(), "CartPole-v1",
              WithoutParams([] { return CreateCartPole("CartPole-v1", 500); }));

}  // namespace
}  // namespace ding
