// Python environments with Gymnasium's interface, in Python processes of their own: all envs of a
// process are woken at once, read their actions from and write their observations to memory that
// the manager shares with them.
//
//     AsyncEnvManager ──► process workers ──futex──► python: env 0, 1, 2, 3
//                                         └────────► python: env 4, 5, 6, 7
//
// Episodes: reset(seed=...) gets the seed of the episode; EpisodeStart::params arrive as `options`.
//           An episode is a function of its seed if the env's code takes all randomness from it.
//           The numbers in the info of its last step are its statistics.
// State:    saved by get_state() and set_state(state) of the env, if it has them.
//
// Ownership, threads: as EnvManager and Env; creating them forks (ForkServer).
// Errors:    those of ProbePythonEnv(). A process that dies, hangs or passes its memory limit makes
//            the step abnormal, as with every env process (docs/explanation/env_failures.md).
#ifndef DING_WORKER_ENV_GYMNASIUM_GYMNASIUM_ENVS_H_
#define DING_WORKER_ENV_GYMNASIUM_GYMNASIUM_ENVS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/data/goal_fields.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "ding_worker/env/wrapped_env.h"

namespace ding {

// A manager of `env_num` envs, options.envs_per_process in each Python process. `wrappers`, if not
// null, makes the wrappers of each env; they run in the caller's thread. `around` is the EnvConfig
// of the env. From it this reads the use, out_of_bounds, and the observation fields that wrappers
// leave out: these may have spaces that this project does not know.
absl::StatusOr<std::unique_ptr<EnvManager>> CreateGymnasiumEnvs(
    const SubprocessEnvManagerOptions& options, const GymnasiumConfig& config, int env_num,
    const WrapperStackFactory& wrappers = nullptr, const EnvConfig& around = {});

// Creates one env alone, for code that steps envs itself. A manager of such envs cannot wake
// several at once.
absl::StatusOr<std::unique_ptr<Env>> CreateGymnasiumEnv(const GymnasiumConfig& config,
                                                        const EnvConfig& around = {});

// Does the same as CreateGymnasiumEnvs() for games with PettingZoo's parallel interface. Player i
// is possible_agents[i].
absl::StatusOr<std::unique_ptr<EnvManager>> CreatePettingZooEnvs(
    const SubprocessEnvManagerOptions& options, const GymnasiumConfig& config, int env_num,
    const WrapperStackFactory& wrappers = nullptr, const EnvConfig& around = {});
absl::StatusOr<std::unique_ptr<Env>> CreatePettingZooEnv(const GymnasiumConfig& config,
                                                         const EnvConfig& around = {});

// Rewards of the env's compute_reward(achieved_goal, desired_goal, info), changed by the wrappers;
// empty without this function, or if a wrapper fails for the env or wraps all envs at once.
absl::StatusOr<std::vector<GoalReward>> SampleGymnasiumGoalRewards(
    const GymnasiumConfig& config, const WrapperStackFactory& wrappers, const EnvConfig& around);

}  // namespace ding

#endif  // DING_WORKER_ENV_GYMNASIUM_GYMNASIUM_ENVS_H_
