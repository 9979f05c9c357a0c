#include "ding_worker/env/read_subprocess_options.h"

#include <algorithm>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_macros.h"
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

}  // namespace ding
