#include "ding_worker/policy/loss/sac_loss.h"

#include <algorithm>
#include <cstddef>

#include "ding_worker/base/check.h"

namespace ding {

void SubtractEntropyCost(absl::Span<const float> log_prob, double alpha, absl::Span<float> value) {
  DING_CHECK(log_prob.size() == value.size()) << log_prob.size() << " and " << value.size();
  const auto cost = static_cast<float>(alpha);
  for (size_t i = 0; i < value.size(); ++i) value[i] -= cost * log_prob[i];
}

SacActorLossResult ComputeSacActorLoss(const CriticColumns& q, absl::Span<const float> log_prob,
                                       double alpha, CriticReduction reduction,
                                       const MutableCriticColumns& d_q,
                                       absl::Span<float> d_log_prob) {
  const size_t rows = log_prob.size();
  DING_CHECK(rows > 0 && !q.empty() && q.size() == d_q.size() && d_log_prob.size() == rows)
      << q.size() << " critics, " << d_q.size() << " gradients, " << rows << " rows";
  for (size_t k = 0; k < q.size(); ++k) {
    DING_CHECK(q[k].size() == rows && d_q[k].size() == rows)
        << "critic " << k << " of " << rows << " rows";
  }
  const double scale = 1.0 / static_cast<double>(rows);
  const double critic_scale = 1.0 / static_cast<double>(q.size());
  std::fill(d_log_prob.begin(), d_log_prob.end(), static_cast<float>(alpha * scale));
  double sum_value = 0;
  double sum_log_prob = 0;
  for (size_t i = 0; i < rows; ++i) {
    sum_log_prob += log_prob[i];
    if (reduction == CriticReduction::kMean) {
      for (size_t k = 0; k < q.size(); ++k) {
        sum_value += q[k][i] * critic_scale;
        d_q[k][i] = static_cast<float>(-scale * critic_scale);
      }
      continue;
    }
    size_t lowest = 0;
    for (size_t k = 1; k < q.size(); ++k) lowest = q[k][i] < q[lowest][i] ? k : lowest;
    for (size_t k = 0; k < q.size(); ++k) d_q[k][i] = 0;
    d_q[lowest][i] = static_cast<float>(-scale);
    sum_value += q[lowest][i];
  }
  return {(alpha * sum_log_prob - sum_value) * scale, sum_value * scale};
}

TemperatureLossResult ComputeTemperatureLoss(absl::Span<const float> log_prob, double log_alpha,
                                             double target_entropy) {
  DING_CHECK(!log_prob.empty()) << "no rows";
  double sum = 0;
  for (const float value : log_prob) sum += value;
  const double mean = sum / static_cast<double>(log_prob.size());
  const double excess = mean + target_entropy;
  return {-log_alpha * excess, -excess, -mean};
}

}  // namespace ding
