#include "ding_worker/policy/loss/quantile_loss.h"

#include <algorithm>

#include "ding_worker/base/check.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/policy/loss/distribution_loops.h"

namespace ding {
namespace {

using internal_loss::DistributionLoops;
using internal_loss::DistributionLoopsFor;
using internal_loss::QuantileRow;

void CheckLengths(const QuantileLossInput& input, float kappa, absl::Span<float> td_error,
                  absl::Span<float> d_q) {
  const size_t rows = input.action.size();
  const size_t quantiles = input.fraction.size();
  DING_CHECK(kappa > 0) << kappa;
  DING_CHECK(quantiles > 0 && quantiles <= static_cast<size_t>(kMaxQuantiles)) << quantiles;
  DING_CHECK(rows > 0 && !input.q.empty() && input.q.size() % (rows * quantiles) == 0)
      << input.q.size() << " values for " << rows << " rows of " << quantiles << " quantiles";
  DING_CHECK(!input.next.empty() && input.next.size() % rows == 0 &&
             input.next.size() / rows <= static_cast<size_t>(kMaxQuantiles))
      << input.next.size() << " next values for " << rows << " rows";
  DING_CHECK(input.reward.size() == rows && input.discount.size() == rows &&
             td_error.size() == rows)
      << "columns of different lengths; action has " << rows;
  DING_CHECK(input.weight.empty() || input.weight.size() == rows)
      << input.weight.size() << " weights for " << rows << " rows";
  DING_CHECK(d_q.size() == input.q.size()) << d_q.size() << " and " << input.q.size();
}

}  // namespace

void FillMiddleFractions(absl::Span<float> fraction) {
  const auto size = static_cast<double>(fraction.size());
  for (size_t n = 0; n < fraction.size(); ++n) {
    fraction[n] = static_cast<float>((static_cast<double>(n) + 0.5) / size);
  }
}

void ComputeQuantileMeans(absl::Span<const float> quantiles, absl::Span<float> mean) {
  DING_CHECK(mean.empty() || (!quantiles.empty() && quantiles.size() % mean.size() == 0))
      << quantiles.size() << " quantiles for " << mean.size() << " means";
  const DistributionLoops& loops = DistributionLoopsFor(BestInstructionSet());
  for (size_t i = 0; i < mean.size(); ++i) {
    const size_t width = quantiles.size() / mean.size();
    const double sum = loops.sum(quantiles.data() + i * width, static_cast<int64_t>(width));
    mean[i] = static_cast<float>(sum / static_cast<double>(width));
  }
}

TdLossResult ComputeQuantileLoss(const QuantileLossInput& input, float kappa,
                                 absl::Span<float> td_error, absl::Span<float> d_q) {
  CheckLengths(input, kappa, td_error, d_q);
  const DistributionLoops& loops = DistributionLoopsFor(BestInstructionSet());
  const auto rows = static_cast<int64_t>(input.action.size());
  const auto quantiles = static_cast<int64_t>(input.fraction.size());
  const int64_t samples = static_cast<int64_t>(input.next.size()) / rows;
  const int64_t num_actions = static_cast<int64_t>(input.q.size()) / (rows * quantiles);
  std::fill(d_q.begin(), d_q.end(), 0.0f);
  float target[kMaxQuantiles];
  TdLossResult sum;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t action = input.action[i];
    DING_CHECK(action >= 0 && action < num_actions) << "action " << action << " of " << num_actions;
    const float* const next = input.next.data() + i * samples;
    for (int64_t m = 0; m < samples; ++m) target[m] = input.reward[i] + input.discount[i] * next[m];
    const int64_t chosen = (i * num_actions + action) * quantiles;
    const QuantileRow row = {
        input.q.data() + chosen, input.fraction.data(), quantiles, target, samples, kappa};
    float* const d = d_q.data() + chosen;
    const double loss = loops.quantile_huber(row, d) / static_cast<double>(samples);
    const double weight = input.weight.empty() ? 1.0 : input.weight[i];
    sum.loss += weight * loss;
    sum.mean_q += loops.sum(row.quantile, quantiles) / static_cast<double>(quantiles);
    sum.mean_next_value += loops.sum(next, samples) / static_cast<double>(samples);
    td_error[i] = static_cast<float>(loss / static_cast<double>(quantiles));
    const auto scale = static_cast<float>(weight / static_cast<double>(rows * samples));
    for (int64_t n = 0; n < quantiles; ++n) d[n] *= scale;
  }
  const double scale = 1.0 / static_cast<double>(rows);
  return {sum.loss * scale, sum.mean_q * scale, sum.mean_next_value * scale};
}

}  // namespace ding
