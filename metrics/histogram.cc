#include "ding_worker/metrics/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

constexpr int kMaxBuckets = 1 << 20;

void AddMoments(absl::Span<const float> values, HistogramSummary* summary) {
  for (const double value : values) {
    if (!std::isfinite(value)) {
      ++summary->non_finite_count;
      continue;
    }
    summary->min = summary->count == 0 ? value : std::min(summary->min, value);
    summary->max = summary->count == 0 ? value : std::max(summary->max, value);
    ++summary->count;
    summary->sum += value;
    summary->sum_squares += value * value;
  }
}

void AddBuckets(absl::Span<const float> values, int bucket_count, HistogramSummary* summary) {
  if (summary->count == 0) return;
  const double range = summary->max - summary->min;
  const int buckets = range > 0 ? bucket_count : 1;
  for (int i = 1; i < buckets; ++i) {
    summary->limits.push_back(summary->min + range * i / buckets);
  }
  summary->limits.push_back(summary->max);
  summary->counts.resize(summary->limits.size());
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    const auto limit = std::lower_bound(summary->limits.begin(), summary->limits.end(), value);
    ++summary->counts[static_cast<size_t>(limit - summary->limits.begin())];
  }
}

}  // namespace

double HistogramSummary::Mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }

double HistogramSummary::StandardDeviation() const {
  if (count == 0) return 0;
  const double mean = Mean();
  // Rounding can take the difference below zero.
  return std::sqrt(std::max(0.0, sum_squares / static_cast<double>(count) - mean * mean));
}

HistogramSummary Summarize(absl::Span<const float> values, int bucket_count) {
  DING_CHECK(bucket_count >= 1 && bucket_count <= kMaxBuckets) << bucket_count << " buckets";
  HistogramSummary summary;
  AddMoments(values, &summary);
  AddBuckets(values, bucket_count, &summary);
  return summary;
}

}  // namespace ding
