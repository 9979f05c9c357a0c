#include "ding_worker/policy/loss/td3_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ding_worker/base/check.h"

namespace ding {

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

}  // namespace ding
