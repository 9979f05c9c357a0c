#include "ding_worker/policy/loss/td3_loss.h"

#include <algorithm>
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

double ComputeDeterministicActorLoss(absl::Span<const float> q, absl::Span<float> d_q) {
  DING_CHECK(!q.empty() && q.size() == d_q.size()) << q.size() << " and " << d_q.size();
  const double scale = 1.0 / static_cast<double>(q.size());
  std::fill(d_q.begin(), d_q.end(), static_cast<float>(-scale));
  double sum = 0;
  for (const float value : q) sum += value;
  return -sum * scale;
}

}  // namespace ding
