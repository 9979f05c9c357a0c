// Helpers for factories of envs: they read the env's parameters from its config.
//
// Example:
//   DING_REGISTER(EnvRegistry(), "CartPole-v1", WithoutParams(CreateCartPole),
//                 "keep a pole upright on a cart");
#ifndef DING_WORKER_ENV_ENV_PARAMS_H_
#define DING_WORKER_ENV_ENV_PARAMS_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "google/protobuf/message.h"

namespace ding {

// Unpacks `config.params` into `params`; without params it keeps its defaults. kInvalidArgument, with
// the type found and expected, if it is another message or cannot be parsed.
absl::Status UnpackEnvParams(const EnvConfig& config, google::protobuf::Message* params);

// Returns a creator that calls `create` and refuses a config with params.
EnvCreator WithoutParams(std::function<absl::StatusOr<std::unique_ptr<Env>>()> create);

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_PARAMS_H_
