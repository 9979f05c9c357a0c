#include "ding_worker/policy/loss/discrete_sac_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

size_t CheckColumns(const SoftValueInput& input, size_t rows) {
  const auto actions = static_cast<size_t>(input.num_actions);
  DING_CHECK(rows > 0 && actions > 0 && input.logit.size() == rows * actions &&
             input.q.size() == rows * actions &&
             (input.mask.empty() || input.mask.size() == rows * actions))
      << rows << " rows, " << actions << " actions, " << input.logit.size() << " logits, "
      << input.q.size() << " values, " << input.mask.size() << " elements of the mask";
  return actions;
}

// The distribution of one row, and what the losses need of it.
struct Row {
  double log_sum = -std::numeric_limits<double>::infinity();  // log sum exp(logit)
  double mean_q = 0;
  double mean_log_prob = 0;
};

bool Legal(const SoftValueInput& input, size_t at) {
  return input.mask.empty() || input.mask[at] != 0;
}

double LogProb(const SoftValueInput& input, size_t at, const Row& row) {
  return double{input.logit[at]} - row.log_sum;
}

Row ComputeRow(const SoftValueInput& input, size_t begin, size_t actions) {
  Row row;
  double largest = -std::numeric_limits<double>::infinity();
  for (size_t at = begin; at < begin + actions; ++at) {
    if (!Legal(input, at)) continue;
    // A maximum would drop NaN.
    largest = input.logit[at] <= largest ? largest : double{input.logit[at]};
  }
  double sum = 0;
  for (size_t at = begin; at < begin + actions; ++at) {
    if (Legal(input, at)) sum += std::exp(double{input.logit[at]} - largest);
  }
  if (sum == 0) return row;  // no legal action
  row.log_sum = largest + std::log(sum);
  for (size_t at = begin; at < begin + actions; ++at) {
    if (!Legal(input, at)) continue;
    const double log_prob = LogProb(input, at, row);
    const double prob = std::exp(log_prob);
    row.mean_q += prob * input.q[at];
    // The limit of p log p for p towards 0 is 0.
    if (prob > 0) row.mean_log_prob += prob * log_prob;
  }
  return row;
}

}  // namespace

void ComputeSoftValues(const SoftValueInput& input, double alpha, absl::Span<float> value) {
  const size_t actions = CheckColumns(input, value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    const Row row = ComputeRow(input, i * actions, actions);
    value[i] = static_cast<float>(row.mean_q - alpha * row.mean_log_prob);
  }
}

double ComputeDiscreteSacActorLoss(const SoftValueInput& input, double alpha,
                                   absl::Span<float> mean_log_prob, absl::Span<float> d_logit) {
  const size_t actions = CheckColumns(input, mean_log_prob.size());
  DING_CHECK(d_logit.size() == input.logit.size()) << d_logit.size() << " gradients";
  const double scale = 1.0 / static_cast<double>(mean_log_prob.size());
  double sum = 0;
  for (size_t i = 0; i < mean_log_prob.size(); ++i) {
    const size_t begin = i * actions;
    const Row row = ComputeRow(input, begin, actions);
    mean_log_prob[i] = static_cast<float>(row.mean_log_prob);
    sum += alpha * row.mean_log_prob - row.mean_q;
    for (size_t at = begin; at < begin + actions; ++at) {
      const double log_prob = Legal(input, at) ? LogProb(input, at, row) : 0;
      const double slope =
          alpha * (log_prob - row.mean_log_prob) - (double{input.q[at]} - row.mean_q);
      const double prob = Legal(input, at) ? std::exp(log_prob) : 0;
      d_logit[at] = prob == 0 ? 0.0f : static_cast<float>(scale * prob * slope);
    }
  }
  return sum * scale;
}

}  // namespace ding
