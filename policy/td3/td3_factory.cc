// Registers policy types "td3" and "ddpg".
#include <cstdint>
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
#include "ding_worker/policy/td3/td3.pb.h"

namespace ding {
namespace {

constexpr char kTd3[] = "td3";
constexpr char kDdpg[] = "ddpg";

// Creates the policy of `options`, whose base is made here; `problems` are those found so far.
absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy,
                                               const ContinuousConfig& config,
                                               const PolicyContext& context, Td3Options options,
                                               int num_critics, std::vector<std::string> problems) {
  AppendProblems(options.algorithm, policy, config, &problems, TakesSchedules::kYes);
  RequireAtLeastZero(options.exploration_noise, kExplorationNoise, &problems);
  std::vector<ChangingField> fields = ChangingFields(config);
  fields.push_back(
      {kExplorationNoise, kExplorationNoise, options.exploration_noise, /*collects=*/true});
  FieldSchedules schedules = CreateFieldSchedules(policy, fields, &problems);
  ContinuousNetworks networks = CreateContinuousNetworks(
      options.algorithm, config, ActorHead::kMean, {num_critics}, context, &problems);
  const std::string where = absl::StrCat("policy type '", options.algorithm, "'");
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, where));
  const int64_t delay = options.base.actor_update_freq;
  options.base = ContinuousOptionsFromConfig(policy, config, context);
  options.base.actor_update_freq = delay;
  options.base.target_delay = delay;
  options.base.schedules = std::move(schedules);
  absl::StatusOr<std::unique_ptr<Policy>> made =
      CreateTd3(std::move(networks.actor), std::move(networks.critics), context.action, options);
  if (!made.ok()) return Annotate(made.status(), where);
  return made;
}

absl::StatusOr<std::unique_ptr<Policy>> CreateTd3Policy(const PolicyConfig& policy,
                                                        const PolicyContext& context) {
  Td3Config config;
  DING_RETURN_IF_ERROR(UnpackParams(policy, &config));
  std::vector<std::string> problems;
  RequireAtLeastZero(config.target_noise(), "target_noise", &problems);
  RequireAtLeastZero(config.target_noise_clip(), "target_noise_clip", &problems);
  if (config.actor_update_freq() < 1) {
    problems.push_back(
        absl::StrCat("actor_update_freq is ", config.actor_update_freq(), ", must be at least 1"));
  }
  Td3Options options;
  options.algorithm = kTd3;
  options.exploration_noise = config.exploration_noise();
  options.target_noise = config.target_noise();
  options.target_noise_clip = config.target_noise_clip();
  options.base.actor_update_freq = config.actor_update_freq();
  return Create(policy, config.continuous(), context, options, /*num_critics=*/2,
                std::move(problems));
}

absl::StatusOr<std::unique_ptr<Policy>> CreateDdpgPolicy(const PolicyConfig& policy,
                                                         const PolicyContext& context) {
  DdpgConfig config;
  DING_RETURN_IF_ERROR(UnpackParams(policy, &config));
  Td3Options options;
  options.algorithm = kDdpg;
  options.exploration_noise = config.exploration_noise();
  options.target_noise = 0;
  return Create(policy, config.continuous(), context, options, /*num_critics=*/1, {});
}

DING_REGISTER(PolicyRegistry(), kTd3, CreateTd3Policy,
              "TD3: twin critics, delayed deterministic actor; continuous actions",
              &Td3Config::descriptor);
DING_REGISTER(PolicyRegistry(), kDdpg, CreateDdpgPolicy,
              "DDPG: one critic, deterministic actor; continuous actions", &DdpgConfig::descriptor);

template <typename Config>
absl::StatusOr<ActorDescription> Describe(const PolicyConfig& policy, const Spec& /*action*/) {
  Config config;
  DING_RETURN_IF_ERROR(UnpackParams(policy, &config));
  return DescribeContinuousActor(config.continuous(), ActorHead::kMean);
}

DING_REGISTER(ActorDescriberRegistry(), kTd3, Describe<Td3Config>, "the tanh of the mean");
DING_REGISTER(ActorDescriberRegistry(), kDdpg, Describe<DdpgConfig>, "the tanh of the mean");

}  // namespace
}  // namespace ding
