#include "ding_worker/policy/rate_average.h"

#include <cstddef>

#include "ding_worker/base/status_macros.h"

namespace ding {

absl::Span<float> RateAverage::Read(absl::Span<Adam* const> optimizers) {
  rates_.clear();
  for (const Adam* const adam : optimizers) {
    if (adam != nullptr) rates_.push_back(static_cast<float>(adam->lr()));
  }
  return absl::MakeSpan(rates_);
}

absl::Status RateAverage::Apply(absl::Span<Adam* const> optimizers) const {
  size_t at = 0;
  for (Adam* const adam : optimizers) {
    if (adam != nullptr) DING_RETURN_IF_ERROR(adam->set_lr(rates_[at++]));
  }
  return absl::OkStatus();
}

}  // namespace ding
