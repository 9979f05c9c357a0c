#include "ding_worker/interaction/transport/rate_bound.h"

#include <utility>

namespace ding {

std::optional<int64_t> RateBound::Pass() {
  MutexLock lock(&mutex_);
  if (!period_timer_.has_value() || period_timer_->Elapsed() >= period_) {
    period_timer_ = Timer(clock_);
    passed_ = 0;
  }
  if (passed_ == most_) {
    ++held_back_;
    return std::nullopt;
  }
  ++passed_;
  return std::exchange(held_back_, 0);
}

}  // namespace ding
