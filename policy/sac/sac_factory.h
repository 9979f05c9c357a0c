// Creates SAC from its config, for your own algorithms that change its entropy term. Linking this
// target registers policy type "sac".
//
// Example, in the source of policy type "mine", whose message has a field `sac` of type SacConfig:
//   return CreateSacPolicy(policy, config.sac(), context, MyEntropyCost);
//   ...
//   DING_REGISTER(ActorDescriberRegistry(), "mine", DescriberOf(DescribeSacActor, &MyConfig::sac),
//                 "as sac");
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_SAC_SAC_FACTORY_H_
#define DING_WORKER_POLICY_SAC_SAC_FACTORY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/sac/sac.h"
#include "ding_worker/policy/sac/sac.pb.h"

namespace ding {

// Creates SAC with another entropy term (SacOptions::entropy_cost); null: the entropy term of SAC.
// `policy.type` is the name of the algorithm in messages.
//   kInvalidArgument  lists all problems of configs, networks and spaces
absl::StatusOr<std::unique_ptr<Policy>> CreateSacPolicy(const PolicyConfig& policy,
                                                        const SacConfig& config,
                                                        const PolicyContext& context,
                                                        EntropyCostFunction entropy_cost = nullptr);

// Describes the actor of SAC for checkpoints (policy/actor/describe_actor.h).
absl::StatusOr<ActorDescription> DescribeSacActor(const PolicyConfig& policy,
                                                  const SacConfig& config, const Spec& action);

}  // namespace ding

#endif  // DING_WORKER_POLICY_SAC_SAC_FACTORY_H_
