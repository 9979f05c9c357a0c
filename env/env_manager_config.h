// Reads EnvManagerConfig: the fields of all managers, and of managers with sub-processes. Refuses
// fields that a type does not have.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_ENV_ENV_MANAGER_CONFIG_H_
#define DING_WORKER_ENV_ENV_MANAGER_CONFIG_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager_core.h"
#include "ding_worker/env/subprocess_env_manager.h"

namespace ding {

// Fills in `options`. `own_keys` are the fields that only some types have and this type accepts.
//   kInvalidArgument  lists the fields that this type does not have and that differ from their
//                     defaults, `params` (which none of our types takes), and seconds that are not
//                     finite
absl::Status ReadEnvManagerConfig(const EnvManagerConfig& config,
                                  const std::vector<absl::string_view>& own_keys,
                                  EnvManagerCore::Options* options);

// Reads the config of a manager of `env_num` envs, of type "subprocess", which waits for all envs,
// or "async_subprocess". kInvalidArgument if it sets a key that the type does not have.
absl::StatusOr<SubprocessEnvManagerOptions> ReadSubprocessOptions(const EnvManagerConfig& config,
                                                                  int env_num);

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_MANAGER_CONFIG_H_
