// Registers policy type "bc".
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/problems.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/actor_critic/actor_critic_config.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/bc/bc.h"
#include "ding_worker/policy/bc/bc.pb.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {
namespace {

constexpr char kName[] = "bc";
constexpr char kWhere[] = "policy type 'bc'";

void AppendProblems(const PolicyConfig& config, const BcConfig& bc,
                    std::vector<std::string>* problems) {
  AppendProblems(config, problems, TakesSchedules::kYes);
  if (config.unroll_len() > 1) {
    problems->push_back(absl::StrCat("unroll_len is ", config.unroll_len(),
                                     ", but bc learns from single rows: must be 1"));
  }
  if (config.priority()) problems->push_back("priority is set, but bc has no replay buffer");
  RequireAtLeastZero(bc.learning_rate(), "learning_rate", problems);
  RequireAtLeastZero(bc.grad_clip_norm(), "grad_clip_norm", problems);
  RequireAboveZero(bc.obs_clip(), "obs_clip", problems);
  RequireDefaultUnless(bc.normalize_obs(), bc.obs_clip(), BcConfig().obs_clip(), "obs_clip",
                       "normalize_obs", problems);
  if (!(std::abs(bc.collect_log_std()) <= 20)) {
    problems->push_back(
        absl::StrCat("collect_log_std is ", bc.collect_log_std(), ", must be in [-20, 20]"));
  }
}

BcOptions MakeOptions(const PolicyConfig& config, const BcConfig& bc,
                      const PolicyContext& context) {
  BcOptions options;
  options.seed = context.seed;
  options.adam.lr = bc.learning_rate();
  options.grad_clip_norm = bc.grad_clip_norm();
  options.collect_log_std = bc.collect_log_std();
  options.normalize_obs = bc.normalize_obs();
  options.obs_clip = bc.obs_clip();
  options.collect = CollectAttributesFromConfig(config);
  options.learn = LearnAttributesFromConfig(config);
  options.modes = context.modes;
  options.reducer = context.reducer;
  return options;
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& config,
                                               const PolicyContext& context) {
  BcConfig bc;
  DING_RETURN_IF_ERROR(UnpackParams(config, &bc));
  std::vector<std::string> problems;
  AppendProblems(config, bc, &problems);
  RequireDefaultUnless(!HasCategories(*context.action), bc.collect_log_std(),
                       BcConfig().collect_log_std(), "collect_log_std", "continuous actions",
                       &problems);
  BcOptions options = MakeOptions(config, bc, context);
  options.schedules =
      CreateFieldSchedules(config, {{"learning_rate", kSettingLr, bc.learning_rate()}}, &problems);
  std::unique_ptr<Network> network = CreateActor(bc.model(), context, {}, &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, kWhere));
  absl::StatusOr<std::unique_ptr<Policy>> made =
      BcPolicy::Create(std::move(network), context.observation, context.action, options);
  if (!made.ok()) return Annotate(made.status(), kWhere);
  return made;
}

DING_REGISTER(PolicyRegistry(), kName, Create,
              "behaviour cloning from a data set; discrete and continuous actions",
              &BcConfig::descriptor);

absl::StatusOr<ActorDescription> Describe(const PolicyConfig& config, const Spec& action) {
  BcConfig bc;
  DING_RETURN_IF_ERROR(UnpackParams(config, &bc));
  ActorDescription description;
  DING_RETURN_IF_ERROR(DescribeNetwork(bc.model(), &description));
  description.parameters = ActorCritic::ParametersOf(/*shared=*/false);
  description.head = DistributionHeadOf(action);
  if (bc.normalize_obs()) description.obs_clip = bc.obs_clip();
  return description;
}

DING_REGISTER(ActorDescriberRegistry(), kName, Describe, "the network that imitates");

}  // namespace
}  // namespace ding
