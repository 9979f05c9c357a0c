// The env manager that steps its envs in a pool of threads: for envs whose step takes long enough
// to be worth a thread (more than a few microseconds). An env is stepped by one thread at a time,
// not always the same.
//
//     Step ──► queue of envs ──► thread 1 ──► rows, answers ──► Timesteps
//                           └──► thread 2 ──►
//
// Where all envs are waited for and stepping them takes less time than threads would save, they are
// stepped in the caller's thread; what that takes is measured as it goes. Results are the same
// either way.
//
// A thread cannot be interrupted. An env that takes longer than hang_timeout is named by the call
// that waits for it (kDeadlineExceeded), and by every one after it; then the thread, its env and
// their memory are left behind, for the process to end: nothing else can end them. An env that
// hangs while it is stepped in the caller's thread, or being saved or rendered, hangs the caller.
//
// Threads start with the first step or reset and are joined by Close().
//
// Modes, failures: AsyncEnvManager. Ownership, threads: as EnvManager.
//
// Example:
//   AsyncThreadEnvManagerOptions options;
//   options.num_threads = 8;
//   DING_ASSIGN_OR_RETURN(auto manager, CreateAsyncThreadEnvManager(options, factories));
#ifndef DING_WORKER_ENV_ASYNC_THREAD_ENV_MANAGER_H_
#define DING_WORKER_ENV_ASYNC_THREAD_ENV_MANAGER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/env/async_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

struct AsyncThreadEnvManagerOptions : AsyncEnvManager::Options {
  // 0: as many as the machine has cores.
  int num_threads = 0;
  // Threads are used if they save more than this per call; 0: always. About what it takes to wake
  // them and to be woken.
  absl::Duration inline_below = absl::Microseconds(25);
  // Far longer than any step or reset takes; above 0.
  absl::Duration hang_timeout = absl::Minutes(10);
  const Clock* clock = Clock::Real();
};

//   kInvalidArgument  options (all problems at once), no factories, a spec that is not valid
//   other             what the factory said
absl::StatusOr<std::unique_ptr<EnvManager>> CreateAsyncThreadEnvManager(
    AsyncThreadEnvManagerOptions options, std::vector<EnvFactory> factories);

}  // namespace ding

#endif  // DING_WORKER_ENV_ASYNC_THREAD_ENV_MANAGER_H_
