// The distribution of some values: moments, and counts in buckets of equal width. What the sinks
// write for MetricSink::Histogram.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_METRICS_HISTOGRAM_H_
#define DING_WORKER_METRICS_HISTOGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace ding {

struct HistogramSummary {
  // NaN and infinite values. They count here and nowhere else.
  int64_t non_finite_count = 0;

  // Of the finite values; all 0 when there are none.
  int64_t count = 0;
  double min = 0;
  double max = 0;
  double sum = 0;
  double sum_squares = 0;

  // Bucket i holds the values in (limits[i - 1], limits[i]]; the first begins with `min` itself,
  // the last ends with `max`. One bucket when all values are equal, none when there are no finite
  // values.
  std::vector<double> limits;
  std::vector<int64_t> counts;

  double Mean() const;
  // Of the population: divided by `count`.
  double StandardDeviation() const;
};

// `bucket_count` >= 1; 30 is what TensorBoard draws.
HistogramSummary Summarize(absl::Span<const float> values, int bucket_count = 30);

}  // namespace ding

#endif  // DING_WORKER_METRICS_HISTOGRAM_H_
