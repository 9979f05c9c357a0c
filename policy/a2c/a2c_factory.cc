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
#include "ding_worker/policy/loss/loss_columns.h"
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
  DING_RETURN_IF_ERROR(CheckLossColumns(context.loss.get(), ActorCriticLossColumns()));
  parts.options.update.own_loss = context.loss;
  return CreateA2c(std::move(parts.actor), std::move(parts.critic), context.observation,
                   context.action, {std::move(parts.options), config.adv_norm()});
}

DING_REGISTER(PolicyRegistry(), "a2c", Create,
              "A2C: on-policy, one step per collect; discrete and continuous actions");
DING_REGISTER(ActorDescriberRegistry(), "a2c",
              DescriberOf(DescribeActorCriticActor, &A2cConfig::actor_critic),
              "the actor of an actor-critic");

// What a config of this policy has unless it says otherwise.
DING_REGISTER(PolicyDefaultsRegistry(), "a2c", R"(
  policy.collect.n_sample=64  # SB3 zoo, a2c.yml, Pendulum: 8 envs, 8 steps
  policy.eval.evaluator.eval_freq=80  # 5,120 env steps
  policy.params.actor_critic.learning_rate=0.0007  # SB3, A2C
  policy.params.adv_norm=true  # our cartpole_a2c config
  policy.params.actor_critic.model.encoder_hidden_size=[64, 64]  # SB3, MlpPolicy
  policy.params.actor_critic.model.activation=TANH  # SB3, MlpPolicy
  policy.params.actor_critic.model.head_layer_num=0  # SB3, MlpPolicy
  policy.params.actor_critic.critic.encoder_hidden_size=[64, 64]  # SB3, MlpPolicy
  policy.params.actor_critic.critic.activation=TANH  # SB3, MlpPolicy
  policy.params.actor_critic.critic.head_layer_num=0  # SB3, MlpPolicy
  [discrete]
  policy.params.actor_critic.entropy_weight=0.01  # SB3 zoo, a2c.yml, atari
  [continuous]
  policy.params.actor_critic.gae_lambda=0.9  # SB3 zoo, a2c.yml, Pendulum
  policy.params.actor_critic.value_weight=0.4  # SB3 zoo, a2c.yml, Pendulum
  policy.params.actor_critic.normalize_obs=true  # SB3 zoo, a2c.yml, Pendulum: normalize
  policy.params.actor_critic.scale_reward=true  # SB3 zoo, a2c.yml, Pendulum: normalize
)",
              "those of SB3 and its zoo");

}  // namespace
}  // namespace ding
