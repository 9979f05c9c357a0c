// Reads the config fields that all env managers share, and refuses fields that a type does not have.
#ifndef DING_WORKER_ENV_ENV_MANAGER_CONFIG_H_
#define DING_WORKER_ENV_ENV_MANAGER_CONFIG_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager_core.h"

namespace ding {

// Fills in `options`. `own_keys` are the fields that only some types have and this type accepts.
//   kInvalidArgument  lists the fields that this type does not have and that differ from their
//                     defaults, `params` (which none of our types takes), and seconds that are not
//                     finite
absl::Status ReadEnvManagerConfig(const EnvManagerConfig& config,
                                  const std::vector<absl::string_view>& own_keys,
                                  EnvManagerCore::Options* options);

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_MANAGER_CONFIG_H_
