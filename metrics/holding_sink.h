// Passes measurements on to another sink, at once or, while it holds them, later in one piece.
//
// Components that measure at the same time on several threads would write their records in an order that differs
// from run to run. If all but one of the threads have a HoldingSink, which is released when all have come to the same
// point, then the order is the same each time.
//
// Ownership: shares the other sink.
// Threads:   thread-safe. Release() must not overlap with measurements.
//
// Example:
//   learner_metrics->Hold();
//   ... the learner works on a second thread, the collector on this one ...
//   second->Wait();
//   learner_metrics->Release();
#ifndef DING_WORKER_METRICS_HOLDING_SINK_H_
#define DING_WORKER_METRICS_HOLDING_SINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

class HoldingSink : public MetricSink {
 public:
  explicit HoldingSink(std::shared_ptr<MetricSink> sink) : sink_(std::move(sink)) {}

  // From now on keeps what is measured.
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);
  // Passes on what was kept, in the order in which it was measured, and from now on everything at once.
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

  void Scalar(absl::string_view tag, int64_t step, double value) override;
  void Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) override;
  void Text(absl::string_view tag, int64_t step, absl::string_view text) override;
  void EncodedImage(absl::string_view tag, int64_t step, int width, int height,
                    absl::string_view file) override;
  // A program calls these and Flush(), not a component: they are passed on at once.
  void BeginRun(const RunDescription& run) override { sink_->BeginRun(run); }
  void EndRun(RunEnd end, int64_t step, const RunResults& results) override {
    sink_->EndRun(end, step, results);
  }
  MetricAxis axis() const override { return sink_->axis(); }
  absl::Status Flush() override { return sink_->Flush(); }

 private:
  using Record = std::function<void(MetricSink*)>;

  // Whether the caller must keep its record.
  bool holds() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Keep(Record record) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<MetricSink> sink_;
  mutable Mutex mutex_;
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Record> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_HOLDING_SINK_H_
