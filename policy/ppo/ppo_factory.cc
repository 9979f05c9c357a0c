#include "ding_worker/policy/ppo/ppo_factory.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/actor_critic/actor_critic.pb.h"
#include "ding_worker/policy/actor_critic/actor_critic_config.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/loss/loss_columns.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo.h"
#include "ding_worker/policy/ppo/ppo.pb.h"

namespace ding {
namespace {

void AppendTargetProblems(const PpoConfig& config, std::vector<std::string>* problems) {
  const ActorCriticConfig& base = config.actor_critic();
  if (!(base.entropy_weight() >= kLeastEntropyWeight &&
        base.entropy_weight() <= kMostEntropyWeight)) {
    problems->push_back(absl::StrCat("entropy_weight is ", base.entropy_weight(),
                                     ", from which it is adapted to target_entropy: must be in [",
                                     kLeastEntropyWeight, ", ", kMostEntropyWeight, "]"));
  }
  if (base.entropy_decay_env_steps() > 0) {
    problems->push_back(
        absl::StrCat("entropy_decay_env_steps is ", base.entropy_decay_env_steps(),
                     ", but target_entropy adapts the entropy weight: set one of them"));
  }
}

std::vector<ChangingField> FieldsOf(const PpoConfig& config) {
  std::vector<ChangingField> fields = ChangingFields(config.actor_critic());
  ChangingField clip = {"clip_ratio", kSettingClipRatio, config.clip_ratio()};
  clip.above = true;
  fields.push_back(clip);
  if (!config.has_target_entropy()) return fields;
  for (ChangingField& field : fields) {
    if (field.setting == kSettingEntropyWeight) field.rival = "target_entropy";
  }
  ChangingField target = {"target_entropy", kSettingTargetEntropy, config.target_entropy()};
  target.least = -std::numeric_limits<double>::infinity();
  fields.push_back(target);
  return fields;
}

std::vector<std::string> FindProblems(const PolicyConfig& policy, const PpoConfig& config) {
  std::vector<std::string> problems;
  AppendOnPolicyProblems(policy, &problems);
  RequireDefaultUnless(config.has_target_entropy(), config.entropy_weight_rate(),
                       PpoConfig().entropy_weight_rate(), "entropy_weight_rate", "target_entropy",
                       &problems);
  if (config.has_target_entropy()) AppendTargetProblems(config, &problems);
  return problems;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Policy>> CreatePpoPolicy(const PolicyConfig& policy,
                                                        const PpoConfig& config,
                                                        const PolicyContext& context,
                                                        ActorCriticUpdate::Loss loss) {
  DING_ASSIGN_OR_RETURN(ActorCriticParts parts,
                        MakeActorCriticParts(policy, config.actor_critic(), context,
                                             FieldsOf(config), FindProblems(policy, config)));
  DING_RETURN_IF_ERROR(CheckLossColumns(context.loss.get(), ActorCriticLossColumns()));
  PpoOptions options;
  options.policy = std::move(parts.options);
  options.loss = std::move(loss);
  options.policy.update.own_loss = context.loss;
  options.epochs = config.epoch_per_collect();
  options.minibatch_size = policy.batch_size();
  options.ratio_clip = config.clip_ratio();
  options.value_clip = config.value_clip();
  options.normalize_adv = config.adv_norm();
  options.max_kl = config.max_kl();
  if (config.has_target_entropy()) options.target_entropy = config.target_entropy();
  options.entropy_weight_rate = config.entropy_weight_rate();
  return CreatePpo(std::move(parts.actor), std::move(parts.critic), context.observation,
                   context.action, options);
}

absl::StatusOr<ActorDescription> DescribePpoActor(const PolicyConfig& policy,
                                                  const PpoConfig& config, const Spec& action) {
  return DescribeActorCriticActor(policy, config.actor_critic(), action);
}

namespace {

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy, const PpoConfig& config,
                                               const PolicyContext& context) {
  return CreatePpoPolicy(policy, config, context);
}

DING_REGISTER(
    PolicyRegistry(), "ppo", Create,
    "PPO: on-policy, clipped ratios, epochs of minibatches; discrete and continuous actions");
DING_REGISTER(ActorDescriberRegistry(), "ppo", DescriberOf(DescribePpoActor),
              "the actor of an actor-critic");

// What a config of this policy has unless it says otherwise.
DING_REGISTER(PolicyDefaultsRegistry(), "ppo", R"(
  policy.learn.batch_size=64  # Schulman et al. 2017, table 3
  policy.params.epoch_per_collect=10  # Schulman et al. 2017, table 3
  policy.params.actor_critic.model.encoder_hidden_size=[64, 64]  # Schulman et al. 2017, 6.1
  policy.params.actor_critic.model.activation=TANH  # Schulman et al. 2017, 6.1
  policy.params.actor_critic.model.head_layer_num=0  # Schulman et al. 2017, 6.1
  policy.params.actor_critic.critic.encoder_hidden_size=[64, 64]  # Schulman et al. 2017, 6.1
  policy.params.actor_critic.critic.activation=TANH  # Schulman et al. 2017, 6.1
  policy.params.actor_critic.critic.head_layer_num=0  # Schulman et al. 2017, 6.1
  [discrete]
  policy.collect.n_sample=1024  # Schulman et al. 2017, table 5: 8 actors, 128 steps
  policy.eval.evaluator.eval_freq=800  # 5,120 env steps
  policy.params.actor_critic.entropy_weight=0.01  # Schulman et al. 2017, table 5
  [continuous]
  policy.collect.n_sample=2048  # Schulman et al. 2017, table 3
  policy.eval.evaluator.eval_freq=1600  # 10,240 env steps
  policy.params.actor_critic.normalize_obs=true  # SB3 zoo, ppo.yml, MuJoCo: normalize
  policy.params.actor_critic.scale_reward=true  # SB3 zoo, ppo.yml, MuJoCo: normalize
)",
              "those of the paper, and the normalization of SB3 zoo for continuous actions");

}  // namespace
}  // namespace ding
