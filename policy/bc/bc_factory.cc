// Registers policy type "bc".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
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

std::vector<std::string> FindProblems(const PolicyConfig& policy, const BcConfig& config,
                                      const Spec& action) {
  std::vector<std::string> problems;
  RequireSingleRows(policy, &problems);
  if (policy.priority()) problems.push_back("priority is set, but bc has no replay buffer");
  RequireObsClip(config, &problems);
  RequireDefaultUnless(!HasCategories(action), config.collect_log_std(),
                       BcConfig().collect_log_std(), "collect_log_std", "continuous actions",
                       &problems);
  return problems;
}

BcOptions MakeOptions(const PolicyConfig& config, const BcConfig& bc,
                      const PolicyContext& context) {
  BcOptions options;
  ReadPolicyOptions(config, context, &options);
  options.adam.lr = bc.learning_rate();
  options.grad_clip_norm = bc.grad_clip_norm();
  options.collect_log_std = bc.collect_log_std();
  options.normalize_obs = bc.normalize_obs();
  options.obs_clip = bc.obs_clip();
  return options;
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy, const BcConfig& config,
                                               const PolicyContext& context) {
  std::vector<std::string> problems = FindProblems(policy, config, *context.action);
  BcOptions options = MakeOptions(policy, config, context);
  options.schedules = CreateFieldSchedules(
      policy, {{"learning_rate", kSettingLr, config.learning_rate()}}, &problems);
  std::unique_ptr<Network> network = CreateActor(config.model(), context, {}, &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems));
  return BcPolicy::Create(std::move(network), context.observation, context.action, options);
}

DING_REGISTER(PolicyRegistry(), "bc", Create,
              "behaviour cloning from a data set; discrete and continuous actions");

absl::StatusOr<ActorDescription> Describe(const PolicyConfig& /*policy*/, const BcConfig& config,
                                          const Spec& action) {
  ActorDescription description;
  DING_RETURN_IF_ERROR(DescribeNetwork(config.model(), &description));
  description.parameters = ActorCritic::ParametersOf(/*shared=*/false);
  description.head = DistributionHeadOf(action);
  if (config.normalize_obs()) description.obs_clip = config.obs_clip();
  return description;
}

DING_REGISTER(ActorDescriberRegistry(), "bc", DescriberOf(Describe), "the network that imitates");

// What a config of this policy has unless it says otherwise.
DING_REGISTER(PolicyDefaultsRegistry(), "bc", R"(
  policy.learn.batch_size=128  # our cartpole_bc config
  policy.params.model.encoder_hidden_size=[64, 64]  # SB3, MlpPolicy
  policy.params.model.activation=TANH  # SB3, MlpPolicy
  policy.params.model.head_layer_num=0  # SB3, MlpPolicy
)",
              "the network of SB3");

}  // namespace
}  // namespace ding
