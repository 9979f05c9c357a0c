#include "ding_worker/policy/actor_critic/actor_critic_config.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/problems.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sequence_samples.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_config.h"

namespace ding {
namespace {

void AppendPolicyProblems(absl::string_view name, const PolicyConfig& policy,
                          std::vector<std::string>* problems) {
  AppendProblems(policy, problems, TakesSchedules::kYes);
  if (policy.nstep() > 1) {
    problems->push_back(absl::StrCat("nstep is ", policy.nstep(), ", but ", name,
                                     " looks ahead by gae_lambda: must be 1"));
  }
  if (policy.priority()) {
    problems->push_back(absl::StrCat("priority is set, but ", name, " has no replay buffer"));
  }
}

// Returns null and appends a problem if the network cannot be created.
std::unique_ptr<Network> CreateNetwork(absl::string_view field, const NetworkConfig& config,
                                       const SpecPtr& inputs, std::vector<FieldSpec> outputs,
                                       uint64_t seed, std::vector<std::string>* problems) {
  absl::StatusOr<std::unique_ptr<Network>> network =
      create_network(config, inputs, *MakeSpec(std::move(outputs)), seed);
  if (network.ok()) return *std::move(network);
  problems->push_back(absl::StrCat(field, ": ", network.status().message()));
  return nullptr;
}

LastSample LastSampleFromConfig(PolicyConfig::LastSample last) {
  switch (last) {
    case PolicyConfig::LAST:
      return LastSample::kLast;
    case PolicyConfig::DROP:
      return LastSample::kDrop;
    case PolicyConfig::NULL_PADDING:
      break;
  }
  return LastSample::kNullPadding;
}

std::string NoEffectWithout(absl::string_view field, absl::string_view value,
                            absl::string_view needs) {
  return absl::StrCat(field, " is ", value, ", which has no effect without ", needs, ": remove it");
}

}  // namespace

void RequireAtLeastZero(double value, absl::string_view field, std::vector<std::string>* problems) {
  if (value >= 0 && std::isfinite(value)) return;
  problems->push_back(absl::StrCat(field, " is ", value, ", must be finite and at least 0"));
}

void RequireAboveZero(double value, absl::string_view field, std::vector<std::string>* problems) {
  if (value > 0 && std::isfinite(value)) return;
  problems->push_back(absl::StrCat(field, " is ", value, ", must be finite and above 0"));
}

void RequireDefaultUnless(bool is_read, double value, double default_value, absl::string_view field,
                          absl::string_view needs, std::vector<std::string>* problems) {
  if (is_read || value == default_value) return;
  problems->push_back(NoEffectWithout(field, absl::StrCat(value), needs));
}

void RequireDefaultUnless(bool is_read, bool value, bool default_value, absl::string_view field,
                          absl::string_view needs, std::vector<std::string>* problems) {
  if (is_read || value == default_value) return;
  problems->push_back(NoEffectWithout(field, value ? "true" : "false", needs));
}

bool HasCategories(const Spec& action) {
  return action.size() == 1 && action.field(0).is_discrete();
}

void AppendProblems(const ActorCriticConfig& config, std::vector<std::string>* problems) {
  RequireAtLeastZero(config.learning_rate(), "learning_rate", problems);
  RequireAboveZero(config.adam_eps(), "adam_eps", problems);
  RequireAtLeastZero(config.lr_decay_env_steps(), "lr_decay_env_steps", problems);
  RequireAtLeastZero(config.grad_clip_norm(), "grad_clip_norm", problems);
  if (!(config.gae_lambda() >= 0 && config.gae_lambda() <= 1)) {
    problems->push_back(absl::StrCat("gae_lambda is ", config.gae_lambda(), ", must be in [0, 1]"));
  }
  RequireAtLeastZero(config.value_weight(), "value_weight", problems);
  RequireAtLeastZero(config.entropy_weight(), "entropy_weight", problems);
  RequireAtLeastZero(config.entropy_decay_env_steps(), "entropy_decay_env_steps", problems);
  RequireAtLeastZero(config.final_entropy_weight(), "final_entropy_weight", problems);
  if (!(std::abs(config.initial_log_std()) <= 20)) {
    problems->push_back(
        absl::StrCat("initial_log_std is ", config.initial_log_std(), ", must be in [-20, 20]"));
  }
  RequireAboveZero(config.obs_clip(), "obs_clip", problems);
  const ActorCriticConfig defaults;
  RequireDefaultUnless(config.normalize_obs(), config.obs_clip(), defaults.obs_clip(), "obs_clip",
                       "normalize_obs", problems);
  RequireDefaultUnless(config.normalize_obs(), config.freeze_obs_statistics(),
                       defaults.freeze_obs_statistics(), "freeze_obs_statistics", "normalize_obs",
                       problems);
  RequireDefaultUnless(config.entropy_decay_env_steps() != 0, config.final_entropy_weight(),
                       defaults.final_entropy_weight(), "final_entropy_weight",
                       "entropy_decay_env_steps", problems);
}

std::vector<ChangingField> ChangingFields(const ActorCriticConfig& config) {
  ChangingField rate = {"learning_rate", kSettingLr, config.learning_rate()};
  if (config.lr_decay_env_steps() > 0) rate.rival = "lr_decay_env_steps";
  ChangingField weight = {"entropy_weight", kSettingEntropyWeight, config.entropy_weight()};
  if (config.entropy_decay_env_steps() > 0) weight.rival = "entropy_decay_env_steps";
  return {rate, weight};
}

std::unique_ptr<Network> CreateActor(const NetworkConfig& config, const PolicyContext& context,
                                     const std::vector<FieldSpec>& more_outputs,
                                     std::vector<std::string>* problems) {
  const auto distribution = ActionDistribution::Create(*context.action);
  if (!distribution.ok()) problems->emplace_back(distribution.status().message());
  const auto mask = FindActionMask(*context.observation, *context.action);
  if (!mask.ok()) problems->emplace_back(mask.status().message());
  std::vector<FieldSpec> outputs = {distribution.ok() ? (*distribution)->head()
                                                      : Box("logit", {1})};
  outputs.insert(outputs.end(), more_outputs.begin(), more_outputs.end());
  return CreateNetwork("model", config, WithoutActionMask(context.observation), std::move(outputs),
                       context.seed, problems);
}

ActorCriticNetworks CreateActorCriticNetworks(const ActorCriticConfig& config,
                                              const PolicyContext& context,
                                              std::vector<std::string>* problems) {
  RequireDefaultUnless(!HasCategories(*context.action), config.initial_log_std(),
                       ActorCriticConfig().initial_log_std(), "initial_log_std",
                       "continuous actions", problems);
  ActorCriticNetworks networks;
  if (!config.has_critic()) {
    networks.actor = CreateActor(config.model(), context, {ActorCritic::ValueField()}, problems);
    return networks;
  }
  networks.actor = CreateActor(config.model(), context, {}, problems);
  // Another seed, so that actor and critic do not begin with equal weights.
  networks.critic = CreateNetwork("critic", config.critic(), WithoutActionMask(context.observation),
                                  {ActorCritic::ValueField()},
                                  Rng::DeriveSeed(context.seed, "policy/critic"), problems);
  return networks;
}

ActorCriticPolicyOptions ActorCriticOptionsFromConfig(absl::string_view name,
                                                      const PolicyConfig& policy,
                                                      const ActorCriticConfig& config,
                                                      const PolicyContext& context) {
  ActorCriticPolicyOptions options;
  options.name = std::string(name);
  options.seed = context.seed;
  options.gamma = policy.discount_factor();
  options.gae_lambda = config.gae_lambda();
  options.adam.lr = config.learning_rate();
  options.adam.eps = config.adam_eps();
  options.lr_decay_env_steps = config.lr_decay_env_steps();
  options.entropy_decay_env_steps = config.entropy_decay_env_steps();
  options.final_entropy_weight = config.final_entropy_weight();
  options.grad_clip_norm = config.grad_clip_norm();
  options.networks.initial_log_std = config.initial_log_std();
  options.networks.squash_actions = config.squash_actions();
  options.networks.normalize_obs = config.normalize_obs();
  options.networks.obs_clip = config.obs_clip();
  options.freeze_statistics = config.freeze_obs_statistics();
  options.scale_reward = config.scale_reward();
  options.update.loss_options.value_coef = config.value_weight();
  options.update.loss_options.entropy_coef = config.entropy_weight();
  options.collect = CollectAttributesFromConfig(policy);
  options.learn = LearnAttributesFromConfig(policy);
  options.last_sample = LastSampleFromConfig(policy.last_sample());
  options.modes = context.modes;
  options.reducer = context.reducer;
  return options;
}

absl::StatusOr<ActorDescription> DescribeActorCriticActor(const ActorCriticConfig& config,
                                                          const Spec& action) {
  ActorDescription description;
  DING_RETURN_IF_ERROR(DescribeNetwork(config.model(), &description));
  const bool shared = !config.has_critic();
  description.parameters = ActorCritic::ParametersOf(shared);
  if (shared) description.unused_outputs = {ActorCritic::ValueField().name};
  description.head = DistributionHeadOf(action, config.squash_actions());
  if (config.normalize_obs()) description.obs_clip = config.obs_clip();
  return description;
}

absl::StatusOr<std::unique_ptr<Policy>> CreateActorCriticPolicy(
    const PolicyConfig& policy, const ActorCriticConfig& config, const PolicyContext& context,
    ActorCriticPolicyOptions options, std::vector<std::string> problems,
    const std::vector<ChangingField>& more_fields) {
  AppendPolicyProblems(options.name, policy, &problems);
  AppendProblems(config, &problems);
  std::vector<ChangingField> fields = ChangingFields(config);
  for (ChangingField& field : fields) {
    const bool adapted = options.update.target_entropy.has_value();
    if (adapted && field.setting == kSettingEntropyWeight) field.rival = "target_entropy";
  }
  fields.insert(fields.end(), more_fields.begin(), more_fields.end());
  options.schedules = CreateFieldSchedules(policy, fields, &problems);
  ActorCriticNetworks networks = CreateActorCriticNetworks(config, context, &problems);
  const std::string where = absl::StrCat("policy type '", options.name, "'");
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, where));
  absl::StatusOr<std::unique_ptr<Policy>> made =
      ActorCriticPolicy::Create(std::move(networks.actor), std::move(networks.critic),
                                context.observation, context.action, options);
  if (!made.ok()) return Annotate(made.status(), where);
  return made;
}

}  // namespace ding
