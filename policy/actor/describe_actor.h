// Describes the actor of a policy from its config, for the manifest of a checkpoint.
//
// The target of an algorithm registers how its config names the acting network:
//
//   absl::StatusOr<ActorDescription> DescribeDqn(const PolicyConfig& config, const Spec& action) { ... }
//   DING_REGISTER(ActorDescriberRegistry(), "dqn", DescribeDqn, "acts greedily by Q values");
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_ACTOR_DESCRIBE_ACTOR_H_
#define DING_WORKER_POLICY_ACTOR_DESCRIBE_ACTOR_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/policy.pb.h"

namespace ding {

using ActorDescriber =
    std::function<absl::StatusOr<ActorDescription>(const PolicyConfig&, const Spec& action)>;
Registry<ActorDescriber>& ActorDescriberRegistry();

// Describes the actor of a policy of this config with this action space.
//   kUnimplemented  no actor can run it: the policy has no describer, or the type of its network is
//                   not in this repository
absl::StatusOr<ActorDescription> DescribeActor(const PolicyConfig& config, const Spec& action);

// Sets the network of `description`. kUnimplemented if actors cannot compute this type of network;
// names the type.
absl::Status DescribeNetwork(const NetworkConfig& config, ActorDescription* description);

// Returns the type of head of an ActionDistribution for this action space.
inline std::string DistributionHeadOf(const Spec& action, bool squashed = false) {
  if (action.size() > 0 && action.field(0).is_discrete()) return kCategoricalHead;
  return squashed ? kSquashedNormalHead : kNormalHead;
}

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_DESCRIBE_ACTOR_H_
