// Finds environments, their wrappers and env managers by the name in their config; and reads the
// parameters of an env type (UnpackEnvParams, WithoutParams).
//
// Threads: thread-safe.
//
// Example (in the factory target of an env, which has `alwayslink`):
//   DING_REGISTER(EnvRegistry(), "CartPole-v1", WithoutParams(CreateCartPole),
//                 "keep a pole upright on a cart");
#ifndef DING_WORKER_ENV_ENV_REGISTRY_H_
#define DING_WORKER_ENV_ENV_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_wrapper.h"
#include "ding_worker/env/wrapped_env.h"
#include "google/protobuf/message.h"

namespace ding {

using EnvCreator = std::function<absl::StatusOr<std::unique_ptr<Env>>(const EnvConfig&)>;
Registry<EnvCreator>& EnvRegistry();

using EnvManagerCreator = std::function<absl::StatusOr<std::unique_ptr<EnvManager>>(
    const EnvManagerConfig&, std::vector<EnvFactory>, const Clock*)>;
Registry<EnvManagerCreator>& EnvManagerRegistry();

// Env types that bring an env manager of their own instead of one env at a time, such as programs
// that run several envs each. It is asked for a type that is registered here unless the config
// names a manager that runs its envs in this process.
using EnvGroupCreator = std::function<absl::StatusOr<std::unique_ptr<EnvManager>>(
    const EnvConfig&, const EnvManagerConfig&, int env_num)>;
Registry<EnvGroupCreator>& EnvGroupRegistry();

// What a manager of envs is for. It becomes the `use` of their EnvConfig.
struct EnvsUse {
  bool evaluates = false;    // statistics are loaded, not learned
  std::string video_folder;  // where videos go; empty: nowhere
  bool probes = false;       // only the spec is wanted: the role is "probe"
  bool pictures = false;     // Render() will be called, also without a wrapper that films
  int64_t first_number = 0;  // of the envs: EnvUse.number
  int64_t probe_number = 0;
};

// A wrapper changes each env alone, or it wraps the manager of all envs and stands behind the
// others in a config.
using OneEnvWrapperCreator = std::function<absl::StatusOr<std::unique_ptr<EnvWrapper>>(
    const EnvWrapperConfig&, const EnvSpec& inner)>;
using AllEnvsWrapperCreator = std::function<absl::StatusOr<std::unique_ptr<EnvManager>>(
    const EnvWrapperConfig&, const EnvsUse&, std::unique_ptr<EnvManager> inner)>;
using EnvWrapperCreator = std::variant<OneEnvWrapperCreator, AllEnvsWrapperCreator>;
Registry<EnvWrapperCreator>& EnvWrapperRegistry();

// Makes the wrappers of the config for an env of any spec; null if there are none. Its errors name
// the wrapper. kInvalidArgument: one of them wraps all envs at once.
WrapperStackFactory WrappersOf(const EnvConfig& config);

// Create an env, or a manager of envs. kNotFound lists the linked names; kInvalidArgument if `type`
// is not set, or reward_weights do not fit.
absl::StatusOr<std::unique_ptr<Env>> create_env(const EnvConfig& config);
absl::StatusOr<std::unique_ptr<EnvManager>> create_env_manager(const EnvManagerConfig& config,
                                                               std::vector<EnvFactory> factories,
                                                               const Clock* clock);
// Creates a manager of `env_num` envs of this config, with all of its wrappers: one of
// EnvGroupRegistry() if the type has one.
absl::StatusOr<std::unique_ptr<EnvManager>> create_envs(const EnvConfig& env,
                                                        const EnvManagerConfig& manager,
                                                        int env_num, const Clock* clock,
                                                        const EnvsUse& use = {});

// For factories of envs: unpacks `config.params` into `params`; without params it keeps its
// defaults. kInvalidArgument, with the type found and expected, if it is another message or cannot
// be parsed.
absl::Status UnpackEnvParams(const EnvConfig& config, google::protobuf::Message* params);

// Likewise: returns a creator that calls `create` and refuses a config with params.
EnvCreator WithoutParams(std::function<absl::StatusOr<std::unique_ptr<Env>>()> create);

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_REGISTRY_H_
