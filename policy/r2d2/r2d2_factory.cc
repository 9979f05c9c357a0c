// Registers policy type "r2d2".
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/dqn_config.h"
#include "ding_worker/policy/r2d2/r2d2.h"
#include "ding_worker/policy/r2d2/r2d2.pb.h"

namespace ding {
namespace {

void AppendProblems(const PolicyConfig& policy, std::vector<std::string>* problems) {
  if (policy.nstep() > 1) {
    problems->push_back(absl::StrCat(
        "nstep is ", policy.nstep(),
        ", must be 1, because it sets what the replay buffer sums; set params.nstep, which is "
        "r2d2's own"));
  }
  if (policy.unroll_len() == 1 && !policy.has_n_episode()) {
    problems->emplace_back(
        "unroll_len is 1, but r2d2 learns from sequences of rows: must be at least 2, as the "
        "unroll_len of the replay buffer, unless whole episodes are collected (n_episode)");
  }
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy, const R2d2Config& config,
                                               const PolicyContext& context) {
  QPolicyMaker maker(policy, config.dqn(), context);
  AppendProblems(policy, maker.problems());
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network, maker.CreateNetwork());
  R2d2Options options;
  options.dqn = *maker.options();
  options.nstep = config.nstep();
  options.scale.eps =
      config.value_rescale() ? std::optional<double>(config.rescale_eps()) : std::nullopt;
  options.priority_eta = config.priority_eta();
  return R2d2Policy::Create(std::move(network), context.action, options, context.observation);
}

DING_REGISTER(PolicyRegistry(), "r2d2", Create,
              "R2D2: recurrent DQN on sequences; burn-in, value rescaling; discrete actions");

DING_REGISTER(ActorDescriberRegistry(), "r2d2", DescriberOf(DescribeQActor, &R2d2Config::dqn),
              "epsilon-greedy by recurrent Q values");

// What a config of this policy has unless it says otherwise.
DING_REGISTER(PolicyDefaultsRegistry(), "r2d2", R"(
  policy.collect.n_sample=8  # our cartpole_masked_r2d2 config
  policy.collect.unroll_len=20  # our cartpole_masked_r2d2 config
  policy.learn.update_per_collect=8  # our cartpole_masked_r2d2 config
  policy.learn.batch_size=32  # our cartpole_masked_r2d2 config
  policy.eval.evaluator.eval_freq=250  # 5,000 env steps
  policy.priority=true  # Kapturowski et al. 2019
  policy.other.replay_buffer.type=sequence  # Kapturowski et al. 2019
  policy.other.replay_buffer.replay_buffer_size=100000  # our cartpole_masked_r2d2 config
  policy.other.replay_buffer.params.unroll_len=20  # our cartpole_masked_r2d2 config
  policy.other.replay_buffer.params.burn_in=4  # our cartpole_masked_r2d2 config
  policy.other.replay_buffer.params.overlap=10  # Kapturowski et al. 2019: half
  policy.other.replay_buffer.params.cross_episodes=true  # our cartpole_masked_r2d2 config
  policy.other.replay_buffer.params.priority={}  # Kapturowski et al. 2019
  policy.params.dqn.model.type=rnn  # Kapturowski et al. 2019
  policy.params.dqn.model.encoder_hidden_size=[64]  # our cartpole_masked_r2d2 config
  policy.params.dqn.model.recurrent.cell=LSTM  # Kapturowski et al. 2019
  policy.params.dqn.model.recurrent.hidden_size=64  # our cartpole_masked_r2d2 config
  policy.params.dqn.model.dueling=true  # Kapturowski et al. 2019
  policy.params.dqn.target_update_freq=100  # DI-engine, DQN
  policy.params.dqn.grad_clip_norm=10  # SB3, DQN: max_grad_norm
)",
              "those of the paper, with shorter sequences");

}  // namespace
}  // namespace ding
