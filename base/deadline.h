// The moment at which a wait ends, by the monotonic clock. If somebody sets the system clock by an hour,
// waits end neither earlier nor later. Therefore waits take a Deadline, never an absl::Time.
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
  // The moment `timeout` from now. A deadline after an infinite or very long timeout never passes; after
  // a timeout of zero or less it has passed already.
  static Deadline After(absl::Duration timeout) {
    // Very long timeouts would overflow the clock's counter.
    const absl::Duration bounded = std::min(timeout, absl::Hours(24 * 365));
    return Deadline(Clock::now() +
                    absl::ToChronoNanoseconds(std::max(bounded, absl::ZeroDuration())));
  }

  static Deadline Never() { return After(absl::InfiniteDuration()); }

  bool Passed() const { return Clock::now() >= time_; }
  // The time until it passes; never negative.
  absl::Duration Left() const {
    return std::max(absl::FromChrono(time_ - Clock::now()), absl::ZeroDuration());
  }

  // Whether this deadline passes before the other.
  bool operator<(const Deadline& other) const { return time_ < other.time_; }

 private:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(Clock::time_point time) : time_(time) {}

  Clock::time_point time_;
};

}  // namespace ding

#endif  // DING_WORKER_BASE_DEADLINE_H_
