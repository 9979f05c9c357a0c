// The distribution of some values, as the sinks write it for MetricSink::Histogram(): moments, and
// counts in buckets of equal width.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_METRICS_HISTOGRAM_H_
#define DING_WORKER_METRICS_HISTOGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace ding {

struct HistogramSummary {
  // The number of NaN and infinite values, which no other member includes.
  int64_t non_finite_count = 0;

  // Statistics of the finite values; all 0 if there are none.
  int64_t count = 0;
  double min = 0;
  double max = 0;
  double sum = 0;
  double sum_squares = 0;

  // Bucket i counts the values in (limits[i - 1], limits[i]]. The first bucket also includes `min`; the
  // last one ends with `max`. There is one bucket if all values are equal and none without finite
  // values.
  std::vector<double> limits;
  std::vector<int64_t> counts;

  double Mean() const;
  // The standard deviation of the population (divided by `count`).
  double StandardDeviation() const;
};

// `bucket_count` is 1 to 2^20; TensorBoard draws 30.
HistogramSummary Summarize(absl::Span<const float> values, int bucket_count = 30);

}  // namespace ding

#endif  // DING_WORKER_METRICS_HISTOGRAM_H_
