#include "ding_worker/policy/loss/iql_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

constexpr double kMaxWeight = 100;
constexpr double kHalfLogTwoPi = 0.91893853320467274178;

}  // namespace

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
