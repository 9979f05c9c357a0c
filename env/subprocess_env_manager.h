// The env manager that runs its envs in processes of their own: the one that survives an env that
// crashes, hangs, is killed or eats the machine's memory.
//
//     caller ──actions, in shared memory──► process of env 0, 1 ──► rows, answers ──► Timesteps
//                                      └──► process of env 2, 3 ──►   (in place)
//     fork server (ForkServer): starts these processes, reports how they end, ends with the caller
//
// What befalls a process:
//   - It ends during a step, or a step takes longer than step_timeout (it is killed then): the step
//     is abnormal, Timesteps::causes says how it ended and its last lines, the env begins anew in a
//     new process. So it does at the env's next step if it ends between steps.
//   - It ends during a reset, or a reset takes longer than reset_timeout: tried again in a new
//     process, max_retry attempts in all.
//   - Envs of the same process share its fate, each with its next step.
// More than max_abnormal_steps of an env in a row are an error, as ever.
//
// Create the manager before the program starts threads: see ForkServer. Factories are called in the
// children only, with what they captured as it was at creation; what envs do is invisible to the
// memory of the caller. NamedValues, saved states and images travel in messages of at most 16 MiB.
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
  // Envs that share a process, 0: as many as to have a process per core.
  int envs_per_process = 1;
  // A process may allocate so much more than it started with; 0: no limit.
  int64_t memory_limit_mb = 0;
  // After which an attempt counts as failed and its process is killed; 0: never. reset_timeout also
  // bounds rendering and saving and loading of states.
  absl::Duration step_timeout = absl::ZeroDuration();
  absl::Duration reset_timeout = absl::ZeroDuration();
  // For a process to start and to build an env; above 0.
  absl::Duration connect_timeout = absl::Seconds(60);
};

// Builds env 0 in a process of its own and ends that, to know the spec.
//   kInvalidArgument  options (all problems at once), no factories, a spec that is not valid
//   kUnavailable      the system refuses processes or memory
//   other             what the factory said, how it ended
absl::StatusOr<std::unique_ptr<EnvManager>> CreateSubprocessEnvManager(
    SubprocessEnvManagerOptions options, std::vector<EnvFactory> factories);

}  // namespace ding

#endif  // DING_WORKER_ENV_SUBPROCESS_ENV_MANAGER_H_
