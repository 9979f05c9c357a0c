#include "ding_worker/env/subprocess_options.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/async_env_manager.h"
#include "ding_worker/env/env_manager_config.h"

namespace ding {
namespace {

constexpr char kWaitsForSome[] = "async_subprocess";
constexpr int kDefaultWaitNum = 2;

}  // namespace

absl::StatusOr<SubprocessEnvManagerOptions> ReadSubprocessOptions(const EnvManagerConfig& config,
                                                                  int env_num) {
  const bool waits_for_some = config.type() == kWaitsForSome;
  std::vector<absl::string_view> keys = {"step_timeout", "reset_timeout", "envs_per_process",
                                         "memory_limit_mb", "connect_timeout"};
  if (waits_for_some) keys.push_back("wait_num");
  SubprocessEnvManagerOptions options;
  DING_RETURN_IF_ERROR(ReadEnvManagerConfig(config, keys, &options));
  options.envs_per_process = config.envs_per_process();
  options.memory_limit_mb = config.memory_limit_mb();
  options.step_timeout = absl::Seconds(config.step_timeout());
  options.reset_timeout = absl::Seconds(config.reset_timeout());
  options.connect_timeout = absl::Seconds(config.connect_timeout());
  if (waits_for_some) {
    options.wait_num =
        config.has_wait_num() ? config.wait_num() : std::min(kDefaultWaitNum, env_num);
  }
  return options;
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
