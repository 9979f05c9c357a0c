// Registers policy type "cql".

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/problems.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/cql/cql.pb.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/dqn_config.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/q_learning/q_policy.h"

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

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& config,
                                               const PolicyContext& context) {
  CqlConfig cql;
  DING_RETURN_IF_ERROR(UnpackParams(config, &cql));
  std::vector<std::string> problems;
  AppendRunProblems(config, "cql", &problems, TakesSchedules::kYes);
  AppendProblems(cql.dqn(), "dqn.", &problems);
  if (!IsDefaultEps(cql.dqn())) {
    problems.emplace_back(
        "dqn.eps (type, start, end, decay) has no effect, because cql learns from recorded "
        "episodes: remove it");
  }
  if (!(cql.alpha() >= 0 && std::isfinite(cql.alpha()))) {
    problems.push_back(absl::StrCat("alpha is ", cql.alpha(), ", must be finite and at least 0"));
  }
  if (cql.dqn().lr_decay_env_steps() > 0) {
    problems.emplace_back(
        "dqn.lr_decay_env_steps has no effect, because cql collects no env steps: remove it, and "
        "set a schedule of "
        "learning_rate with unit TRAIN_ITER");
  }
  DqnOptions options = DqnOptionsFromConfig(config, cql.dqn(), context);
  options.schedules = QSchedules(config, cql.dqn(), /*has_eps=*/false, &problems);
  absl::StatusOr<std::unique_ptr<Network>> network =
      CreateQNetwork(cql.dqn(), context, "cql", "dqn.", &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, "policy type 'cql'"));
  options.learn.supervised = true;
  options.learn.transitions = true;
  auto head = std::make_unique<CqlHead>(options.loss, cql.alpha());
  return DqnPolicy::Create(*std::move(network), context.action, options, context.observation,
                           {"cql", std::move(head)});
}

DING_REGISTER(PolicyRegistry(), "cql", Create,
              "discrete CQL: DQN on recorded episodes, with a conservative penalty",
              &CqlConfig::descriptor);

absl::StatusOr<ActorDescription> Describe(const PolicyConfig& config, const Spec& /*action*/) {
  CqlConfig cql;
  DING_RETURN_IF_ERROR(UnpackParams(config, &cql));
  return DescribeQActor(config, cql.dqn());
}

DING_REGISTER(ActorDescriberRegistry(), "cql", Describe, "greedy by Q values");

}  // namespace
}  // namespace ding
