#include "ding_worker/policy/loss/off_policy_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

constexpr double kMaxWeight = 100;  // of a row, in implicit Q-learning
constexpr double kHalfLogTwoPi = 0.91893853320467274178;

// Checks the columns of critics and their gradients.
void CheckCritics(const CriticColumns& q, const MutableCriticColumns& d_q, size_t rows) {
  DING_CHECK(rows > 0 && !q.empty() && q.size() == d_q.size())
      << q.size() << " critics, " << d_q.size() << " gradients, " << rows << " rows";
  for (size_t k = 0; k < q.size(); ++k) {
    DING_CHECK(q[k].size() == rows && d_q[k].size() == rows)
        << "critic " << k << " of " << rows << " rows";
  }
}

void CheckLengths(const CriticLossInput& input, absl::Span<float> td_error,
                  const MutableCriticColumns& d_q) {
  const size_t rows = input.reward.size();
  CheckCritics(input.q, d_q, rows);
  DING_CHECK(input.discount.size() == rows && input.next_value.size() == rows &&
             td_error.size() == rows && (input.weight.empty() || input.weight.size() == rows))
      << "columns of different lengths; reward has " << rows;
}

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

CriticLossResult ComputeCriticLoss(const CriticLossInput& input, absl::Span<float> td_error,
                                   const MutableCriticColumns& d_q) {
  CheckLengths(input, td_error, d_q);
  const size_t rows = input.reward.size();
  const double scale = 1.0 / static_cast<double>(rows);
  const double critic_scale = 1.0 / static_cast<double>(input.q.size());
  CriticLossResult sum;
  for (size_t i = 0; i < rows; ++i) {
    const double target =
        input.reward[i] + static_cast<double>(input.discount[i]) * input.next_value[i];
    const double weight = input.weight.empty() ? 1.0 : input.weight[i];
    double absolute = 0;
    for (size_t k = 0; k < input.q.size(); ++k) {
      const double q = input.q[k][i];
      const double td = q - target;
      d_q[k][i] = static_cast<float>(2 * weight * td * scale);
      sum.loss += weight * td * td;
      sum.mean_q += q;
      absolute += std::abs(td);
    }
    td_error[i] = static_cast<float>(absolute * critic_scale);
    sum.mean_target += target;
  }
  return {sum.loss * scale, sum.mean_q * scale * critic_scale, sum.mean_target * scale};
}

void MinOverCritics(const CriticColumns& q, absl::Span<const int> members,
                    absl::Span<float> value) {
  DING_CHECK(!members.empty()) << "no critic";
  for (size_t m = 0; m < members.size(); ++m) {
    DING_CHECK(members[m] >= 0 && static_cast<size_t>(members[m]) < q.size())
        << "critic " << members[m] << " of " << q.size();
    const absl::Span<const float> column = q[static_cast<size_t>(members[m])];
    DING_CHECK(column.size() == value.size()) << column.size() << " and " << value.size();
    for (size_t i = 0; i < value.size(); ++i) {
      value[i] = m == 0 ? column[i] : std::min(value[i], column[i]);
    }
  }
}

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
  CheckCritics(q, d_q, rows);
  DING_CHECK(d_log_prob.size() == rows) << d_log_prob.size() << " gradients, " << rows << " rows";
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

void SmoothTargetActions(absl::Span<const float> noise, double sigma, double clip,
                         absl::Span<float> action) {
  DING_CHECK(noise.size() == action.size()) << noise.size() << " and " << action.size();
  const auto scale = static_cast<float>(sigma);
  const auto bound = static_cast<float>(clip);
  for (size_t i = 0; i < action.size(); ++i) {
    const float change = std::clamp(scale * noise[i], -bound, bound);
    action[i] = std::clamp(action[i] + change, -1.0f, 1.0f);
  }
}

double ComputeDeterministicActorLoss(absl::Span<const float> q, absl::Span<float> d_q,
                                     double lambda) {
  DING_CHECK(!q.empty() && q.size() == d_q.size()) << q.size() << " and " << d_q.size();
  const double scale = lambda / static_cast<double>(q.size());
  std::fill(d_q.begin(), d_q.end(), static_cast<float>(-scale));
  double sum = 0;
  for (const float value : q) sum += value;
  return -sum * scale;
}

double MeanAbsolute(absl::Span<const float> q) {
  DING_CHECK(!q.empty()) << "no rows";
  double sum = 0;
  for (const float value : q) sum += std::abs(value);
  return sum / static_cast<double>(q.size());
}

double ValueWeight(double alpha, double mean_absolute_q) {
  constexpr double kLeast = 1e-6;
  return alpha / (mean_absolute_q < kLeast ? kLeast : mean_absolute_q);  // NaN stays
}

double AddCloningLoss(absl::Span<const float> action, absl::Span<const float> data,
                      absl::Span<float> d_action) {
  DING_CHECK(!action.empty() && data.size() == action.size() && d_action.size() == action.size())
      << action.size() << ", " << data.size() << " and " << d_action.size();
  const double scale = 1.0 / static_cast<double>(action.size());
  double sum = 0;
  for (size_t i = 0; i < action.size(); ++i) {
    const double error = double{action[i]} - double{data[i]};
    sum += error * error;
    d_action[i] += static_cast<float>(2 * scale * error);
  }
  return sum * scale;
}

ExpectileLossResult ComputeExpectileLoss(absl::Span<const float> q, absl::Span<const float> v,
                                         double tau, absl::Span<float> d_v) {
  DING_CHECK(!q.empty() && v.size() == q.size() && d_v.size() == q.size())
      << q.size() << ", " << v.size() << " and " << d_v.size() << " rows";
  const double scale = 1.0 / static_cast<double>(q.size());
  double sum = 0;
  double sum_value = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    const double u = double{q[i]} - double{v[i]};
    const double side = u < 0 ? 1 - tau : tau;
    sum += side * u * u;
    sum_value += v[i];
    d_v[i] = static_cast<float>(-2 * scale * side * u);
  }
  return {sum * scale, sum_value * scale};
}

double ComputeAdvantageWeights(absl::Span<const float> q, absl::Span<const float> v, double beta,
                               absl::Span<float> weight) {
  DING_CHECK(!q.empty() && v.size() == q.size() && weight.size() == q.size())
      << q.size() << ", " << v.size() << " and " << weight.size() << " rows";
  double sum = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    const double w = std::exp(beta * (double{q[i]} - double{v[i]}));
    weight[i] = static_cast<float>(w > kMaxWeight ? kMaxWeight : w);  // NaN stays
    sum += weight[i];
  }
  return sum / static_cast<double>(q.size());
}

double ComputeWeightedLikelihoodLoss(const WeightedLikelihoodInput& input, absl::Span<float> d_mean,
                                     absl::Span<float> d_log_std) {
  const size_t rows = input.weight.size();
  const size_t width = input.log_std.size();
  DING_CHECK(rows > 0 && width > 0 && input.action.size() == rows * width &&
             input.mean.size() == rows * width && d_mean.size() == rows * width &&
             d_log_std.size() == width)
      << rows << " rows of " << width << " elements, " << input.action.size() << " actions, "
      << input.mean.size() << " means, " << d_mean.size() << " and " << d_log_std.size()
      << " gradients";
  const double scale = 1.0 / static_cast<double>(rows);
  double sum = 0;
  for (size_t j = 0; j < width; ++j) {
    const double log_std = input.log_std[j];
    const double precision = std::exp(-log_std);
    double slope = 0;
    for (size_t i = 0; i < rows; ++i) {
      const double w = input.weight[i];
      const size_t at = i * width + j;
      const double z = (double{input.action[at]} - double{input.mean[at]}) * precision;
      sum += w * (z * z / 2 + log_std + kHalfLogTwoPi);
      slope -= w * (z * z - 1);
      d_mean[at] = static_cast<float>(-scale * w * z * precision);
    }
    d_log_std[j] = static_cast<float>(scale * slope);
  }
  return sum * scale;
}

}  // namespace ding
