#include "ding_worker/env/subprocess_env_manager.h"

#include <utility>

#include "absl/status/status.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/env_process_pool.h"
#include "ding_worker/env/env_workers.h"
#include "ding_worker/env/probe_env_spec.h"
#include "ding_worker/env/process_env_workers.h"
#include "ding_worker/env/subprocess_options.h"

namespace ding {

absl::StatusOr<std::unique_ptr<EnvManager>> CreateSubprocessEnvManager(
    SubprocessEnvManagerOptions options, std::vector<EnvFactory> factories) {
  DING_RETURN_IF_ERROR(CheckSubprocessOptions(options, static_cast<int>(factories.size())));
  if (factories.empty()) {
    return absl::InvalidArgumentError(
        "env manager: there are no env factories, expected at least one");
  }
  absl::StatusOr<EnvSpec> spec = ProbeEnvSpec(factories[0], options.connect_timeout);
  if (!spec.ok()) return Annotate(spec.status(), "env 0");
  const int env_num = static_cast<int>(factories.size());
  DING_ASSIGN_OR_RETURN(std::unique_ptr<EnvWorkers> workers,
                        CreateProcessEnvWorkers(PoolOptions(options), *std::move(spec), env_num,
                                                RunFactories(std::move(factories))));
  return AsyncEnvManager::Create(options, std::move(workers));
}

}  // namespace ding
