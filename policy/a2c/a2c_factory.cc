// Registers policy type "a2c".
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/a2c/a2c.h"
#include "ding_worker/policy/a2c/a2c.pb.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/actor_critic/actor_critic_config.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {
namespace {

constexpr char kName[] = "a2c";

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& config,
                                               const PolicyContext& context) {
  A2cConfig a2c;
  DING_RETURN_IF_ERROR(UnpackParams(config, &a2c));
  A2cOptions options;
  options.policy = ActorCriticOptionsFromConfig(kName, config, a2c.actor_critic(), context);
  options.normalize_adv = a2c.adv_norm();
  return CreateActorCriticPolicy(config, a2c.actor_critic(), context, MakeA2cPolicyOptions(options),
                                 {});
}

DING_REGISTER(PolicyRegistry(), kName, Create,
              "A2C: on-policy, one step per collect; discrete and continuous actions",
              &A2cConfig::descriptor);

absl::StatusOr<ActorDescription> Describe(const PolicyConfig& config, const Spec& action) {
  A2cConfig a2c;
  DING_RETURN_IF_ERROR(UnpackParams(config, &a2c));
  return DescribeActorCriticActor(a2c.actor_critic(), action);
}

DING_REGISTER(ActorDescriberRegistry(), kName, Describe, "the actor of an actor-critic");

}  // namespace
}  // namespace ding
