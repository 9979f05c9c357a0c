// Registers policy type "iql".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/continuous/continuous.pb.h"
#include "ding_worker/policy/continuous/continuous_config.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/iql/iql.h"
#include "ding_worker/policy/iql/iql.pb.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy, const IqlConfig& config,
                                               const PolicyContext& context) {
  std::vector<std::string> problems;
  Require(config.expectile() > 0 && config.expectile() < 1, "expectile", config.expectile(),
          "in (0, 1)", &problems);
  RequireAtLeastZero(config.beta(), "beta", &problems);
  DING_ASSIGN_OR_RETURN(ContinuousParts parts,
                        MakeOfflineParts(policy, config, context, std::move(problems)));
  IqlNetworks networks = {std::move(parts.actor), std::move(parts.critics), nullptr};
  if (context.modes.learn) {
    const ContinuousConfig& continuous = config.continuous();
    DING_ASSIGN_OR_RETURN(
        networks.value,
        create_network(continuous.has_critic() ? continuous.critic() : continuous.model(),
                       context.observation, StateValueOutputs(),
                       Rng::DeriveSeed(context.seed, "policy/value")));
  }
  return CreateIql(std::move(networks), context.action,
                   {std::move(parts.options), config.expectile(), config.beta()});
}

DING_REGISTER(PolicyRegistry(), "iql", CreatorOf(Create),
              "implicit Q-learning on recorded episodes; continuous actions",
              &IqlConfig::descriptor);
DING_REGISTER(ActorDescriberRegistry(), "iql", DescriberOf(DescribeOfflineActor<IqlConfig>),
              "the tanh of the mean");

}  // namespace
}  // namespace ding
