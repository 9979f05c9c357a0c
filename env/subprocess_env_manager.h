// The env manager that runs its envs in processes of their own. It survives an env that crashes,
// hangs, is killed or takes all memory of the machine.
//
//     caller ──actions, in shared memory──► process of env 0, 1 ──► rows, answers ──► Timesteps
//                                      └──► process of env 2, 3 ──►   (in place)
//     fork server (ForkServer): starts these processes, reports how they end, ends with the caller
//
// When a process ends:
//   - During a step: the step is abnormal, Timesteps::causes says how the process ended and what
//     its last lines of output were, and the env begins a new episode in a new process. A process
//     whose step takes longer than step_timeout is killed, which has the same result.
//   - Between steps: the same happens at the env's next step.
//   - During a reset: the reset is tried again in a new process, with max_retry attempts in all. A
//     process whose reset takes longer than reset_timeout is killed.
//   - The other envs of the process lose their episodes, too: the current or next step of each is
//     abnormal.
// More than max_abnormal_steps consecutive abnormal steps of an env are an error, as with every
// manager.
//
// Create the manager before the program starts threads: see ForkServer. Factories are called in the
// children only, with their captured objects as of the manager's creation. The caller does not see
// an env's writes to memory. NamedValues, saved states and images travel in messages of at most
// 16 MiB.
//
// AsyncEnvManager describes the modes (wait_num) and the other failures.
//
// Ownership, threads: as EnvManager.
//
// Example:
//   SubprocessEnvManagerOptions options;
//   options.step_timeout = absl::Seconds(5);
//   DING_ASSIGN_OR_RETURN(auto manager, CreateSubprocessEnvManager(options, factories));
#ifndef DING_WORKER_ENV_SUBPROCESS_ENV_MANAGER_H_
#define DING_WORKER_ENV_SUBPROCESS_ENV_MANAGER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/env/async_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/process/env_process_pool.h"

namespace ding {

// The options of the managers with sub-processes.
struct SubprocessEnvManagerOptions : AsyncEnvManager::Options {
  // The number of envs that share a process; 0: as many as it takes to have one process per core.
  int envs_per_process = 1;
  // How much a process may allocate after its start; 0: no limit.
  int64_t memory_limit_mb = 0;
  // The time after which an attempt counts as failed and its process is killed; 0: never.
  // reset_timeout also limits rendering, and saving and loading states.
  absl::Duration step_timeout = absl::ZeroDuration();
  absl::Duration reset_timeout = absl::ZeroDuration();
  // How long a process may take to start and build an env; more than 0.
  absl::Duration connect_timeout = absl::Seconds(60);
};

// Creates the manager. To learn the spec, first builds env 0 in a process that then ends.
//   kInvalidArgument   the options are invalid (the error lists all problems), there are no
//                      factories, or the spec is not valid
//   kUnavailable       the system refuses processes or memory, or the process that built env 0
//                      ended
//   kDeadlineExceeded  env 0 was not built within connect_timeout
//   other              the error of the factory
absl::StatusOr<std::unique_ptr<EnvManager>> CreateSubprocessEnvManager(
    SubprocessEnvManagerOptions options, std::vector<EnvFactory> factories);

// Checks the options of a manager of `env_num` envs, also for managers whose processes run other
// programs (env/gymnasium). kInvalidArgument lists all problems.
absl::Status CheckSubprocessOptions(const SubprocessEnvManagerOptions& options, int env_num);
// Returns the options of the processes.
EnvProcessPool::Options PoolOptions(const SubprocessEnvManagerOptions& options);

}  // namespace ding

#endif  // DING_WORKER_ENV_SUBPROCESS_ENV_MANAGER_H_
