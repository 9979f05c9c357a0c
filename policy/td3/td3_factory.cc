#include "ding_worker/policy/td3/td3_factory.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/continuous/continuous.pb.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_config.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/loss/loss_columns.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/td3/td3.h"
#include "ding_worker/policy/td3/td3.pb.h"

namespace ding {
namespace {

// Creates the policy of `options`; the parts of the shared config are made here.
absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy,
                                               const ContinuousConfig& config,
                                               const PolicyContext& context, Td3Options options,
                                               int num_critics) {
  const ChangingField noise = {kExplorationNoise, kExplorationNoise, options.exploration_noise,
                               /*collects=*/true};
  DING_ASSIGN_OR_RETURN(ContinuousParts parts,
                        MakeContinuousParts(policy, config, context, ActorHead::kMean,
                                            /*problems=*/{}, {noise}, {num_critics}));
  const int64_t width = context.action->field(0).num_elements();
  DING_RETURN_IF_ERROR(CheckLossColumns(context.loss.get(), CriticLossColumns(width, num_critics)));
  DING_RETURN_IF_ERROR(
      CheckLossColumns(context.actor_loss.get(),
                       ActorLossColumns(width, /*num_critics=*/1, /*has_log_prob=*/false)));
  options.algorithm = policy.type();
  parts.options.actor_update_freq = options.base.actor_update_freq;
  parts.options.target_delay = options.base.actor_update_freq;
  parts.options.critic_loss = std::move(options.base.critic_loss);
  options.base = std::move(parts.options);
  options.base.own_loss = context.loss;
  options.base.own_actor_loss = context.actor_loss;
  return CreateTd3(std::move(parts.actor), std::move(parts.critics), context.action, options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Policy>> CreateTd3Policy(const PolicyConfig& policy,
                                                        const Td3Config& config,
                                                        const PolicyContext& context,
                                                        CriticLoss critic_loss) {
  Td3Options options;
  options.base.critic_loss = std::move(critic_loss);
  options.exploration_noise = config.exploration_noise();
  options.target_noise = config.target_noise();
  options.target_noise_clip = config.target_noise_clip();
  options.base.actor_update_freq = config.actor_update_freq();
  return Create(policy, config.continuous(), context, options, /*num_critics=*/2);
}

absl::StatusOr<ActorDescription> DescribeTd3Actor(const PolicyConfig& /*policy*/,
                                                  const Td3Config& config, const Spec& /*action*/) {
  return DescribeContinuousActor(config.continuous(), ActorHead::kMean);
}

namespace {

absl::StatusOr<std::unique_ptr<Policy>> CreateTd3(const PolicyConfig& policy,
                                                  const Td3Config& config,
                                                  const PolicyContext& context) {
  return CreateTd3Policy(policy, config, context);
}

absl::StatusOr<std::unique_ptr<Policy>> CreateDdpgPolicy(const PolicyConfig& policy,
                                                         const DdpgConfig& config,
                                                         const PolicyContext& context) {
  Td3Options options;
  options.exploration_noise = config.exploration_noise();
  options.target_noise = 0;
  return Create(policy, config.continuous(), context, options, /*num_critics=*/1);
}

DING_REGISTER(PolicyRegistry(), "td3", CreateTd3,
              "TD3: twin critics, delayed deterministic actor; continuous actions");
DING_REGISTER(PolicyRegistry(), "ddpg", CreateDdpgPolicy,
              "DDPG: one critic, deterministic actor; continuous actions");

DING_REGISTER(ActorDescriberRegistry(), "td3", DescriberOf(DescribeTd3Actor),
              "the tanh of the mean");
DING_REGISTER(ActorDescriberRegistry(), "ddpg",
              DescriberOf(DescribeActorWith<ActorHead::kMean>, &DdpgConfig::continuous),
              "the tanh of the mean");

// What a config of these policies has unless it says otherwise.
constexpr char kDefaults[] = R"(
  policy.collect.n_sample=8  # Fujimoto et al. 2018, their code
  policy.learn.update_per_collect=8  # Fujimoto et al. 2018, their code
  policy.eval.evaluator.eval_freq=5000  # 5,000 env steps
  policy.random_collect_size=1000  # SB3 zoo, td3.yml, Pendulum: learning_starts
  policy.learn.batch_size=256  # Fujimoto et al. 2018, their code
  policy.other.replay_buffer.replay_buffer_size=300000  # SB3 zoo, sac.yml, BipedalWalker
  policy.params.continuous.model.encoder_hidden_size=[256, 256]  # Fujimoto et al. 2018, their code
  policy.params.continuous.model.head_layer_num=0  # Fujimoto et al. 2018, their code
)";
DING_REGISTER(PolicyDefaultsRegistry(), "td3", kDefaults, "those of the authors");
DING_REGISTER(PolicyDefaultsRegistry(), "ddpg", kDefaults, "those of TD3");

}  // namespace
}  // namespace ding
