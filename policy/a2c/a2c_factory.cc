// Registers policy type "a2c".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/a2c/a2c.h"
#include "ding_worker/policy/a2c/a2c.pb.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/actor_critic/actor_critic_config.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy, const A2cConfig& config,
                                               const PolicyContext& context) {
  std::vector<std::string> problems;
  AppendOnPolicyProblems(policy, &problems);
  DING_ASSIGN_OR_RETURN(ActorCriticParts parts,
                        MakeActorCriticParts(policy, config.actor_critic(), context,
                                             ChangingFields(config.actor_critic()), problems));
  parts.options.update.own_loss = context.loss;
  return CreateA2c(std::move(parts.actor), std::move(parts.critic), context.observation,
                   context.action, {std::move(parts.options), config.adv_norm()});
}

DING_REGISTER(PolicyRegistry(), "a2c", Create,
              "A2C: on-policy, one step per collect; discrete and continuous actions");
DING_REGISTER(ActorDescriberRegistry(), "a2c",
              DescriberOf(DescribeActorCriticActor, &A2cConfig::actor_critic),
              "the actor of an actor-critic");

}  // namespace
}  // namespace ding
