// Registers policy type "iql".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/problems.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/actor_critic/actor_critic_config.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_config.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/iql/iql.h"
#include "ding_worker/policy/iql/iql.pb.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/schedule.h"

namespace ding {
namespace {

constexpr char kName[] = "iql";
constexpr char kWhere[] = "policy type 'iql'";

void AppendProblems(const IqlConfig& config, std::vector<std::string>* problems) {
  if (!(config.expectile() > 0 && config.expectile() < 1)) {
    problems->push_back(absl::StrCat("expectile is ", config.expectile(), ", must be in (0, 1)"));
  }
  RequireAtLeastZero(config.beta(), "beta", problems);
  RequireAboveZero(config.obs_clip(), "obs_clip", problems);
  RequireDefaultUnless(config.normalize_obs(), config.obs_clip(), IqlConfig().obs_clip(),
                       "obs_clip", "normalize_obs", problems);
}

IqlOptions MakeOptions(const PolicyConfig& policy, const IqlConfig& config,
                       const PolicyContext& context) {
  IqlOptions options;
  options.base = OfflineOptionsFromConfig(policy, config.continuous(), context);
  if (config.normalize_obs()) options.base.obs_clip = config.obs_clip();
  options.expectile = config.expectile();
  options.beta = config.beta();
  return options;
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy,
                                               const PolicyContext& context) {
  IqlConfig config;
  DING_RETURN_IF_ERROR(UnpackParams(policy, &config));
  std::vector<std::string> problems;
  AppendProblems(kName, policy, config.continuous(), &problems, TakesSchedules::kYes);
  AppendProblems(config, &problems);
  FieldSchedules schedules =
      CreateFieldSchedules(policy, ChangingFields(config.continuous()), &problems);
  ContinuousNetworks networks = CreateContinuousNetworks(
      kName, config.continuous(), ActorHead::kMean, CriticConfig(), context, &problems);
  std::unique_ptr<Network> value;
  if (context.modes.learn) {
    const ContinuousConfig& continuous = config.continuous();
    auto made = create_network(continuous.has_critic() ? continuous.critic() : continuous.model(),
                               context.observation, StateValueOutputs(),
                               Rng::DeriveSeed(context.seed, "policy/value"));
    // Anything else is wrong with the critics, too.
    if (made.ok()) value = *std::move(made);
  }
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, kWhere));
  IqlOptions options = MakeOptions(policy, config, context);
  options.base.schedules = std::move(schedules);
  absl::StatusOr<std::unique_ptr<Policy>> made =
      CreateIql({std::move(networks.actor), std::move(networks.critics), std::move(value)},
                context.action, options);
  if (!made.ok()) return Annotate(made.status(), kWhere);
  return made;
}

DING_REGISTER(PolicyRegistry(), kName, Create,
              "implicit Q-learning on recorded episodes; continuous actions",
              &IqlConfig::descriptor);

absl::StatusOr<ActorDescription> Describe(const PolicyConfig& policy, const Spec& /*action*/) {
  IqlConfig config;
  DING_RETURN_IF_ERROR(UnpackParams(policy, &config));
  DING_ASSIGN_OR_RETURN(ActorDescription description,
                        DescribeContinuousActor(config.continuous(), ActorHead::kMean));
  if (config.normalize_obs()) description.obs_clip = config.obs_clip();
  return description;
}

DING_REGISTER(ActorDescriberRegistry(), kName, Describe, "the tanh of the mean");

}  // namespace
}  // namespace ding
