// Registers policy type "td3bc": TD3 (policy/td3) on recorded episodes, with the cloning of their
// actions.
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/continuous/continuous_config.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/td3/td3.h"
#include "ding_worker/policy/td3bc/td3bc.pb.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy,
                                               const Td3BcConfig& config,
                                               const PolicyContext& context) {
  DING_ASSIGN_OR_RETURN(ContinuousParts parts, MakeOfflineParts(policy, config, context));
  Td3Options options;
  options.algorithm = policy.type();
  options.base = std::move(parts.options);
  options.base.actor_update_freq = config.actor_update_freq();
  options.base.target_delay = config.actor_update_freq();
  options.exploration_noise = 0;  // nothing is collected
  options.target_noise = config.target_noise();
  options.target_noise_clip = config.target_noise_clip();
  options.cloning_alpha = config.alpha();
  return CreateTd3(std::move(parts.actor), std::move(parts.critics), context.action, options);
}

DING_REGISTER(PolicyRegistry(), "td3bc", Create,
              "TD3+BC: TD3 on recorded episodes, which also clones them; continuous actions");
DING_REGISTER(ActorDescriberRegistry(), "td3bc", DescriberOf(DescribeOfflineActor<Td3BcConfig>),
              "the tanh of the mean");

// What a config of this policy has unless it says otherwise.
DING_REGISTER(PolicyDefaultsRegistry(), "td3bc", R"(
  policy.learn.batch_size=256  # Fujimoto and Gu 2021, table 3
  policy.params.continuous.model.encoder_hidden_size=[256, 256]  # Fujimoto and Gu 2021, table 3
  policy.params.continuous.model.head_layer_num=0  # Fujimoto and Gu 2021, table 3
)",
              "those of the paper");

}  // namespace
}  // namespace ding
