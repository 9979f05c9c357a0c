#include "ding_worker/policy/loss/distributional_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ding_worker/base/check.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/policy/loss/distribution_loops.h"

namespace ding {
namespace {

using internal_loss::DistributionLoops;
using internal_loss::DistributionLoopsFor;
using internal_loss::QuantileRow;

void CheckLengths(const CategoricalLossInput& input, const CategoricalSupport& support,
                  absl::Span<float> td_error, absl::Span<float> d_logit) {
  DING_CHECK(support.atoms >= 2 && support.atoms <= kMaxAtoms && support.v_max > support.v_min)
      << support.atoms << " atoms in " << support.v_min << ".." << support.v_max;
  const size_t rows = input.action.size();
  const auto atoms = static_cast<size_t>(support.atoms);
  DING_CHECK(rows > 0 && !input.logit.empty() && input.logit.size() % (rows * atoms) == 0)
      << input.logit.size() << " logits for " << rows << " rows of " << atoms << " atoms";
  DING_CHECK(input.reward.size() == rows && input.discount.size() == rows &&
             input.next_logit.size() == rows * atoms && td_error.size() == rows)
      << "columns of different lengths; action has " << rows;
  DING_CHECK(input.weight.empty() || input.weight.size() == rows)
      << input.weight.size() << " weights for " << rows << " rows";
  DING_CHECK(d_logit.size() == input.logit.size())
      << d_logit.size() << " and " << input.logit.size();
}

// Writes the distribution of reward + discount * z to `target` [N], where z has probabilities
// `next` [N].
void Project(float reward, float discount, const CategoricalSupport& support, const float* next,
             float* target) {
  const int64_t last = support.atoms - 1;
  const float step = support.step();
  // The value of atom k, in steps from the lowest atom, is first + k * discount.
  const float first = (reward + discount * support.v_min - support.v_min) / step;
  std::fill_n(target, support.atoms, 0.0f);
  for (int64_t k = 0; k <= last; ++k) {
    const float place =
        std::clamp(first + static_cast<float>(k) * discount, 0.0f, static_cast<float>(last));
    const auto below = std::min<int64_t>(static_cast<int64_t>(place), last - 1);
    const float above_share = place - static_cast<float>(below);
    target[below] += next[k] * (1 - above_share);
    target[below + 1] += next[k] * above_share;
  }
}

double MeanOf(const float* probability, const CategoricalSupport& support) {
  double mean = 0;
  for (int64_t k = 0; k < support.atoms; ++k) {
    mean += static_cast<double>(probability[k]) * static_cast<double>(k);
  }
  return support.v_min + support.step() * mean;
}

// The loss of a row and its divergence, by the target and log p = logit - log_sum.
struct RowLoss {
  double cross_entropy = 0;
  double divergence = 0;
};
RowLoss ComputeRowLoss(const float* target, const float* logit, double log_sum, int64_t atoms) {
  RowLoss loss;
  double entropy = 0;
  for (int64_t k = 0; k < atoms; ++k) {
    const double m = target[k];
    loss.cross_entropy -= m * (logit[k] - log_sum);
    if (m > 0) entropy -= m * std::log(target[k]);
  }
  loss.divergence = std::max(loss.cross_entropy - entropy, 0.0);
  return loss;
}

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

void ComputeCategoricalMeans(absl::Span<const float> logit, const CategoricalSupport& support,
                             absl::Span<float> mean) {
  const auto atoms = static_cast<size_t>(support.atoms);
  DING_CHECK(logit.size() == mean.size() * atoms)
      << logit.size() << " logits for " << mean.size() << " means of " << atoms << " atoms";
  const DistributionLoops& loops = DistributionLoopsFor(BestInstructionSet());
  for (size_t i = 0; i < mean.size(); ++i) {
    mean[i] =
        loops.softmax_mean(logit.data() + i * atoms, support.atoms, support.v_min, support.step());
  }
}

TdLossResult ComputeCategoricalLoss(const CategoricalLossInput& input,
                                    const CategoricalSupport& support, absl::Span<float> td_error,
                                    absl::Span<float> d_logit) {
  CheckLengths(input, support, td_error, d_logit);
  const DistributionLoops& loops = DistributionLoopsFor(BestInstructionSet());
  const auto rows = static_cast<int64_t>(input.action.size());
  const int64_t atoms = support.atoms;
  const int64_t num_actions = static_cast<int64_t>(input.logit.size()) / (rows * atoms);
  std::fill(d_logit.begin(), d_logit.end(), 0.0f);
  float next[kMaxAtoms];
  float target[kMaxAtoms];
  TdLossResult sum;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t action = input.action[i];
    DING_CHECK(action >= 0 && action < num_actions) << "action " << action << " of " << num_actions;
    if (!std::isfinite(input.reward[i]) || !std::isfinite(input.discount[i])) {
      td_error[i] = std::numeric_limits<float>::quiet_NaN();
      sum.loss = td_error[i];
      continue;  // A projection would need a place for it.
    }
    loops.softmax(input.next_logit.data() + i * atoms, atoms, next);
    Project(input.reward[i], input.discount[i], support, next, target);
    const int64_t chosen = (i * num_actions + action) * atoms;
    const float* const logit = input.logit.data() + chosen;
    float* const d = d_logit.data() + chosen;
    const double log_sum = loops.softmax(logit, atoms, d);
    const RowLoss loss = ComputeRowLoss(target, logit, log_sum, atoms);
    const double weight = input.weight.empty() ? 1.0 : input.weight[i];
    sum.loss += weight * loss.cross_entropy;
    sum.mean_q += MeanOf(d, support);
    sum.mean_next_value += MeanOf(next, support);
    td_error[i] = static_cast<float>(loss.divergence);
    const auto scale = static_cast<float>(weight / static_cast<double>(rows));
    for (int64_t k = 0; k < atoms; ++k) d[k] = scale * (d[k] - target[k]);
  }
  const double scale = 1.0 / static_cast<double>(rows);
  return {sum.loss * scale, sum.mean_q * scale, sum.mean_next_value * scale};
}

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
