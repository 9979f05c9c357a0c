// Registers envs whose config has a name and no parameters. For the factories of this folder.
#ifndef DING_WORKER_ENV_CLASSIC_CONTROL_CLASSIC_FACTORY_H_
#define DING_WORKER_ENV_CLASSIC_CONTROL_CLASSIC_FACTORY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_registry.h"

namespace ding {

// A creator that calls `create` and refuses a config with params.
EnvCreator WithoutParams(std::function<absl::StatusOr<std::unique_ptr<Env>>()> create);

}  // namespace ding

#endif  // DING_WORKER_ENV_CLASSIC_CONTROL_CLASSIC_FACTORY_H_
