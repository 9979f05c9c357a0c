// The common part of the factories of actor-critic algorithms: it converts their shared config to
// options and networks.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_CONFIG_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_CONFIG_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor_critic/actor_critic.pb.h"
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {

// Whether an action is one category or several categories.
bool HasCategories(const Spec& action);

// Creates the network of config field `model`, whose outputs are the action head and
// `more_outputs`. Returns null and appends problems if the network cannot be created or the spaces
// are refused. An invalid action space counts as one category, so that problems of the network are
// reported too.
std::unique_ptr<Network> CreateActor(const NetworkConfig& config, const PolicyContext& context,
                                     const std::vector<FieldSpec>& more_outputs,
                                     std::vector<std::string>* problems);

// The parts of a policy, made from its configs.
struct ActorCriticParts {
  std::unique_ptr<Network> actor;
  std::unique_ptr<Network> critic;   // null: the actor has the head "value"
  ActorCriticPolicyOptions options;  // to which the algorithm adds `update`
};

// The fields of every actor-critic that may change in a run: learning rate and entropy weight.
std::vector<ChangingField> ChangingFields(const ActorCriticConfig& config);

// Makes the parts of a policy. `fields` are the fields of its config that may change in a run.
//   kInvalidArgument  lists `problems` and all further problems of configs, networks and spaces
absl::StatusOr<ActorCriticParts> MakeActorCriticParts(const PolicyConfig& policy,
                                                      const ActorCriticConfig& config,
                                                      const PolicyContext& context,
                                                      const std::vector<ChangingField>& fields,
                                                      std::vector<std::string> problems);

// Appends problems of a policy that learns from the rows that it has just collected.
void AppendOnPolicyProblems(const PolicyConfig& policy, std::vector<std::string>* problems);

// Describes the actor of a policy of this config with this action space.
absl::StatusOr<ActorDescription> DescribeActorCriticActor(const PolicyConfig& policy,
                                                          const ActorCriticConfig& config,
                                                          const Spec& action);

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_CONFIG_H_
