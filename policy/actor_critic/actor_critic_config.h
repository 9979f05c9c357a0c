// The common part of the factories of actor-critic algorithms: it converts their shared config to
// options and networks.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_CONFIG_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_CONFIG_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor_critic/actor_critic.pb.h"
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {

// Append a problem unless the number is finite and at least (above) 0; `field` is its name.
void RequireAtLeastZero(double value, absl::string_view field, std::vector<std::string>* problems);
void RequireAboveZero(double value, absl::string_view field, std::vector<std::string>* problems);
// Appends a problem if `field` has been changed although nothing reads it; `needs` is what it needs.
void RequireDefaultUnless(bool is_read, double value, double default_value, absl::string_view field,
                          absl::string_view needs, std::vector<std::string>* problems);
void RequireDefaultUnless(bool is_read, bool value, bool default_value, absl::string_view field,
                          absl::string_view needs, std::vector<std::string>* problems);

// Whether an action is a category, or several.
bool HasCategories(const Spec& action);

// Appends a problem for each number of `config` that is out of range, or that nothing reads.
void AppendProblems(const ActorCriticConfig& config, std::vector<std::string>* problems);

// Creates the network of config field `model`, whose outputs are the action head and `more_outputs`.
// Returns null and appends problems if the network cannot be created or the spaces are refused. An
// invalid action space counts as one category, so that problems of the network are reported too.
std::unique_ptr<Network> CreateActor(const NetworkConfig& config, const PolicyContext& context,
                                     const std::vector<FieldSpec>& more_outputs,
                                     std::vector<std::string>* problems);

struct ActorCriticNetworks {
  std::unique_ptr<Network> actor;
  std::unique_ptr<Network> critic;  // null: the actor has the head "value"
};

// Creates the networks of `config`; appends problems if it cannot.
ActorCriticNetworks CreateActorCriticNetworks(const ActorCriticConfig& config,
                                              const PolicyContext& context,
                                              std::vector<std::string>* problems);

// Returns the options of the configs, to which the algorithm adds `update`.
ActorCriticPolicyOptions ActorCriticOptionsFromConfig(absl::string_view name,
                                                      const PolicyConfig& policy,
                                                      const ActorCriticConfig& config,
                                                      const PolicyContext& context);

// Describes the actor of a policy of this config with this action space.
absl::StatusOr<ActorDescription> DescribeActorCriticActor(const ActorCriticConfig& config,
                                                          const Spec& action);

// The fields that may change: learning rate and entropy weight.
std::vector<ChangingField> ChangingFields(const ActorCriticConfig& config);

// Creates the policy of these options and its networks. `more_fields` may change, beside ChangingFields().
//   kInvalidArgument  lists `problems` and all further problems of configs, networks and spaces
absl::StatusOr<std::unique_ptr<Policy>> CreateActorCriticPolicy(
    const PolicyConfig& policy, const ActorCriticConfig& config, const PolicyContext& context,
    ActorCriticPolicyOptions options, std::vector<std::string> problems,
    const std::vector<ChangingField>& more_fields = {});

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_CONFIG_H_
