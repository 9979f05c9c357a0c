// Registers Orchard-v0 and Orchard-v0-stack4.
#include "ding_worker/base/registry.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/pixel_game/orchard.h"

namespace ding {
namespace {

DING_REGISTER(EnvRegistry(), "Orchard-v0",
              WithoutParams([] { return CreateOrchard("Orchard-v0", 1); }),
              "catch ripe fruit: picture uint8 [1, 10, 10], 3 actions, 104 steps");
DING_REGISTER(EnvRegistry(), "Orchard-v0-stack4",
              WithoutParams([] { return CreateOrchard("Orchard-v0-stack4", 4); }),
              "Orchard-v0 with the last four pictures, uint8 [4, 10, 10]");

}  // namespace
}  // namespace ding
