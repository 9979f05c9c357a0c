// When a wait ends. It goes by the clock that never jumps: a system clock that is set by an hour
// neither ends waits nor prolongs them. So waits take a Deadline, never an absl::Time.
//
// Threads: thread-safe (immutable).
//
// Example:
//   const Deadline deadline = Deadline::After(timeout);
//   while (!done_ && !deadline.Passed()) changed_.WaitUntil(&mutex_, deadline);
#ifndef DING_WORKER_BASE_DEADLINE_H_
#define DING_WORKER_BASE_DEADLINE_H_

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"

namespace ding {

class Deadline {
 public:
  // So long after now. An infinite or very long timeout never passes, one of zero or less has passed.
  static Deadline After(absl::Duration timeout) {
    // Years would overflow the clock's counter.
    const absl::Duration bounded = std::min(timeout, absl::Hours(24 * 365));
    return Deadline(Clock::now() +
                    absl::ToChronoNanoseconds(std::max(bounded, absl::ZeroDuration())));
  }

  static Deadline Never() { return After(absl::InfiniteDuration()); }

  bool Passed() const { return Clock::now() >= time_; }
  // At least zero.
  absl::Duration Left() const {
    return std::max(absl::FromChrono(time_ - Clock::now()), absl::ZeroDuration());
  }

  // Whether this one passes before the other.
  bool operator<(const Deadline& other) const { return time_ < other.time_; }

 private:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(Clock::time_point time) : time_(time) {}

  Clock::time_point time_;
};

}  // namespace ding

#endif  // DING_WORKER_BASE_DEADLINE_H_
