#include "ding_worker/policy/sac/sac_factory.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_config.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/loss/loss_columns.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_modes.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/sac/sac.h"
#include "ding_worker/policy/sac/sac.pb.h"

namespace ding {
namespace {

std::vector<std::string> FindProblems(const SacConfig& config) {
  std::vector<std::string> problems;
  if (config.target_subset() > config.num_critics()) {
    problems.push_back(absl::StrCat("target_subset is ", config.target_subset(),
                                    ", expected at most num_critics, which is ",
                                    config.num_critics()));
  }
  return problems;
}

// The fields of the temperature, which may change if it is learned.
std::vector<ChangingField> FieldsOf(const SacConfig& config, const PolicyContext& context) {
  if (!config.learn_alpha()) return {};
  // Another action space is a problem of its own.
  const double width = context.action->size() == 0
                           ? 0
                           : static_cast<double>(context.action->field(0).num_elements());
  ChangingField target = {kTargetEntropy, kTargetEntropy,
                          config.has_target_entropy() ? config.target_entropy() : -width};
  target.least = -std::numeric_limits<double>::infinity();
  return {{kAlphaRate, kAlphaRate, config.alpha_learning_rate()}, target};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Policy>> CreateSacPolicy(const PolicyConfig& policy,
                                                        const SacConfig& config,
                                                        const PolicyContext& context,
                                                        EntropyCostFunction entropy_cost) {
  DING_ASSIGN_OR_RETURN(
      ContinuousParts parts,
      MakeContinuousParts(
          policy, config.continuous(), context, ActorHead::kNormal, FindProblems(config),
          FieldsOf(config, context),
          {config.num_critics(), config.critic_dropout(), config.critic_layer_norm()}));
  const int64_t width = context.action->field(0).num_elements();
  DING_RETURN_IF_ERROR(
      CheckLossColumns(context.loss.get(), CriticLossColumns(width, config.num_critics())));
  DING_RETURN_IF_ERROR(
      CheckLossColumns(context.actor_loss.get(),
                       ActorLossColumns(width, config.num_critics(), /*has_log_prob=*/true)));
  SacOptions options;
  options.algorithm = policy.type();
  options.entropy_cost = std::move(entropy_cost);
  options.base = std::move(parts.options);
  options.base.own_loss = context.loss;
  options.base.own_actor_loss = context.actor_loss;
  options.base.actor_update_freq = config.actor_update_freq();
  options.alpha = config.alpha();
  options.learn_alpha = config.learn_alpha();
  options.alpha_adam.lr = config.alpha_learning_rate();
  if (config.has_target_entropy()) options.target_entropy = config.target_entropy();
  options.target_subset = config.target_subset();
  options.actor_reduction =
      config.actor_value() == SacConfig::MEAN ? CriticReduction::kMean : CriticReduction::kMin;
  return CreateSac(std::move(parts.actor), std::move(parts.critics), context.action, options);
}

absl::StatusOr<ActorDescription> DescribeSacActor(const PolicyConfig& /*policy*/,
                                                  const SacConfig& config, const Spec& /*action*/) {
  return DescribeContinuousActor(config.continuous(), ActorHead::kNormal);
}

namespace {

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy, const SacConfig& config,
                                               const PolicyContext& context) {
  return CreateSacPolicy(policy, config, context);
}

DING_REGISTER(PolicyRegistry(), "sac", Create,
              "soft actor-critic: learned temperature, ensembles of critics; continuous actions");

DING_REGISTER(ActorDescriberRegistry(), "sac", DescriberOf(DescribeSacActor),
              "a normal distribution that tanh squashes");

// What a config of this policy has unless it says otherwise.
DING_REGISTER(PolicyDefaultsRegistry(), "sac", R"(
  policy.collect.n_sample=8  # Haarnoja et al. 2018, table 1: an update per env step
  policy.learn.update_per_collect=8  # Haarnoja et al. 2018, table 1: an update per env step
  policy.eval.evaluator.eval_freq=5000  # 5,000 env steps
  policy.random_collect_size=1000  # SB3 zoo, sac.yml, FetchReach: learning_starts
  policy.learn.batch_size=256  # Haarnoja et al. 2018, table 1
  policy.other.replay_buffer.replay_buffer_size=300000  # SB3 zoo, sac.yml, BipedalWalker
  policy.params.continuous.model.encoder_hidden_size=[256, 256]  # Haarnoja et al. 2018, table 1
  policy.params.continuous.model.head_layer_num=0  # Haarnoja et al. 2018, table 1
)",
              "those of the paper");

}  // namespace
}  // namespace ding
