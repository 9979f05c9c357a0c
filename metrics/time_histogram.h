// How often something took how long, counted in buckets of fixed bounds.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_METRICS_TIME_HISTOGRAM_H_
#define DING_WORKER_METRICS_TIME_HISTOGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace ding

#endif  // DING_WORKER_METRICS_TIME_HISTOGRAM_H_
