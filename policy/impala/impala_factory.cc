// Registers policy type "impala".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/actor_critic/actor_critic_config.h"
#include "ding_worker/policy/impala/impala.h"
#include "ding_worker/policy/impala/impala.pb.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {
namespace {

std::vector<std::string> FindProblems(const PolicyConfig& policy, const ImpalaConfig& config) {
  std::vector<std::string> problems;
  if (policy.nstep() > 1) {
    problems.push_back(
        absl::StrCat("nstep is ", policy.nstep(),
                     ", but impala sums the rewards of a sequence itself: must be 1"));
  }
  if (policy.priority()) {
    problems.push_back("priority is set, but impala learns from all sequences alike");
  }
  if (config.actor_critic().scale_reward()) {
    problems.push_back(
        "scale_reward is set, but impala learns from the rewards of several collectors, which "
        "would scale them differently: must be false");
  }
  if (!config.v_trace() && !(config.rho_bar() == 1 && config.c_bar() == 1)) {
    problems.push_back(
        absl::StrCat("v_trace is false, so that no ratio is clipped, but rho_bar is ",
                     config.rho_bar(), " and c_bar is ", config.c_bar(), ": both must be 1"));
  }
  return problems;
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy,
                                               const ImpalaConfig& config,
                                               const PolicyContext& context) {
  DING_ASSIGN_OR_RETURN(
      ActorCriticParts parts,
      MakeActorCriticParts(policy, config.actor_critic(), context,
                           ChangingFields(config.actor_critic()), FindProblems(policy, config)));
  return ImpalaPolicy::Create(
      std::move(parts.actor), std::move(parts.critic), context.observation, context.action,
      {std::move(parts.options), config.rho_bar(), config.c_bar(), config.v_trace()});
}

DING_REGISTER(PolicyRegistry(), "impala", Create,
              "IMPALA: V-trace on sequences of a replay buffer; discrete and continuous actions");
DING_REGISTER(ActorDescriberRegistry(), "impala",
              DescriberOf(DescribeActorCriticActor, &ImpalaConfig::actor_critic),
              "the actor of an actor-critic");

// What a config of this policy has unless it says otherwise.
DING_REGISTER(PolicyDefaultsRegistry(), "impala", R"(
  policy.collect.n_sample=256  # our cartpole_impala config
  policy.eval.evaluator.eval_freq=20  # 5,120 env steps
  policy.learn.batch_size=8  # our cartpole_impala config
  policy.other.replay_buffer.type=sequence  # Espeholt et al. 2018: trajectories
  policy.other.replay_buffer.replay_buffer_size=256  # one collect, learned from once
  policy.other.replay_buffer.params.unroll_len=32  # our cartpole_impala config
  policy.other.replay_buffer.params.overlap=0  # Espeholt et al. 2018
  policy.other.replay_buffer.params.cross_episodes=true  # Espeholt et al. 2018
  policy.params.actor_critic.learning_rate=0.002  # our cartpole_impala config
  policy.params.actor_critic.gae_lambda=1  # Espeholt et al. 2018, Atari
  policy.params.actor_critic.model.encoder_hidden_size=[64, 64]  # SB3, MlpPolicy
  policy.params.actor_critic.model.activation=TANH  # SB3, MlpPolicy
  policy.params.actor_critic.model.head_layer_num=0  # SB3, MlpPolicy
  policy.params.actor_critic.critic.encoder_hidden_size=[64, 64]  # SB3, MlpPolicy
  policy.params.actor_critic.critic.activation=TANH  # SB3, MlpPolicy
  policy.params.actor_critic.critic.head_layer_num=0  # SB3, MlpPolicy
)",
              "fresh sequences of 32 rows, learned from once");

}  // namespace
}  // namespace ding
