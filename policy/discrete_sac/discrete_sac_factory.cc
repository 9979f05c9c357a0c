// Registers policy type "discrete_sac".
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/discrete_sac/discrete_sac.h"
#include "ding_worker/policy/discrete_sac/discrete_sac.pb.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_modes.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/q_network.h"

namespace ding {
namespace {

constexpr char kName[] = "discrete_sac";

void AppendProblems(const PolicyConfig& policy, const DiscreteSacConfig& config,
                    std::vector<std::string>* problems) {
  RequireSingleRows(policy, problems);
  if (config.model().dueling()) {
    problems->push_back(absl::StrCat("model.dueling is set, but the actor of ", kName,
                                     " has no values: must be false; critic.dueling may be set"));
  }
}

// Creates a network of `config` with the output `head` [A]; appends a problem, whose first word is
// `name`, if it cannot.
std::unique_ptr<Network> CreateNetwork(const NetworkConfig& config, const char* name,
                                       const char* head, int64_t num_actions, uint64_t seed,
                                       const PolicyContext& context,
                                       std::vector<std::string>* problems) {
  const SpecPtr outputs = *MakeSpec({Box(head, {num_actions})});
  auto network = create_network(config, WithoutActionMask(context.observation), outputs, seed);
  if (network.ok()) return *std::move(network);
  problems->push_back(absl::StrCat(name, ": ", network.status().message()));
  return nullptr;
}

DiscreteSacNetworks CreateNetworks(const DiscreteSacConfig& config, const PolicyContext& context,
                                   std::vector<std::string>* problems) {
  const absl::StatusOr<int64_t> counted = CountActions(*context.action, kName);
  if (!counted.ok()) problems->emplace_back(counted.status().message());
  const auto mask = FindActionMask(*context.observation, *context.action);
  if (!mask.ok()) problems->emplace_back(mask.status().message());
  // An invalid action space counts as one action, so that problems of the networks are reported
  // too.
  const int64_t num_actions = counted.value_or(1);
  DiscreteSacNetworks networks;
  networks.actor =
      CreateNetwork(config.model(), "model", "logit", num_actions, context.seed, context, problems);
  if (!context.modes.learn) return networks;
  const NetworkConfig& critic = config.has_critic() ? config.critic() : config.model();
  networks.critic0 =
      CreateNetwork(critic, "critic", "q", num_actions,
                    Rng::DeriveSeed(context.seed, "policy/critic/0"), context, problems);
  // What is wrong with one is wrong with both.
  if (networks.critic0 == nullptr) return networks;
  networks.critic1 =
      CreateNetwork(critic, "critic", "q", num_actions,
                    Rng::DeriveSeed(context.seed, "policy/critic/1"), context, problems);
  return networks;
}

// The fields that may change; those of the temperature if it is learned.
std::vector<ChangingField> FieldsOf(const DiscreteSacConfig& config, const PolicyContext& context) {
  std::vector<ChangingField> fields = {{kActorRate, kActorRate, config.actor_learning_rate()},
                                       {kCriticRate, kCriticRate, config.critic_learning_rate()}};
  if (!config.learn_alpha()) return fields;
  fields.push_back({kAlphaRate, kAlphaRate, config.alpha_learning_rate()});
  // Another action space is a problem of its own.
  const absl::StatusOr<int64_t> num_actions = CountActions(*context.action, kName);
  ChangingField target = {kTargetEntropy, kTargetEntropy,
                          config.has_target_entropy()
                              ? config.target_entropy()
                              : DefaultTargetEntropy(num_actions.value_or(2))};
  target.most = std::log(static_cast<double>(num_actions.value_or(2)));
  fields.push_back(target);
  return fields;
}

DiscreteSacOptions MakeOptions(const PolicyConfig& policy, const DiscreteSacConfig& config,
                               const PolicyContext& context) {
  DiscreteSacOptions options;
  ReadPolicyOptions(policy, context, &options);
  options.actor_adam.lr = config.actor_learning_rate();
  options.critic_adam.lr = config.critic_learning_rate();
  options.grad_clip_norm = config.grad_clip_norm();
  options.target_update_theta = config.target_update_theta();
  options.alpha = config.alpha();
  options.learn_alpha = config.learn_alpha();
  options.alpha_adam.lr = config.alpha_learning_rate();
  if (config.has_target_entropy()) options.target_entropy = config.target_entropy();
  return options;
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy,
                                               const DiscreteSacConfig& config,
                                               const PolicyContext& context) {
  std::vector<std::string> problems;
  AppendProblems(policy, config, &problems);
  DiscreteSacOptions options = MakeOptions(policy, config, context);
  options.schedules = CreateFieldSchedules(policy, FieldsOf(config, context), &problems);
  DiscreteSacNetworks networks = CreateNetworks(config, context, &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems));
  return DiscreteSacPolicy::Create(std::move(networks), context.observation, context.action,
                                   options);
}

DING_REGISTER(PolicyRegistry(), kName, Create,
              "soft actor-critic: twin critics, learned temperature; discrete actions");

absl::StatusOr<ActorDescription> Describe(const PolicyConfig& /*policy*/,
                                          const DiscreteSacConfig& config, const Spec& action) {
  ActorDescription description;
  DING_RETURN_IF_ERROR(DescribeNetwork(config.model(), &description));
  description.parameters = ActorCritic::ParametersOf(/*shared=*/false);
  description.head = DistributionHeadOf(action);
  return description;
}

DING_REGISTER(ActorDescriberRegistry(), kName, DescriberOf(Describe), "the softmax of the logits");

// What a config of this policy has unless it says otherwise.
DING_REGISTER(PolicyDefaultsRegistry(), "discrete_sac", R"(
  policy.collect.n_sample=64  # our cartpole_discrete_sac config
  policy.learn.update_per_collect=32  # our cartpole_discrete_sac config
  policy.random_collect_size=1000  # SB3 zoo, dqn.yml, MountainCar: learning_starts
  policy.eval.evaluator.eval_freq=2500  # 5,000 env steps
  policy.learn.batch_size=64  # Christodoulou 2019, table 2
  policy.other.replay_buffer.replay_buffer_size=100000  # SB3 zoo, dqn.yml, CartPole
  policy.params.actor_learning_rate=0.0005  # our cartpole_discrete_sac config
  policy.params.critic_learning_rate=0.001  # our cartpole_discrete_sac config
  policy.params.alpha_learning_rate=0.001  # our cartpole_discrete_sac config
  policy.params.alpha=0.2  # our cartpole_discrete_sac config
  policy.params.model.encoder_hidden_size=[128, 128, 64]  # DI-engine, DQN
  policy.params.target_entropy=0.3  # our cartpole_discrete_sac config
)",
              "those of our config for CartPole");

}  // namespace
}  // namespace ding
