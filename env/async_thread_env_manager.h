// The env manager that steps its envs in a pool of threads: for envs whose step takes long enough
// to be worth a thread (more than a few microseconds). An env is stepped by one thread at a time,
// not always the same.
//
//     Step ──► queue of envs ──► thread 1 ──► rows, answers ──► Timesteps
//                           └──► thread 2 ──►
//
// The manager measures how long steps and resets take. A call that waits for all envs steps them in
// the caller's thread if threads would save less than inline_below. The results are the same.
//
// A thread cannot be interrupted. If envs take longer than hang_timeout, the waiting call and every
// later call return kDeadlineExceeded, which names them. Their threads, envs and memory are leaked,
// since only the end of the process can end them. An env that hangs while it is stepped in the
// caller's thread, saved or rendered hangs the caller.
//
// Threads start with the first step or reset that uses them, and are joined by Close().
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
  // The number of threads; 0: one per core of the machine.
  int num_threads = 0;
  // Threads are used if they save more than this per call; 0: always. The default is about the time
  // that it takes to wake the threads and, afterwards, the caller.
  absl::Duration inline_below = absl::Microseconds(25);
  // The longest time that a step or reset may take; above 0. Set it far above the duration of any
  // step or reset.
  absl::Duration hang_timeout = absl::Minutes(10);
  const Clock* clock = Clock::Real();
};

//   kInvalidArgument  invalid options (the error lists all problems), no factories, invalid spec
//   other             the error of the factory
absl::StatusOr<std::unique_ptr<EnvManager>> CreateAsyncThreadEnvManager(
    AsyncThreadEnvManagerOptions options, std::vector<EnvFactory> factories);

}  // namespace ding

#endif  // DING_WORKER_ENV_ASYNC_THREAD_ENV_MANAGER_H_
