// Registers Corridor.
#include "corridor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/env/env_params.h"
#include "ding_worker/env/env_registry.h"

namespace corridor_env {
namespace {

DING_REGISTER(ding::EnvRegistry(), "Corridor", ding::WithoutParams(CreateCorridor));

}  // namespace
}  // namespace corridor_env
