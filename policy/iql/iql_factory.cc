// Registers policy type "iql".
#include <memory>
#include <utility>

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
  DING_ASSIGN_OR_RETURN(ContinuousParts parts, MakeOfflineParts(policy, config, context));
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

DING_REGISTER(PolicyRegistry(), "iql", Create,
              "implicit Q-learning on recorded episodes; continuous actions");
DING_REGISTER(ActorDescriberRegistry(), "iql", DescriberOf(DescribeOfflineActor<IqlConfig>),
              "the tanh of the mean");

// What a config of this policy has unless it says otherwise.
DING_REGISTER(PolicyDefaultsRegistry(), "iql", R"(
  policy.learn.batch_size=256  # Kostrikov et al. 2021, appendix B
  policy.params.continuous.model.encoder_hidden_size=[256, 256]  # Kostrikov et al. 2021, appendix B
  policy.params.continuous.model.head_layer_num=0  # Kostrikov et al. 2021, appendix B
)",
              "those of the paper");

}  // namespace
}  // namespace ding
