#include "ding_worker/policy/actor_critic/actor_critic_config.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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

// Appends a problem for each number that nothing reads.
void AppendProblems(const ActorCriticConfig& config, std::vector<std::string>* problems) {
  RequireObsClip(config, problems);
  const ActorCriticConfig defaults;
  RequireDefaultUnless(config.normalize_obs(), config.freeze_obs_statistics(),
                       defaults.freeze_obs_statistics(), "freeze_obs_statistics", "normalize_obs",
                       problems);
  RequireDefaultUnless(config.entropy_decay_env_steps() != 0, config.final_entropy_weight(),
                       defaults.final_entropy_weight(), "final_entropy_weight",
                       "entropy_decay_env_steps", problems);
}

ActorCriticPolicyOptions MakeOptions(const PolicyConfig& policy, const ActorCriticConfig& config,
                                     const PolicyContext& context) {
  ActorCriticPolicyOptions options;
  options.name = policy.type();
  ReadPolicyOptions(policy, context, &options);
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
  options.last_sample = LastSampleFromConfig(policy.last_sample());
  return options;
}

}  // namespace

bool HasCategories(const Spec& action) {
  return action.size() == 1 && action.field(0).is_discrete();
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

absl::StatusOr<ActorCriticParts> MakeActorCriticParts(const PolicyConfig& policy,
                                                      const ActorCriticConfig& config,
                                                      const PolicyContext& context,
                                                      const std::vector<ChangingField>& fields,
                                                      std::vector<std::string> problems) {
  AppendProblems(config, &problems);
  RequireDefaultUnless(!HasCategories(*context.action), config.initial_log_std(),
                       ActorCriticConfig().initial_log_std(), "initial_log_std",
                       "continuous actions", &problems);
  ActorCriticParts parts;
  parts.options = MakeOptions(policy, config, context);
  parts.options.schedules = CreateFieldSchedules(policy, fields, &problems);
  std::vector<FieldSpec> more_outputs;
  if (!config.has_critic()) more_outputs.push_back(ActorCritic::ValueField());
  parts.actor = CreateActor(config.model(), context, more_outputs, &problems);
  if (config.has_critic()) {
    // Another seed, so that actor and critic do not begin with equal weights.
    parts.critic = CreateNetwork("critic", config.critic(), WithoutActionMask(context.observation),
                                 {ActorCritic::ValueField()},
                                 Rng::DeriveSeed(context.seed, "policy/critic"), &problems);
  }
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems));
  return parts;
}

void AppendOnPolicyProblems(const PolicyConfig& policy, std::vector<std::string>* problems) {
  if (policy.nstep() > 1) {
    problems->push_back(absl::StrCat("nstep is ", policy.nstep(), ", but ", policy.type(),
                                     " looks ahead by gae_lambda: must be 1"));
  }
  if (policy.priority()) {
    problems->push_back(
        absl::StrCat("priority is set, but ", policy.type(), " has no replay buffer"));
  }
}

absl::StatusOr<ActorDescription> DescribeActorCriticActor(const PolicyConfig& /*policy*/,
                                                          const ActorCriticConfig& config,
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

}  // namespace ding
