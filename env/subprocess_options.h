// The options of the managers with sub-processes, checked and used.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_ENV_SUBPROCESS_OPTIONS_H_
#define DING_WORKER_ENV_SUBPROCESS_OPTIONS_H_

#include "absl/status/status.h"
#include "ding_worker/env/env_process_pool.h"
#include "ding_worker/env/subprocess_env_manager_options.h"

namespace ding {

// kInvalidArgument with all problems of the options of a manager of `env_num` envs.
absl::Status CheckSubprocessOptions(const SubprocessEnvManagerOptions& options, int env_num);
// What these options ask of the processes.
EnvProcessPool::Options PoolOptions(const SubprocessEnvManagerOptions& options);

}  // namespace ding

#endif  // DING_WORKER_ENV_SUBPROCESS_OPTIONS_H_
