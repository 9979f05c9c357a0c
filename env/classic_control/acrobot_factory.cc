// Registers Acrobot-v1.
#include "ding_worker/base/registry.h"
#include "ding_worker/env/classic_control/acrobot.h"
#include "ding_worker/env/env_params.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

DING_REGISTER(EnvRegistry(), "Acrobot-v1", WithoutParams(CreateAcrobot),
              "swing the end of two links above a line: 3 torques, up to 500 steps");

}  // namespace
}  // namespace ding
