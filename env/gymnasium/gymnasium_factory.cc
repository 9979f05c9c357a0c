// Registers the env types "gymnasium" and "pettingzoo": one env alone, and the managers whose
// processes are Python's.
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_manager_config.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/gymnasium/gymnasium_envs.h"
#include "ding_worker/env/subprocess_env_manager.h"

namespace ding {
namespace {

template <auto create>
absl::StatusOr<std::unique_ptr<Env>> CreateOne(const EnvConfig& config,
                                               const GymnasiumConfig& params) {
  return create(params, config);
}

template <auto create>
absl::StatusOr<std::unique_ptr<EnvManager>> CreateGroup(const EnvConfig& config,
                                                        const GymnasiumConfig& params,
                                                        const EnvManagerConfig& manager,
                                                        int env_num) {
  DING_ASSIGN_OR_RETURN(SubprocessEnvManagerOptions options,
                        ReadSubprocessOptions(manager, env_num));
  if (!manager.has_envs_per_process()) options.envs_per_process = 0;
  if (!config.reward_weights().empty()) {
    return absl::InvalidArgumentError(
        "reward_weights are set, but the reward of a Python env is one number: remove them");
  }
  return create(options, params, env_num, WrappersOf(config), config);
}

constexpr char kHelp[] = "a Python env with Gymnasium's interface, by id or module:Class";
constexpr char kGameHelp[] = "a Python game with PettingZoo's parallel interface, by module:Class";

DING_REGISTER(EnvRegistry(), "gymnasium", CreateOne<CreateGymnasiumEnv>, kHelp);
DING_REGISTER(EnvGroupRegistry(), "gymnasium", CreateGroup<CreateGymnasiumEnvs>, kHelp);
DING_REGISTER(EnvRegistry(), "pettingzoo", CreateOne<CreatePettingZooEnv>, kGameHelp);
DING_REGISTER(EnvGroupRegistry(), "pettingzoo", CreateGroup<CreatePettingZooEnvs>, kGameHelp);

}  // namespace
}  // namespace ding
