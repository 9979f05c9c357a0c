// How often something took how long, counted in buckets of fixed bounds.
//
// Threads: thread-compatible; StageTimer is thread-safe.
#ifndef DING_WORKER_METRICS_TIME_HISTOGRAM_H_
#define DING_WORKER_METRICS_TIME_HISTOGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"

namespace ding {

class TimeHistogram {
 public:
  // The longest time of each bucket, in nanoseconds; another bucket has what takes longer.
  static constexpr std::array<int64_t, 15> kBounds = {
      10'000,        30'000,        100'000,        300'000,        1'000'000,
      3'000'000,     10'000'000,    30'000'000,     100'000'000,    300'000'000,
      1'000'000'000, 3'000'000'000, 10'000'000'000, 30'000'000'000, 100'000'000'000};

  void Add(int64_t nanos) {
    size_t bucket = 0;
    while (bucket < kBounds.size() && nanos > kBounds[bucket]) ++bucket;
    ++counts_[bucket];
    nanos_ += nanos;
  }

  int64_t nanos() const { return nanos_; }  // of all together
  // How often, in each bucket.
  const std::array<int64_t, kBounds.size() + 1>& counts() const { return counts_; }

 private:
  std::array<int64_t, kBounds.size() + 1> counts_ = {};
  int64_t nanos_ = 0;
};

// The stages of a run, such as "collect" and "learn".
using StageTimes = std::vector<std::pair<std::string, TimeHistogram>>;

// Measures stages, which are numbered from 0 in the order of their names. Stages may overlap; then
// each counts in full.
//
// Example:
//   StageTimer timer({"collect", "learn"}, Clock::Real());
//   {
//     const StageTimer::Scope learning(&timer, 1);
//     ... learn ...
//   }
class StageTimer {
 public:
  // Adds the time that it lives to a stage.
  class Scope {
   public:
    Scope(StageTimer* timer, int stage) : timer_(*timer), stage_(stage), begun_(timer->Now()) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { timer_.AddSince(stage_, begun_); }

   private:
    StageTimer& timer_;
    const int stage_;
    const int64_t begun_;
  };

  // The clock must outlive the timer.
  StageTimer(const std::vector<std::string>& stages, const Clock* clock) : clock_(clock) {
    for (const std::string& stage : stages) times_.emplace_back(stage, TimeHistogram());
  }

  int64_t Now() const { return clock_->MonotonicNanos(); }
  void Add(int stage, int64_t nanos) {
    MutexLock lock(&mutex_);
    times_[static_cast<size_t>(stage)].second.Add(nanos);
  }
  // For a pass of the stage that began at Now() == `begun`.
  void AddSince(int stage, int64_t begun) { Add(stage, Now() - begun); }
  // How long each pass of each stage took so far.
  StageTimes times() const {
    MutexLock lock(&mutex_);
    return times_;
  }

 private:
  const Clock* const clock_;
  mutable Mutex mutex_;
  StageTimes times_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_TIME_HISTOGRAM_H_
