// Registers policy type "dqn".
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/dqn_config.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy, const DqnConfig& config,
                                               const PolicyContext& context) {
  QPolicyMaker maker(policy, config, context, /*prefix=*/"");
  RequireSingleRows(policy, maker.problems());
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network, maker.CreateNetwork());
  maker.options()->own_loss = context.loss;
  return DqnPolicy::Create(std::move(network), context.action, *maker.options(),
                           context.observation);
}

DING_REGISTER(PolicyRegistry(), "dqn", Create,
              "DQN: double, dueling, n-step, priorities; discrete actions");

DING_REGISTER(ActorDescriberRegistry(), "dqn", DescriberOf(DescribeQActor),
              "epsilon-greedy by Q values");

// What a config of this policy has unless it says otherwise.
DING_REGISTER(PolicyDefaultsRegistry(), "dqn", R"(
  policy.collect.n_sample=16  # SB3 zoo, dqn.yml, MountainCar: train_freq
  policy.learn.update_per_collect=8  # SB3 zoo, dqn.yml, MountainCar: gradient_steps
  policy.random_collect_size=1000  # SB3 zoo, dqn.yml, MountainCar: learning_starts
  policy.eval.evaluator.eval_freq=2500  # 5,000 env steps
  policy.learn.batch_size=64  # DI-engine, DQN
  policy.other.replay_buffer.replay_buffer_size=100000  # SB3 zoo, dqn.yml, CartPole
  policy.params.model.encoder_hidden_size=[128, 128, 64]  # DI-engine, DQN
  policy.params.target_update_freq=100  # DI-engine, DQN
)",
              "those of SB3 zoo");

}  // namespace
}  // namespace ding
