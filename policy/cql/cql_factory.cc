// Registers policy type "cql".

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/cql/cql.pb.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/dqn_config.h"
#include "ding_worker/policy/q_learning/q_network.h"

namespace ding {
namespace {

// The head of discrete CQL: values whose loss is that of Q-learning plus a conservative penalty
// (both in policy/loss/td_loss.h). The td error is that of Q-learning.
//
// Threads: thread-compatible.
class CqlHead : public ValueHead {
 public:
  CqlHead(const TdLossOptions& options, double alpha) : ValueHead(options), alpha_(alpha) {}

  TdLossResult ComputeLoss(const QHeadInput& input, absl::Span<float> td_error,
                           absl::Span<float> d_outputs) override {
    TdLossResult result = ValueHead::ComputeLoss(input, td_error, d_outputs);
    result.loss +=
        AddCqlPenalty({input.outputs, input.action, input.weight, input.mask}, alpha_, d_outputs);
    return result;
  }

 private:
  const double alpha_;
};

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy, const CqlConfig& config,
                                               const PolicyContext& context) {
  QPolicyMaker maker(policy, config.dqn(), context);
  RequireSingleRows(policy, maker.problems());
  maker.RefuseEps("cql learns from recorded episodes");
  if (config.dqn().lr_decay_env_steps() > 0) {
    maker.problems()->emplace_back(
        "dqn.lr_decay_env_steps has no effect, because cql collects no env steps: remove it, and "
        "set a schedule of learning_rate with unit TRAIN_ITER");
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network, maker.CreateNetwork());
  maker.options()->learn.supervised = true;
  maker.options()->learn.transitions = true;
  auto head = std::make_unique<CqlHead>(maker.options()->loss, config.alpha());
  return DqnPolicy::Create(std::move(network), context.action, *maker.options(),
                           context.observation, {"cql", std::move(head)});
}

DING_REGISTER(PolicyRegistry(), "cql", Create,
              "discrete CQL: DQN on recorded episodes, with a conservative penalty");

DING_REGISTER(ActorDescriberRegistry(), "cql", DescriberOf(DescribeQActor, &CqlConfig::dqn),
              "greedy by Q values");

// What a config of this policy has unless it says otherwise.
DING_REGISTER(PolicyDefaultsRegistry(), "cql", R"(
  policy.learn.batch_size=64  # DI-engine, DQN
  policy.params.dqn.model.encoder_hidden_size=[128, 128, 64]  # DI-engine, DQN
  policy.params.dqn.target_update_freq=100  # DI-engine, DQN
)",
              "those of DQN");

}  // namespace
}  // namespace ding
