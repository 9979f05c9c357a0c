// Registers policy type "td3bc": TD3 (policy/td3) on recorded episodes, with the cloning of their actions.
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
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/schedule.h"
#include "ding_worker/policy/td3/td3.h"
#include "ding_worker/policy/td3bc/td3bc.pb.h"

namespace ding {
namespace {

constexpr char kName[] = "td3bc";
constexpr char kWhere[] = "policy type 'td3bc'";

void AppendProblems(const Td3BcConfig& config, std::vector<std::string>* problems) {
  RequireAboveZero(config.alpha(), "alpha", problems);
  RequireAtLeastZero(config.target_noise(), "target_noise", problems);
  RequireAtLeastZero(config.target_noise_clip(), "target_noise_clip", problems);
  RequireAboveZero(config.obs_clip(), "obs_clip", problems);
  RequireDefaultUnless(config.normalize_obs(), config.obs_clip(), Td3BcConfig().obs_clip(),
                       "obs_clip", "normalize_obs", problems);
  if (config.actor_update_freq() < 1) {
    problems->push_back(
        absl::StrCat("actor_update_freq is ", config.actor_update_freq(), ", must be at least 1"));
  }
}

Td3Options MakeOptions(const PolicyConfig& policy, const Td3BcConfig& config,
                       const PolicyContext& context) {
  Td3Options options;
  options.algorithm = kName;
  options.base = OfflineOptionsFromConfig(policy, config.continuous(), context);
  options.base.actor_update_freq = config.actor_update_freq();
  options.base.target_delay = config.actor_update_freq();
  if (config.normalize_obs()) options.base.obs_clip = config.obs_clip();
  options.exploration_noise = 0;  // nothing is collected
  options.target_noise = config.target_noise();
  options.target_noise_clip = config.target_noise_clip();
  options.cloning_alpha = config.alpha();
  return options;
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy,
                                               const PolicyContext& context) {
  Td3BcConfig config;
  DING_RETURN_IF_ERROR(UnpackParams(policy, &config));
  std::vector<std::string> problems;
  AppendProblems(kName, policy, config.continuous(), &problems, TakesSchedules::kYes);
  AppendProblems(config, &problems);
  FieldSchedules schedules =
      CreateFieldSchedules(policy, ChangingFields(config.continuous()), &problems);
  ContinuousNetworks networks = CreateContinuousNetworks(
      kName, config.continuous(), ActorHead::kMean, CriticConfig(), context, &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, kWhere));
  Td3Options options = MakeOptions(policy, config, context);
  options.base.schedules = std::move(schedules);
  absl::StatusOr<std::unique_ptr<Policy>> made =
      CreateTd3(std::move(networks.actor), std::move(networks.critics), context.action, options);
  if (!made.ok()) return Annotate(made.status(), kWhere);
  return made;
}

DING_REGISTER(PolicyRegistry(), kName, Create,
              "TD3+BC: TD3 on recorded episodes, which also clones them; continuous actions",
              &Td3BcConfig::descriptor);

absl::StatusOr<ActorDescription> Describe(const PolicyConfig& policy, const Spec& /*action*/) {
  Td3BcConfig config;
  DING_RETURN_IF_ERROR(UnpackParams(policy, &config));
  DING_ASSIGN_OR_RETURN(ActorDescription description,
                        DescribeContinuousActor(config.continuous(), ActorHead::kMean));
  if (config.normalize_obs()) description.obs_clip = config.obs_clip();
  return description;
}

DING_REGISTER(ActorDescriberRegistry(), kName, Describe, "the tanh of the mean");

}  // namespace
}  // namespace ding
