// Registers BaseEnvManager as "base".
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_manager_config.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<EnvManager>> CreateBaseEnvManager(const EnvManagerConfig& config,
                                                                 std::vector<EnvFactory> factories,
                                                                 const Clock* /*clock*/) {
  BaseEnvManager::Options options;
  DING_RETURN_IF_ERROR(ReadEnvManagerConfig(config, {}, &options));
  return BaseEnvManager::Create(std::move(options), std::move(factories));
}

DING_REGISTER(EnvManagerRegistry(), "base", CreateBaseEnvManager,
              "steps all envs in the caller's thread: for fast envs");

}  // namespace
}  // namespace ding
