#include "ding_worker/env/subprocess_env_manager.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/async_env_manager.h"
#include "ding_worker/env/env_workers.h"
#include "ding_worker/env/process/env_process_pool.h"
#include "ding_worker/env/process/process_env_workers.h"

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

absl::Status CheckSubprocessOptions(const SubprocessEnvManagerOptions& options, int env_num) {
  std::vector<std::string> problems;
  if (options.envs_per_process < 0) {
    problems.push_back(absl::StrCat("envs_per_process is ", options.envs_per_process,
                                    ", expected 0 (a process per core) or more"));
  }
  if (options.memory_limit_mb < 0) {
    problems.push_back(absl::StrCat("memory_limit_mb is ", options.memory_limit_mb,
                                    ", expected 0 (no limit) or more"));
  }
  const auto at_least_zero = [&problems](absl::string_view name, absl::Duration timeout) {
    if (timeout >= absl::ZeroDuration()) return;
    problems.push_back(
        absl::StrCat(name, " is ", absl::FormatDuration(timeout), ", expected 0 (never) or more"));
  };
  at_least_zero("step_timeout", options.step_timeout);
  at_least_zero("reset_timeout", options.reset_timeout);
  if (options.connect_timeout <= absl::ZeroDuration()) {
    problems.push_back(absl::StrCat("connect_timeout is ",
                                    absl::FormatDuration(options.connect_timeout),
                                    ", expected more than 0"));
  }
  return AsyncEnvManager::Check(options, env_num, std::move(problems));
}

EnvProcessPool::Options PoolOptions(const SubprocessEnvManagerOptions& options) {
  EnvProcessPool::Options pool;
  pool.envs_per_process = options.envs_per_process;
  pool.memory_limit_mb = options.memory_limit_mb;
  pool.limits = {options.connect_timeout, options.step_timeout, options.reset_timeout};
  pool.retry = options;
  return pool;
}

}  // namespace ding
