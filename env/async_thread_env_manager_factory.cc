// Registers the env manager with a pool of threads as "async_thread".
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/async_thread_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_manager_config.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

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

}  // namespace
}  // namespace ding
