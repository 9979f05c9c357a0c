// Registers BaseEnvManager as "base".

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/async_thread_env_manager.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_manager_config.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/subprocess_env_manager.h"

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

// Registers the env manager with a pool of threads as "async_thread".

// Whether a step is worth a thread is measured by the machine's clock: no result depends on it.
absl::StatusOr<std::unique_ptr<EnvManager>> CreateFromConfig(const EnvManagerConfig& config,
                                                             std::vector<EnvFactory> factories,
                                                             const Clock* /*clock*/) {
  AsyncThreadEnvManagerOptions options;
  DING_RETURN_IF_ERROR(ReadEnvManagerConfig(config, {"wait_num", "num_threads"}, &options));
  options.wait_num = config.wait_num();
  options.num_threads = config.num_threads();
  return CreateAsyncThreadEnvManager(std::move(options), std::move(factories));
}

DING_REGISTER(EnvManagerRegistry(), "async_thread", CreateFromConfig,
              "steps thread-safe envs in a pool of threads: for slower envs");

// Registers the env manager with sub-processes: "subprocess" waits for all envs, "async_subprocess"
// for wait_num of them.

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
