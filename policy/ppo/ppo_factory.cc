// Registers policy type "ppo".
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
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo.h"
#include "ding_worker/policy/ppo/ppo.pb.h"

namespace ding {
namespace {

constexpr char kName[] = "ppo";

std::vector<std::string> FindProblems(const PpoConfig& config) {
  std::vector<std::string> problems;
  if (config.epoch_per_collect() < 1) {
    problems.push_back(
        absl::StrCat("epoch_per_collect is ", config.epoch_per_collect(), ", must be at least 1"));
  }
  RequireAboveZero(config.clip_ratio(), "clip_ratio", &problems);
  RequireAtLeastZero(config.value_clip(), "value_clip", &problems);
  RequireAtLeastZero(config.max_kl(), "max_kl", &problems);
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
  return CreateActorCriticPolicy(config, ppo.actor_critic(), context, MakePpoPolicyOptions(options),
                                 FindProblems(ppo));
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
