// What the factories of actor-critic algorithms have in common: from the shared config to options
// and networks.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_CONFIG_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_CONFIG_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor_critic/actor_critic.pb.h"
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {

// Appends a sentence unless the number is finite and at least (above) 0; `field` names it.
void RequireAtLeastZero(double value, absl::string_view field, std::vector<std::string>* problems);
void RequireAboveZero(double value, absl::string_view field, std::vector<std::string>* problems);

// The network of config field `model`: to the action head, and behind it `more_outputs`. Null, and
// problems more, if it cannot be made or the spaces are refused: those count as one category, so
// that the network's problems are reported along with them.
std::unique_ptr<Network> CreateActor(const NetworkConfig& config, const PolicyContext& context,
                                     const std::vector<FieldSpec>& more_outputs,
                                     std::vector<std::string>* problems);

// The options that the configs decide; the algorithm adds `update`.
ActorCriticPolicyOptions ActorCriticOptionsFromConfig(absl::string_view name,
                                                      const PolicyConfig& policy,
                                                      const ActorCriticConfig& config,
                                                      const PolicyContext& context);

// The policy of these options, with networks by their config.
//   kInvalidArgument  `problems`, and all that is wrong with the configs, the networks and the
//                     spaces besides: in one message
absl::StatusOr<std::unique_ptr<Policy>> CreateActorCriticPolicy(
    const PolicyConfig& policy, const ActorCriticConfig& config, const PolicyContext& context,
    const ActorCriticPolicyOptions& options, std::vector<std::string> problems);

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_CONFIG_H_
