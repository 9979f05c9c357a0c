// Registers policy type "ppo".
#include <cmath>
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
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/actor_critic/actor_critic_config.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo.h"
#include "ding_worker/policy/ppo/ppo.pb.h"

namespace ding {
namespace {

constexpr char kName[] = "ppo";

void AppendTargetProblems(const PpoConfig& config, std::vector<std::string>* problems) {
  if (!std::isfinite(config.target_entropy())) {
    problems->push_back(
        absl::StrCat("target_entropy is ", config.target_entropy(), ", must be finite"));
  }
  const double weight = config.actor_critic().entropy_weight();
  if (!(weight >= kLeastEntropyWeight && weight <= kMostEntropyWeight)) {
    problems->push_back(absl::StrCat("entropy_weight is ", weight,
                                     ", from which it is adapted to target_entropy: must be in [",
                                     kLeastEntropyWeight, ", ", kMostEntropyWeight, "]"));
  }
  if (config.actor_critic().entropy_decay_env_steps() > 0) {
    problems->push_back(
        absl::StrCat("entropy_decay_env_steps is ", config.actor_critic().entropy_decay_env_steps(),
                     ", but target_entropy adapts the entropy weight: set one of them"));
  }
}

// The fields that may change, beside those of every actor-critic.
std::vector<ChangingField> FieldsOf(const PpoConfig& config) {
  ChangingField clip = {"clip_ratio", kSettingClipRatio, config.clip_ratio()};
  clip.above = true;
  if (!config.has_target_entropy()) return {clip};
  ChangingField target = {"target_entropy", kSettingTargetEntropy, config.target_entropy()};
  target.least = -std::numeric_limits<double>::infinity();
  return {clip, target};
}

std::vector<std::string> FindProblems(const PpoConfig& config) {
  std::vector<std::string> problems;
  if (config.epoch_per_collect() < 1) {
    problems.push_back(
        absl::StrCat("epoch_per_collect is ", config.epoch_per_collect(), ", must be at least 1"));
  }
  RequireAboveZero(config.clip_ratio(), "clip_ratio", &problems);
  RequireAtLeastZero(config.value_clip(), "value_clip", &problems);
  RequireAtLeastZero(config.max_kl(), "max_kl", &problems);
  RequireAboveZero(config.entropy_weight_rate(), "entropy_weight_rate", &problems);
  if (config.has_target_entropy()) {
    AppendTargetProblems(config, &problems);
  } else if (config.entropy_weight_rate() != PpoConfig().entropy_weight_rate()) {
    problems.push_back(absl::StrCat("entropy_weight_rate is ", config.entropy_weight_rate(),
                                    ", which has no effect without target_entropy: remove it"));
  }
  return problems;
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& config,
                                               const PolicyContext& context) {
  PpoConfig ppo;
  DING_RETURN_IF_ERROR(UnpackParams(config, &ppo));
  PpoOptions options;
  options.policy = ActorCriticOptionsFromConfig(kName, config, ppo.actor_critic(), context);
  options.epochs = ppo.epoch_per_collect();
  options.minibatch_size = config.batch_size();
  options.ratio_clip = ppo.clip_ratio();
  options.value_clip = ppo.value_clip();
  options.normalize_adv = ppo.adv_norm();
  options.max_kl = ppo.max_kl();
  if (ppo.has_target_entropy()) options.target_entropy = ppo.target_entropy();
  options.entropy_weight_rate = ppo.entropy_weight_rate();
  return CreateActorCriticPolicy(config, ppo.actor_critic(), context, MakePpoPolicyOptions(options),
                                 FindProblems(ppo), FieldsOf(ppo));
}

DING_REGISTER(
    PolicyRegistry(), kName, Create,
    "PPO: on-policy, clipped ratios, epochs of minibatches; discrete and continuous actions",
    &PpoConfig::descriptor);

absl::StatusOr<ActorDescription> Describe(const PolicyConfig& config, const Spec& action) {
  PpoConfig ppo;
  DING_RETURN_IF_ERROR(UnpackParams(config, &ppo));
  return DescribeActorCriticActor(ppo.actor_critic(), action);
}

DING_REGISTER(ActorDescriberRegistry(), kName, Describe, "the actor of an actor-critic");

}  // namespace
}  // namespace ding
