// The env manager that runs its envs in processes of their own. It survives envs that crash, hang, are
// killed or take too much memory.
//
//     caller ──actions, in shared memory──► process of env 0, 1 ──► rows, answers ──► Timesteps
//                                      └──► process of env 2, 3 ──►   (in place)
//     fork server (ForkServer): starts these processes, reports how they ended, ends with the caller
//
// The failures of a process:
//   - If it ends during a step, or is killed because a step takes longer than step_timeout, the step is
//     abnormal. Timesteps::causes says how the process ended, with its last lines of stderr, and the env
//     begins a new episode in a new process. If the process ends between two steps of an env, the env's
//     next step is abnormal.
//   - If it ends during a reset, or is killed because a reset takes longer than reset_timeout, the reset
//     is tried again in a new process, up to max_retry attempts in all.
//   - The other envs of the process are lost with it: the current or next step of each is abnormal, too.
// More than max_abnormal_steps consecutive abnormal steps of one env are an error, as in every manager.
//
// Create the manager before the program starts threads: see ForkServer. Factories are called in the
// children only, and see memory as it was when the manager was created. The caller's memory does not
// show what envs change. NamedValues, saved states and images travel in messages of at most 16 MiB.
//
// Modes, other failures: AsyncEnvManager. Ownership, threads: as EnvManager.
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

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/env/async_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

struct SubprocessEnvManagerOptions : AsyncEnvManager::Options {
  // The number of envs that share a process; 0: as many as needed for one process per core.
  int envs_per_process = 1;
  // How much more memory than at its start a process may allocate; 0: no limit.
  int64_t memory_limit_mb = 0;
  // The time after which an attempt counts as failed and its process is killed; 0: never. reset_timeout
  // also bounds rendering, and saving and loading states.
  absl::Duration step_timeout = absl::ZeroDuration();
  absl::Duration reset_timeout = absl::ZeroDuration();
  // The time that a process may take to start and to build an env; above 0.
  absl::Duration connect_timeout = absl::Seconds(60);
};

// Builds env 0 in a process of its own, which then ends, to get the spec.
//   kInvalidArgument   invalid options (the error lists all problems), no factories, invalid spec
//   kDeadlineExceeded  env 0 was not built within connect_timeout
//   kUnavailable       the system refuses processes or memory, or the process of env 0 died
//   other              the error of the factory
absl::StatusOr<std::unique_ptr<EnvManager>> CreateSubprocessEnvManager(
    SubprocessEnvManagerOptions options, std::vector<EnvFactory> factories);

}  // namespace ding

#endif  // DING_WORKER_ENV_SUBPROCESS_ENV_MANAGER_H_
