// The options of the managers with sub-processes.
//
// Ownership: a value.   Threads: thread-compatible.
#ifndef DING_WORKER_ENV_SUBPROCESS_ENV_MANAGER_OPTIONS_H_
#define DING_WORKER_ENV_SUBPROCESS_ENV_MANAGER_OPTIONS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "ding_worker/env/async_env_manager.h"

namespace ding {

struct SubprocessEnvManagerOptions : AsyncEnvManager::Options {
  // The number of envs that share a process; 0: as many as it takes to have one process per core.
  int envs_per_process = 1;
  // What a process may allocate beyond what it started with; 0: no limit.
  int64_t memory_limit_mb = 0;
  // The time after which an attempt counts as failed and its process is killed; 0: never. reset_timeout
  // also limits rendering, and saving and loading states.
  absl::Duration step_timeout = absl::ZeroDuration();
  absl::Duration reset_timeout = absl::ZeroDuration();
  // How long a process may take to start and build an env; more than 0.
  absl::Duration connect_timeout = absl::Seconds(60);
};

}  // namespace ding

#endif  // DING_WORKER_ENV_SUBPROCESS_ENV_MANAGER_OPTIONS_H_
