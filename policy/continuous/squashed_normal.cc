#include "ding_worker/policy/continuous/squashed_normal.h"

#include <algorithm>
#include <cmath>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

constexpr float kLogTwo = 0.69314718f;
constexpr double kHalfLogTwoPi = 0.9189385332046727;

// tanh(u), from e = exp(-2 |u|).
float TanhFrom(float e, float u) { return std::copysign((1 - e) / (1 + e), u); }

}  // namespace

void SquashMean(absl::Span<const float> mean, absl::Span<float> action) {
  DING_CHECK(mean.size() == action.size()) << mean.size() << " and " << action.size();
  for (size_t i = 0; i < mean.size(); ++i) {
    action[i] = TanhFrom(std::exp(-2 * std::abs(mean[i])), mean[i]);
  }
}

void SquashMeanBackward(absl::Span<const float> action, absl::Span<const float> d_action,
                        absl::Span<float> d_mean) {
  DING_CHECK(action.size() == d_action.size() && action.size() == d_mean.size())
      << action.size() << ", " << d_action.size() << " and " << d_mean.size();
  for (size_t i = 0; i < action.size(); ++i) {
    d_mean[i] = d_action[i] * (1 - action[i] * action[i]);
  }
}

void SquashedNormal::Sample(absl::Span<const float> mean, absl::Span<const float> log_std,
                            absl::Span<const float> noise, absl::Span<float> action,
                            absl::Span<float> log_prob) {
  const size_t size = mean.size();
  DING_CHECK(log_std.size() == size && noise.size() == size && action.size() == size &&
             (log_prob.empty() || log_prob.size() * width_ == size))
      << size << ", " << log_std.size() << ", " << noise.size() << ", " << action.size() << " and "
      << log_prob.size() << " for rows of " << width_;
  std_.resize(size);
  for (size_t begin = 0; begin < size; begin += width_) {
    double sum = 0;
    for (size_t at = begin; at < begin + width_; ++at) {
      const float bounded = std::clamp(log_std[at], kMinLogStd, kMaxLogStd);
      std_[at] = std::exp(bounded);
      const float u = mean[at] + std_[at] * noise[at];
      const float e = std::exp(-2 * std::abs(u));
      action[at] = TanhFrom(e, u);
      if (log_prob.empty()) continue;
      const float log_slope = 2 * (kLogTwo - std::abs(u) - std::log(1 + e));
      sum -= 0.5 * noise[at] * noise[at] + bounded + kHalfLogTwoPi + log_slope;
    }
    if (!log_prob.empty()) log_prob[begin / width_] = static_cast<float>(sum);
  }
  log_std_ = log_std;
  noise_ = noise;
  action_ = action;
}

void SquashedNormal::Backward(absl::Span<const float> d_action, absl::Span<const float> d_log_prob,
                              absl::Span<float> d_mean, absl::Span<float> d_log_std) const {
  const size_t size = action_.size();
  DING_CHECK(d_action.size() == size && d_log_prob.size() * width_ == size &&
             d_mean.size() == size && d_log_std.size() == size)
      << d_action.size() << ", " << d_log_prob.size() << ", " << d_mean.size() << " and "
      << d_log_std.size() << " for " << size << " elements in rows of " << width_;
  for (size_t row = 0; row < d_log_prob.size(); ++row) {
    for (size_t at = row * width_; at < (row + 1) * width_; ++at) {
      const float a = action_[at];
      const float d_u = d_action[at] * (1 - a * a) + 2 * d_log_prob[row] * a;
      d_mean[at] = d_u;
      const bool clipped = log_std_[at] < kMinLogStd || log_std_[at] > kMaxLogStd;
      d_log_std[at] = clipped ? 0 : d_u * std_[at] * noise_[at] - d_log_prob[row];
    }
  }
}

}  // namespace ding
