// Registers the env managers: "base"; "async_thread", with a pool of threads; "subprocess", which
// waits for all envs, and "async_subprocess", which waits for wait_num of them.

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

absl::StatusOr<std::unique_ptr<EnvManager>> CreateBase(const EnvManagerConfig& config,
                                                       std::vector<EnvFactory> factories,
                                                       const Clock* /*clock*/) {
  BaseEnvManager::Options options;
  DING_RETURN_IF_ERROR(ReadEnvManagerConfig(config, {}, &options));
  return BaseEnvManager::Create(std::move(options), std::move(factories));
}

DING_REGISTER(EnvManagerRegistry(), "base", CreateBase,
              "steps all envs in the caller's thread: for fast envs");

// Whether a step is worth a thread is measured by the machine's clock: no result depends on it.
absl::StatusOr<std::unique_ptr<EnvManager>> CreateAsyncThread(const EnvManagerConfig& config,
                                                              std::vector<EnvFactory> factories,
                                                              const Clock* /*clock*/) {
  AsyncThreadEnvManagerOptions options;
  DING_RETURN_IF_ERROR(ReadEnvManagerConfig(config, {"wait_num", "num_threads"}, &options));
  options.wait_num = config.wait_num();
  options.num_threads = config.num_threads();
  return CreateAsyncThreadEnvManager(std::move(options), std::move(factories));
}

DING_REGISTER(EnvManagerRegistry(), "async_thread", CreateAsyncThread,
              "steps thread-safe envs in a pool of threads: for slower envs");

absl::StatusOr<std::unique_ptr<EnvManager>> CreateSubprocess(const EnvManagerConfig& config,
                                                             std::vector<EnvFactory> factories,
                                                             const Clock* /*clock*/) {
  DING_ASSIGN_OR_RETURN(SubprocessEnvManagerOptions options,
                        ReadSubprocessOptions(config, static_cast<int>(factories.size())));
  return CreateSubprocessEnvManager(std::move(options), std::move(factories));
}

DING_REGISTER(EnvManagerRegistry(), "subprocess", CreateSubprocess,
              "steps envs in processes of their own, which may crash or hang");
DING_REGISTER(EnvManagerRegistry(), "async_subprocess", CreateSubprocess,
              "like subprocess, but a step waits for wait_num envs only");

}  // namespace
}  // namespace ding
