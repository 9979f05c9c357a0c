// Clock, the source of time; Timer, which measures a duration; and Deadline, the moment at which a
// wait ends. Code that measures time or writes time stamps takes a Clock, so that a test can set
// the time.
//
// Threads: thread-safe.
//
// Example:
//   const Deadline deadline = Deadline::After(timeout);
//   while (!done_ && !deadline.Passed()) changed_.WaitUntil(&mutex_, deadline);
#ifndef DING_WORKER_BASE_CLOCK_H_
#define DING_WORKER_BASE_CLOCK_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/time/time.h"
#include "ding_worker/base/version.h"

namespace ding {

class Clock {
 public:
  virtual ~Clock() = default;

  // The wall-clock time, for time stamps that people read. It may jump.
  virtual absl::Time Now() const = 0;
  // Nanoseconds since some fixed moment, for durations. Never decreases.
  virtual int64_t MonotonicNanos() const = 0;

  // The machine's clock. It is never destroyed; the caller does not own it.
  static Clock* Real();
};

// Measures the time since it was constructed. Every timer has its own start, so that nested and
// concurrent timers are independent. Does not own the clock.
class Timer {
 public:
  explicit Timer(const Clock* clock) : clock_(clock), start_(clock->MonotonicNanos()) {}
  absl::Duration Elapsed() const { return absl::Nanoseconds(clock_->MonotonicNanos() - start_); }
  double Seconds() const { return 1e-9 * static_cast<double>(clock_->MonotonicNanos() - start_); }

 private:
  const Clock* clock_;
  int64_t start_;
};

// A clock that moves only by Advance(). For tests and for runs that must not depend on time.
class SimulatedClock : public Clock {
 public:
  explicit SimulatedClock(absl::Time start = absl::UnixEpoch()) : start_(start) {}
  absl::Time Now() const override { return start_ + absl::Nanoseconds(nanos_.load()); }
  int64_t MonotonicNanos() const override { return nanos_.load(); }
  void Advance(absl::Duration by) { nanos_.fetch_add(absl::ToInt64Nanoseconds(by)); }

 private:
  const absl::Time start_;
  std::atomic<int64_t> nanos_{0};
};

// The moment at which a wait ends, by the monotonic clock. Changes of the system clock do not make
// a wait shorter or longer. Therefore waits take a Deadline, never an absl::Time.
// Immutable.
class Deadline {
 public:
  // Returns the moment `timeout` from now, but at most a year from now. With a timeout of zero or
  // less it has passed already.
  static Deadline After(absl::Duration timeout) {
    // Very long timeouts would overflow the clock's counter.
    const absl::Duration bounded = std::min(timeout, absl::Hours(24 * 365));
    return Deadline(SteadyClock::now() +
                    absl::ToChronoNanoseconds(std::max(bounded, absl::ZeroDuration())));
  }

  // A year from now, longer than any wait.
  static Deadline Never() { return After(absl::InfiniteDuration()); }

  bool Passed() const { return SteadyClock::now() >= time_; }
  // The time until the deadline passes; never negative.
  absl::Duration Left() const {
    return std::max(absl::FromChrono(time_ - SteadyClock::now()), absl::ZeroDuration());
  }

  // Whether this deadline passes before the other.
  bool operator<(const Deadline& other) const { return time_ < other.time_; }

 private:
  using SteadyClock = std::chrono::steady_clock;

  explicit Deadline(SteadyClock::time_point time) : time_(time) {}

  SteadyClock::time_point time_;
};

}  // namespace ding

#endif  // DING_WORKER_BASE_CLOCK_H_
