// Registers the env manager with sub-processes: "subprocess" waits for all envs, "async_subprocess"
// for wait_num of them.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_manager_config.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/subprocess_env_manager.h"

namespace ding {
namespace {

constexpr int kDefaultWaitNum = 2;

absl::StatusOr<SubprocessEnvManagerOptions> ReadOptions(const EnvManagerConfig& config,
                                                        bool with_wait_num) {
  std::vector<absl::string_view> keys = {"step_timeout", "reset_timeout", "envs_per_process",
                                         "memory_limit_mb", "connect_timeout"};
  if (with_wait_num) keys.push_back("wait_num");
  SubprocessEnvManagerOptions options;
  DING_RETURN_IF_ERROR(ReadEnvManagerConfig(config, keys, &options));
  options.envs_per_process = config.envs_per_process();
  options.memory_limit_mb = config.memory_limit_mb();
  options.step_timeout = absl::Seconds(config.step_timeout());
  options.reset_timeout = absl::Seconds(config.reset_timeout());
  options.connect_timeout = absl::Seconds(config.connect_timeout());
  return options;
}

absl::StatusOr<std::unique_ptr<EnvManager>> CreateSubprocess(const EnvManagerConfig& config,
                                                             std::vector<EnvFactory> factories,
                                                             const Clock* /*clock*/) {
  DING_ASSIGN_OR_RETURN(SubprocessEnvManagerOptions options,
                        ReadOptions(config, /*with_wait_num=*/false));
  return CreateSubprocessEnvManager(std::move(options), std::move(factories));
}

absl::StatusOr<std::unique_ptr<EnvManager>> CreateAsyncSubprocess(const EnvManagerConfig& config,
                                                                  std::vector<EnvFactory> factories,
                                                                  const Clock* /*clock*/) {
  DING_ASSIGN_OR_RETURN(SubprocessEnvManagerOptions options,
                        ReadOptions(config, /*with_wait_num=*/true));
  options.wait_num = config.has_wait_num()
                         ? config.wait_num()
                         : std::min(kDefaultWaitNum, static_cast<int>(factories.size()));
  return CreateSubprocessEnvManager(std::move(options), std::move(factories));
}

DING_REGISTER(EnvManagerRegistry(), "subprocess", CreateSubprocess,
              "steps envs in processes of their own, which may crash or hang");
DING_REGISTER(EnvManagerRegistry(), "async_subprocess", CreateAsyncSubprocess,
              "like subprocess, but a step waits for wait_num envs only");

}  // namespace
}  // namespace ding
