// Reads the options of the managers with sub-processes from a config.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_ENV_READ_SUBPROCESS_OPTIONS_H_
#define DING_WORKER_ENV_READ_SUBPROCESS_OPTIONS_H_

#include "absl/status/statusor.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/subprocess_env_manager_options.h"

namespace ding {

// Reads the config of a manager of `env_num` envs, of type "subprocess", which waits for all envs, or
// "async_subprocess". kInvalidArgument if it sets a key that the type does not have.
absl::StatusOr<SubprocessEnvManagerOptions> ReadSubprocessOptions(const EnvManagerConfig& config,
                                                                  int env_num);
}  // namespace ding

#endif  // DING_WORKER_ENV_READ_SUBPROCESS_OPTIONS_H_
