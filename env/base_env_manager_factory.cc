// Registers BaseEnvManager as "base".
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

// What only the config can say and this manager cannot do.
absl::Status CheckConfig(const EnvManagerConfig& config) {
  std::vector<std::string> problems;
  const auto refuse_timeout = [&problems](absl::string_view key, double seconds) {
    if (seconds == 0) return;
    problems.push_back(absl::StrCat(
        key, " is ", seconds, ", expected 0: type 'base' runs envs in the caller's thread and ",
        "cannot interrupt them; only a manager that runs them in sub-processes can"));
  };
  refuse_timeout("step_timeout", config.step_timeout());
  refuse_timeout("reset_timeout", config.reset_timeout());
  if (!std::isfinite(config.retry_waiting_time())) {
    problems.push_back(absl::StrCat("retry_waiting_time is ", config.retry_waiting_time(),
                                    ", expected 0 or more seconds"));
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("env manager: ", absl::StrJoin(problems, "; ")));
}

absl::StatusOr<std::unique_ptr<EnvManager>> CreateBaseEnvManager(const EnvManagerConfig& config,
                                                                 std::vector<EnvFactory> factories,
                                                                 const Clock* /*clock*/) {
  DING_RETURN_IF_ERROR(CheckConfig(config));
  BaseEnvManager::Options options;
  options.episode_num = config.episode_num();
  options.max_retry = config.max_retry();
  options.retry_type = config.retry_type() == EnvManagerConfig::RENEW
                           ? BaseEnvManager::RetryType::kRenew
                           : BaseEnvManager::RetryType::kReset;
  options.auto_reset = config.auto_reset();
  options.retry_waiting_time = absl::Seconds(config.retry_waiting_time());
  options.max_abnormal_steps = config.max_abnormal_steps();
  return BaseEnvManager::Create(std::move(options), std::move(factories));
}

DING_REGISTER(EnvManagerRegistry(), "base", CreateBaseEnvManager);

}  // namespace
}  // namespace ding
