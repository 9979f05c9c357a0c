// Registers the env manager with sub-processes: "subprocess" waits for all envs, "async_subprocess"
// for wait_num of them.
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/read_subprocess_options.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "ding_worker/env/subprocess_env_manager_options.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<EnvManager>> Create(const EnvManagerConfig& config,
                                                   std::vector<EnvFactory> factories,
                                                   const Clock* /*clock*/) {
  DING_ASSIGN_OR_RETURN(SubprocessEnvManagerOptions options,
                        ReadSubprocessOptions(config, static_cast<int>(factories.size())));
  return CreateSubprocessEnvManager(std::move(options), std::move(factories));
}

DING_REGISTER(EnvManagerRegistry(), "subprocess", Create,
              "steps envs in processes of their own, which may crash or hang");
DING_REGISTER(EnvManagerRegistry(), "async_subprocess", Create,
              "like subprocess, but a step waits for wait_num envs only");

}  // namespace
}  // namespace ding
