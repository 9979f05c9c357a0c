// Registers Pendulum-v1.
#include "ding_worker/base/registry.h"
#include "ding_worker/env/classic_control/classic_factory.h"
#include "ding_worker/env/classic_control/pendulum.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

DING_REGISTER(EnvRegistry(), "Pendulum-v1", WithoutParams(CreatePendulum));

}  // namespace
}  // namespace ding
