// Lets a limited number of events per period pass and counts the others. For log lines that any
// peer can cause.
//
// Threads: thread-safe.
//
// Example:
//   const std::optional<int64_t> left_out = bound.Pass();
//   if (left_out.has_value()) DING_LOG(WARNING) << line << " (" << *left_out << " others before)";
#ifndef DING_WORKER_INTERACTION_TRANSPORT_RATE_BOUND_H_
#define DING_WORKER_INTERACTION_TRANSPORT_RATE_BOUND_H_

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"

namespace ding {

// Lets at most `most` events through in each period. A period begins with the first event after the
// end of the one before. Does not own the clock.
class RateBound {
 public:
  RateBound(int most, absl::Duration period, const Clock* clock)
      : most_(most), period_(period), clock_(clock) {}

  // Called for each event. If the event may pass, returns how many events were held back since the
  // last event that passed. If the event is held back, returns nullopt.
  std::optional<int64_t> Pass() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const int most_;
  const absl::Duration period_;
  const Clock* const clock_;
  Mutex mutex_;
  std::optional<Timer> period_timer_ ABSL_GUARDED_BY(mutex_);
  int passed_ ABSL_GUARDED_BY(mutex_) = 0;  // in this period
  int64_t held_back_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TRANSPORT_RATE_BOUND_H_
