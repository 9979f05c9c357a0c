// Creates PPO from its config, for your own algorithms that change its loss. Linking this target
// registers policy type "ppo".
//
// Example, in the source of policy type "mine", whose message has a field `ppo` of type PpoConfig:
//   return CreatePpoPolicy(policy, config.ppo(), context,
//                          [](const auto& input, const auto& options, const auto& gradient) {
//                            return ComputeActorCriticLoss(input, options, gradient, MyTerm);
//                          });
//   ...
//   DING_REGISTER(ActorDescriberRegistry(), "mine", DescriberOf(DescribePpoActor, &MyConfig::ppo),
//                 "as ppo");
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_PPO_PPO_FACTORY_H_
#define DING_WORKER_POLICY_PPO_PPO_FACTORY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/loss/actor_critic_loss.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo.pb.h"

namespace ding {

// Creates PPO with another loss. `policy.type` is its name in messages.
//   kInvalidArgument  lists all problems of configs, networks and spaces
absl::StatusOr<std::unique_ptr<Policy>> CreatePpoPolicy(
    const PolicyConfig& policy, const PpoConfig& config, const PolicyContext& context,
    ActorCriticUpdate::Loss loss = ComputePpoLoss);

// Describes the actor of PPO for checkpoints (policy/actor/describe_actor.h).
absl::StatusOr<ActorDescription> DescribePpoActor(const PolicyConfig& policy,
                                                  const PpoConfig& config, const Spec& action);

}  // namespace ding

#endif  // DING_WORKER_POLICY_PPO_PPO_FACTORY_H_
