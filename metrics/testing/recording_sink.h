// A MetricSink that records all calls, for tests of components that measure.
//
// Threads: thread-safe; the queries return copies.
#ifndef DING_WORKER_METRICS_TESTING_RECORDING_SINK_H_
#define DING_WORKER_METRICS_TESTING_RECORDING_SINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

class RecordingSink : public MetricSink {
 public:
  struct ScalarRecord {
    std::string tag;
    int64_t step;
    double value;
  };
  struct HistogramRecord {
    std::string tag;
    int64_t step;
    std::vector<float> values;
  };
  struct TextRecord {
    std::string tag;
    int64_t step;
    std::string text;
  };

  struct ImageRecord {
    std::string tag;
    int64_t step;
    int width;
    int height;
    std::string file;
  };

  void Scalar(absl::string_view tag, int64_t step, double value) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Text(absl::string_view tag, int64_t step, absl::string_view text) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void EncodedImage(absl::string_view tag, int64_t step, int width, int height,
                    absl::string_view file) override ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the status of set_flush_status() once, then OK.
  absl::Status Flush() override ABSL_LOCKS_EXCLUDED(mutex_);

  void set_flush_status(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);

  // The records are in the order of the calls.
  std::vector<ScalarRecord> scalars() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<HistogramRecord> histograms() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<TextRecord> texts() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<ImageRecord> images() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the values of a scalar tag, in the order of the calls.
  std::vector<double> ValuesOf(absl::string_view tag) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the scalar tags, sorted, each once.
  std::vector<std::string> ScalarTags() const ABSL_LOCKS_EXCLUDED(mutex_);
  int flush_count() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  std::vector<ScalarRecord> scalars_ ABSL_GUARDED_BY(mutex_);
  std::vector<HistogramRecord> histograms_ ABSL_GUARDED_BY(mutex_);
  std::vector<TextRecord> texts_ ABSL_GUARDED_BY(mutex_);
  std::vector<ImageRecord> images_ ABSL_GUARDED_BY(mutex_);
  absl::Status flush_status_ ABSL_GUARDED_BY(mutex_);
  int flush_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_TESTING_RECORDING_SINK_H_
