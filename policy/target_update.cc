#include "ding_worker/policy/target_update.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"

namespace ding {

absl::Status Validate(const TargetUpdate& update) {
  const bool hard = update.freq >= 1 && update.theta == 0;
  const bool soft = update.freq == 0 && update.theta > 0 && update.theta <= 1;
  if (hard || soft) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "target update: freq is ", update.freq, " and theta is ", update.theta,
      ", expected either freq of at least 1 or theta in (0, 1], and the other one not set"));
}

void UpdateTarget(const TargetUpdate& update, int64_t train_iter, absl::Span<const float> online,
                  absl::Span<float> target) {
  DING_CHECK(online.size() == target.size()) << online.size() << " and " << target.size();
  if (update.freq > 0) {
    if (train_iter % update.freq == 0) std::copy(online.begin(), online.end(), target.begin());
    return;
  }
  const float theta = static_cast<float>(update.theta);
  const float* from = online.data();
  float* to = target.data();
  for (size_t i = 0; i < target.size(); ++i) to[i] = (1 - theta) * to[i] + theta * from[i];
}

}  // namespace ding
