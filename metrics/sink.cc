#include "ding_worker/metrics/sink.h"

#include <utility>

#include "ding_worker/base/check.h"

namespace ding {

MultiSink::MultiSink(std::vector<std::shared_ptr<MetricSink>> sinks, MetricAxis axis)
    : sinks_(std::move(sinks)), axis_(axis) {
  for (const auto& sink : sinks_) DING_CHECK(sink != nullptr);
}

void MultiSink::Scalar(absl::string_view tag, int64_t step, double value) {
  for (const auto& sink : sinks_) sink->Scalar(tag, step, value);
}

void MultiSink::Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) {
  for (const auto& sink : sinks_) sink->Histogram(tag, step, values);
}

void MultiSink::Text(absl::string_view tag, int64_t step, absl::string_view text) {
  for (const auto& sink : sinks_) sink->Text(tag, step, text);
}

void MultiSink::EncodedImage(absl::string_view tag, int64_t step, int width, int height,
                             absl::string_view file) {
  for (const auto& sink : sinks_) sink->EncodedImage(tag, step, width, height, file);
}

void MultiSink::BeginRun(const RunDescription& run) {
  for (const auto& sink : sinks_) sink->BeginRun(run);
}

void MultiSink::EndRun(RunEnd end, int64_t step, const RunResults& results) {
  for (const auto& sink : sinks_) sink->EndRun(end, step, results);
}

absl::Status MultiSink::Flush() {
  absl::Status first;
  for (const auto& sink : sinks_) first.Update(sink->Flush());
  return first;
}

}  // namespace ding
