// Policy type "munchausen": Munchausen-DQN (Vieillard et al. 2020, "Munchausen reinforcement
// learning"), with pi(. | s) = softmax(target(s, .) / temperature) over the legal actions:
//
//   reward_i  <- reward_i + alpha clip(temperature log pi(action_i | obs_i), min_log_policy, 0)
//   next_i     = sum_a pi(a | next_obs_i) (target(next_obs_i, a) - temperature log pi(a | next_obs_i))
//              = temperature log sum_a exp(target(next_obs_i, a) / temperature)
//
// With nstep above 1 only the first action of the window earns the bonus.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/dqn_config.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "munchausen/munchausen.pb.h"

namespace munchausen {
namespace {

class MunchausenHead : public ding::ValueHead {
 public:
  MunchausenHead(const ding::TdLossOptions& loss, const MunchausenConfig& config)
      : ValueHead(loss), config_(config) {}

  absl::Status ComputeTarget(const ding::QTargetInput& input, absl::Span<float> reward,
                             absl::Span<float> next) override {
    DING_ASSIGN_OR_RETURN(const absl::Span<const float> target, input.target_of_obs());
    const auto actions = static_cast<size_t>(input.num_actions);
    for (size_t row = 0; row < next.size(); ++row) {
      const size_t begin = row * actions;
      const size_t taken = begin + static_cast<size_t>(input.action[row]);
      const double log_policy = target[taken] - SoftValue(target, input.mask, begin, actions);
      reward[row] += static_cast<float>(config_.alpha() *
                                        std::clamp(log_policy, config_.min_log_policy(), 0.0));
      next[row] = static_cast<float>(SoftValue(input.next, input.next_mask, begin, actions));
    }
    return absl::OkStatus();
  }

 private:
  // temperature log sum exp(q / temperature) over the legal actions of a row; 0 if there is none.
  double SoftValue(absl::Span<const float> q, absl::Span<const uint8_t> mask, size_t begin,
                   size_t actions) const {
    double best = -std::numeric_limits<double>::infinity();
    double sum = 0;
    for (const bool find_best : {true, false}) {
      for (size_t i = begin; i < begin + actions; ++i) {
        if (!mask.empty() && mask[i] == 0) continue;
        if (find_best) best = std::max<double>(best, q[i]);
        if (!find_best) sum += std::exp((q[i] - best) / config_.temperature());
      }
    }
    return sum > 0 ? best + config_.temperature() * std::log(sum) : 0;
  }

  const MunchausenConfig config_;
};

absl::StatusOr<std::unique_ptr<ding::Policy>> Create(const ding::PolicyConfig& policy,
                                                     const MunchausenConfig& config,
                                                     const ding::PolicyContext& context) {
  ding::QPolicyMaker maker(policy, config.dqn(), context);
  ding::RequireSingleRows(policy, maker.problems());
  if (!config.dqn().double_dqn()) {
    maker.problems()->push_back(
        "dqn.double_dqn has no effect, because no action is chosen for "
        "the target: remove it");
  }
  maker.options()->double_q = false;
  DING_ASSIGN_OR_RETURN(std::unique_ptr<ding::Network> network, maker.CreateNetwork());
  auto head = std::make_unique<MunchausenHead>(maker.options()->loss, config);
  return ding::DqnPolicy::Create(std::move(network), context.action, *maker.options(),
                                 context.observation, {policy.type(), std::move(head)});
}

DING_REGISTER(ding::PolicyRegistry(), "munchausen", Create,
              "Munchausen-DQN: the log-policy is a part of the reward; discrete actions");
DING_REGISTER(ding::ActorDescriberRegistry(), "munchausen",
              ding::DescriberOf(ding::DescribeQActor, &MunchausenConfig::dqn), "as dqn");
DING_REGISTER(ding::PolicyDefaultsRegistry(), "munchausen", "[as dqn: policy.params.dqn]",
              "those of dqn");

}  // namespace
}  // namespace munchausen
