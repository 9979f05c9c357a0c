// The source of time. Code that waits or measures takes a Clock, so that a test can decide what time
// it is.
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_CLOCK_H_
#define DING_WORKER_BASE_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "ding_worker/base/language.h"

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

}  // namespace ding

#endif  // DING_WORKER_BASE_CLOCK_H_
