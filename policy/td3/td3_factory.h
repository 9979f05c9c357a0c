// Creates TD3 from its config, for your own algorithms that change the loss of its critics. Linking
// this target registers policy types "td3" and "ddpg".
//
// Example, in the source of policy type "mine", whose message has a field `td3` of type Td3Config:
//   return CreateTd3Policy(policy, config.td3(), context, MyCriticLoss);
//   ...
//   DING_REGISTER(ActorDescriberRegistry(), "mine", DescriberOf(DescribeTd3Actor, &MyConfig::td3),
//                 "as td3");
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_TD3_TD3_FACTORY_H_
#define DING_WORKER_POLICY_TD3_TD3_FACTORY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/continuous/continuous_acting.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/td3/td3.pb.h"

namespace ding {

// Creates TD3 whose critics have another loss. `policy.type` is its name in messages.
//   kInvalidArgument  lists all problems of configs, networks and spaces
absl::StatusOr<std::unique_ptr<Policy>> CreateTd3Policy(const PolicyConfig& policy,
                                                        const Td3Config& config,
                                                        const PolicyContext& context,
                                                        CriticLoss critic_loss = ComputeCriticLoss);

// Describes the actor of TD3 for checkpoints (policy/actor/describe_actor.h).
absl::StatusOr<ActorDescription> DescribeTd3Actor(const PolicyConfig& policy,
                                                  const Td3Config& config, const Spec& action);

}  // namespace ding

#endif  // DING_WORKER_POLICY_TD3_TD3_FACTORY_H_
