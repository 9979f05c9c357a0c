// Registers policy type "sac".
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/problems.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/actor_critic/actor_critic_config.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_config.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_modes.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/sac/sac.h"
#include "ding_worker/policy/sac/sac.pb.h"
#include "ding_worker/policy/schedule.h"

namespace ding {
namespace {

constexpr char kName[] = "sac";
constexpr char kWhere[] = "policy type 'sac'";

void AppendProblems(const SacConfig& config, std::vector<std::string>* problems) {
  RequireAboveZero(config.alpha(), "alpha", problems);
  RequireAtLeastZero(config.alpha_learning_rate(), "alpha_learning_rate", problems);
  if (config.actor_update_freq() < 1) {
    problems->push_back(
        absl::StrCat("actor_update_freq is ", config.actor_update_freq(), ", must be at least 1"));
  }
  if (config.target_subset() < 0 || config.target_subset() > config.num_critics()) {
    problems->push_back(absl::StrCat("target_subset is ", config.target_subset(),
                                     ", must be in 0..num_critics, which is ",
                                     config.num_critics()));
  }
}

// The fields that may change; those of the temperature if it is learned.
std::vector<ChangingField> FieldsOf(const SacConfig& config, const PolicyContext& context) {
  std::vector<ChangingField> fields = ChangingFields(config.continuous());
  if (!config.learn_alpha()) return fields;
  fields.push_back({kAlphaRate, kAlphaRate, config.alpha_learning_rate()});
  // Another action space is a problem of its own.
  const double width = context.action->size() == 0
                           ? 0
                           : static_cast<double>(context.action->field(0).num_elements());
  ChangingField target = {kTargetEntropy, kTargetEntropy,
                          config.has_target_entropy() ? config.target_entropy() : -width};
  target.least = -std::numeric_limits<double>::infinity();
  fields.push_back(target);
  return fields;
}

SacOptions MakeOptions(const PolicyConfig& policy, const SacConfig& config,
                       const PolicyContext& context) {
  SacOptions options;
  options.base = ContinuousOptionsFromConfig(policy, config.continuous(), context);
  options.base.actor_update_freq = config.actor_update_freq();
  options.alpha = config.alpha();
  options.learn_alpha = config.learn_alpha();
  options.alpha_adam.lr = config.alpha_learning_rate();
  if (config.has_target_entropy()) options.target_entropy = config.target_entropy();
  options.target_subset = config.target_subset();
  options.actor_reduction =
      config.actor_value() == SacConfig::MEAN ? CriticReduction::kMean : CriticReduction::kMin;
  return options;
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy,
                                               const PolicyContext& context) {
  SacConfig config;
  DING_RETURN_IF_ERROR(UnpackParams(policy, &config));
  std::vector<std::string> problems;
  AppendProblems(kName, policy, config.continuous(), &problems, TakesSchedules::kYes);
  AppendProblems(config, &problems);
  FieldSchedules schedules = CreateFieldSchedules(policy, FieldsOf(config, context), &problems);
  ContinuousNetworks networks = CreateContinuousNetworks(
      kName, config.continuous(), ActorHead::kNormal,
      {config.num_critics(), config.critic_dropout(), config.critic_layer_norm()}, context,
      &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, kWhere));
  SacOptions options = MakeOptions(policy, config, context);
  options.base.schedules = std::move(schedules);
  absl::StatusOr<std::unique_ptr<Policy>> made =
      CreateSac(std::move(networks.actor), std::move(networks.critics), context.action, options);
  if (!made.ok()) return Annotate(made.status(), kWhere);
  return made;
}

DING_REGISTER(PolicyRegistry(), kName, Create,
              "soft actor-critic: learned temperature, ensembles of critics; continuous actions",
              &SacConfig::descriptor);

absl::StatusOr<ActorDescription> Describe(const PolicyConfig& policy, const Spec& /*action*/) {
  SacConfig config;
  DING_RETURN_IF_ERROR(UnpackParams(policy, &config));
  return DescribeContinuousActor(config.continuous(), ActorHead::kNormal);
}

DING_REGISTER(ActorDescriberRegistry(), kName, Describe,
              "a normal distribution that tanh squashes");

}  // namespace
}  // namespace ding
