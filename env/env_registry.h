// Finds environments, their wrappers and env managers by the name in their config (base/module.h).
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
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_wrapper.h"
#include "ding_worker/env/wrapped_env.h"

namespace ding {

using EnvCreator = Module<std::unique_ptr<Env>, EnvConfig>;
inline ModuleRegistry<EnvCreator>& EnvRegistry() {
  static auto* const registry = new ModuleRegistry<EnvCreator>("env");
  return *registry;
}

using EnvManagerCreator =
    Module<std::unique_ptr<EnvManager>, EnvManagerConfig, std::vector<EnvFactory>, const Clock*>;
inline ModuleRegistry<EnvManagerCreator>& EnvManagerRegistry() {
  static auto* const registry = new ModuleRegistry<EnvManagerCreator>("env manager");
  return *registry;
}

// Env types that have their own env manager, for example because one program runs several of their
// envs. If the config names a manager that runs envs in this process, that manager takes
// precedence.
using EnvGroupCreator =
    Module<std::unique_ptr<EnvManager>, EnvConfig, const EnvManagerConfig&, int /*env_num*/>;
inline ModuleRegistry<EnvGroupCreator>& EnvGroupRegistry() {
  static auto* const registry = new ModuleRegistry<EnvGroupCreator>("env group");
  return *registry;
}

// The purpose of a manager of envs. It becomes `use` in the EnvConfig of its envs.
struct EnvsUse {
  bool evaluates = false;    // statistics are loaded, not learned
  std::string video_folder;  // where videos go; empty: nowhere
  bool probes = false;       // only the spec is wanted: the role is "probe"
  bool pictures = false;     // Render() will be called, even without a wrapper that films
  int64_t first_number = 0;  // EnvUse.number of the first env; the others follow
  int64_t probe_number = 0;
};

// A wrapper changes each env alone, or it wraps the manager of all envs and comes after the others
// in a config.
using OneEnvWrapperCreator =
    Module<std::unique_ptr<EnvWrapper>, EnvWrapperConfig, const EnvSpec& /*inner*/>;
using AllEnvsWrapperCreator = Module<std::unique_ptr<EnvManager>, EnvWrapperConfig, const EnvsUse&,
                                     std::unique_ptr<EnvManager> /*inner*/>;
struct EnvWrapperCreator {
  template <typename Make,
            std::enable_if_t<std::is_constructible_v<OneEnvWrapperCreator, Make> ||
                                 std::is_constructible_v<AllEnvsWrapperCreator, Make>,
                             int> = 0>
  EnvWrapperCreator(Make make) {  // NOLINT: a registration names the maker
    if constexpr (std::is_constructible_v<OneEnvWrapperCreator, Make>) {
      one_env = std::move(make);
      params_message = one_env.params_message;
    } else {
      all_envs = std::move(make);
      params_message = all_envs.params_message;
    }
  }

  // Exactly one of these two is set.
  OneEnvWrapperCreator one_env;
  AllEnvsWrapperCreator all_envs;
  ParamsMessage params_message = nullptr;
};
inline Registry<EnvWrapperCreator>& EnvWrapperRegistry() {
  static auto* const registry = new Registry<EnvWrapperCreator>("env wrapper");
  return *registry;
}

// Makes the wrappers of the config for an env of any spec; null if there are none. Errors name the
// wrapper. kInvalidArgument: a wrapper wraps all envs at once.
WrapperStackFactory WrappersOf(const EnvConfig& config);

// Create an env, or a manager of envs. kNotFound lists the linked names; kInvalidArgument if `type`
// is not set, or reward_weights do not fit.
absl::StatusOr<std::unique_ptr<Env>> create_env(const EnvConfig& config);
inline absl::StatusOr<std::unique_ptr<EnvManager>> create_env_manager(
    const EnvManagerConfig& config, std::vector<EnvFactory> factories, const Clock* clock) {
  return EnvManagerRegistry().Create(config, std::move(factories), clock);
}
// Creates a manager of `env_num` envs of this config, with all of its wrappers: one of
// EnvGroupRegistry() if the type has one.
absl::StatusOr<std::unique_ptr<EnvManager>> create_envs(const EnvConfig& env,
                                                        const EnvManagerConfig& manager,
                                                        int env_num, const Clock* clock,
                                                        const EnvsUse& use = {});

// Turns a function that makes an env into the maker of an env type that takes no params.
inline EnvCreator WithoutParams(std::function<absl::StatusOr<std::unique_ptr<Env>>()> create) {
  return [create = std::move(create)](const EnvConfig&, const NoParams&) { return create(); };
}

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_REGISTRY_H_
