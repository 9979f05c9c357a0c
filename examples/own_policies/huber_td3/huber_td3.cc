// Policy type "huber_td3": TD3 whose critics have a loss of their own. Put yours in place of this one:
// squares up to an error of huber_delta, and linear beyond.
//
//   target_i = reward_i + discount_i next_value_i
//   loss     = sum over critics k of 1/B sum_i weight_i f(q_k,i - target_i)
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/td3/td3_factory.h"
#include "huber_td3/huber_td3.pb.h"

namespace huber_td3 {
namespace {

ding::CriticLossResult Loss(const ding::CriticLossInput& input, double delta,
                            absl::Span<float> td_error, const ding::MutableCriticColumns& d_q) {
  const auto critics = static_cast<double>(input.q.size());
  const auto rows = static_cast<double>(input.reward.size());
  ding::CriticLossResult mean;
  for (size_t i = 0; i < input.reward.size(); ++i) {
    const double target =
        input.reward[i] + static_cast<double>(input.discount[i]) * input.next_value[i];
    const double weight = (input.weight.empty() ? 1.0 : input.weight[i]) / rows;
    mean.mean_target += target / rows;
    double absolute = 0;
    for (size_t k = 0; k < input.q.size(); ++k) {
      const double error = input.q[k][i] - target;
      const double within = std::clamp(error, -delta, delta);
      // error^2 up to delta, then delta (2 |error| - delta).
      mean.loss += weight * within * (2 * error - within);
      d_q[k][i] = static_cast<float>(weight * 2 * within);
      mean.mean_q += input.q[k][i] / critics / rows;
      absolute += std::abs(error) / critics;
    }
    td_error[i] = static_cast<float>(absolute);
  }
  return mean;
}

absl::StatusOr<std::unique_ptr<ding::Policy>> Create(const ding::PolicyConfig& policy,
                                                     const HuberTd3Config& config,
                                                     const ding::PolicyContext& context) {
  const auto loss = [delta = config.huber_delta()](const ding::CriticLossInput& input,
                                                   absl::Span<float> td_error,
                                                   const ding::MutableCriticColumns& d_q) {
    return Loss(input, delta, td_error, d_q);
  };
  return ding::CreateTd3Policy(policy, config.td3(), context, loss);
}

DING_REGISTER(ding::PolicyRegistry(), "huber_td3", Create, "TD3 with a loss of its own");
DING_REGISTER(ding::ActorDescriberRegistry(), "huber_td3",
              ding::DescriberOf(ding::DescribeTd3Actor, &HuberTd3Config::td3), "as td3");
DING_REGISTER(ding::PolicyDefaultsRegistry(), "huber_td3", "[as td3: policy.params.td3]",
              "those of td3");

}  // namespace
}  // namespace huber_td3
