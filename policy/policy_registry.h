// The registries of policies, networks and losses, which configs name.
#ifndef DING_WORKER_POLICY_POLICY_REGISTRY_H_
#define DING_WORKER_POLICY_POLICY_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/loss/loss_function.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"

namespace ding {

// The spaces, seed and modes of a policy.
struct PolicyContext {
  SpecPtr observation;
  SpecPtr action;
  uint64_t seed = 0;  // streams: "policy/init", "policy/collect", ...
  PolicyModes modes;
  // Averages gradients with the other learners of a group; null: a single learner. It must outlive
  // the policy.
  GradientReducer* reducer = nullptr;
  // As in EnvSpec; create_policy() refuses components that the policy does not take.
  Shape reward_shape = {};
  std::string env = {};  // the name of the env, for errors
  // Your own losses, which replace the losses of the policy; null: none. If the policy learns,
  // create_policy() makes the losses that the config names. It refuses a loss that the policy does
  // not use.
  std::shared_ptr<LossFunction> loss = nullptr;
  std::shared_ptr<LossFunction> actor_loss = nullptr;
};

// Policies (base/module.h).
using PolicyCreator = Module<std::unique_ptr<Policy>, PolicyConfig, const PolicyContext&>;
inline ModuleRegistry<PolicyCreator>& PolicyRegistry() {
  static auto* const registry = new ModuleRegistry<PolicyCreator>("policy");
  return *registry;
}

// Default values of the config for a policy type: lines "path=value  # source", where path and
// value are as in --set. Lines below "[discrete]" or "[continuous]" hold only for actions of that
// kind. worker/config/policy_defaults.h says when a line holds. A policy without an entry has the
// defaults of the config's messages.
//
// Example (beside the registration of the policy):
//   DING_REGISTER(PolicyDefaultsRegistry(), "my_ppo", R"(
//     policy.collect.n_sample=2048  # Schulman et al. 2017, table 3
//     [discrete]
//     policy.params.entropy_weight=0.01  # the same, table 5
//   )", "the values of the paper");
inline Registry<const char*>& PolicyDefaultsRegistry() {
  static auto* const registry = new Registry<const char*>("defaults of policy");
  return *registry;
}

// Networks. Each field of `outputs` is a head of the network (output_spec()). Parameters are drawn
// from the stream (seed, "policy/init").
using NetworkCreator = Module<std::unique_ptr<Network>, NetworkConfig, const SpecPtr& /*input*/,
                              const SpecPtr& /*outputs*/, uint64_t /*seed*/>;
inline ModuleRegistry<NetworkCreator>& NetworkRegistry() {
  static auto* const registry = new ModuleRegistry<NetworkCreator>("network");
  return *registry;
}

// Your own losses (policy/loss/loss_function.h).
using LossFactory = Module<std::unique_ptr<LossFunction>, LossConfig>;
inline ModuleRegistry<LossFactory>& LossRegistry() {
  static auto* const registry = new ModuleRegistry<LossFactory>("loss");
  return *registry;
}

// Make a policy or a network from its config.
//   kNotFound         no linked module has this type; the message lists the linked types
//   kInvalidArgument  the config has problems, or spaces do not fit; the message lists all of them.
//                     Also if the env has a reward of several components, which the policy does not
//                     take
// Errors of the factory of a policy begin with "policy type 'x': ".
absl::StatusOr<std::unique_ptr<Policy>> create_policy(const PolicyConfig& config,
                                                      const PolicyContext& context);
absl::StatusOr<std::unique_ptr<Network>> create_network(const NetworkConfig& config,
                                                        const SpecPtr& input,
                                                        const SpecPtr& outputs, uint64_t seed);

}  // namespace ding

#endif  // DING_WORKER_POLICY_POLICY_REGISTRY_H_
