#include "ding_worker/metrics/sink.h"

#include <string>
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

void HoldingSink::Hold() {
  MutexLock lock(&mutex_);
  holds_ = true;
}

void HoldingSink::Release() {
  std::vector<Record> kept;
  {
    MutexLock lock(&mutex_);
    kept.swap(kept_);
    holds_ = false;
  }
  for (const Record& record : kept) record(sink_.get());
}

bool HoldingSink::holds() const {
  MutexLock lock(&mutex_);
  return holds_;
}

void HoldingSink::Keep(Record record) {
  MutexLock lock(&mutex_);
  kept_.push_back(std::move(record));
}

void HoldingSink::Scalar(absl::string_view tag, int64_t step, double value) {
  if (!holds()) return sink_->Scalar(tag, step, value);
  Keep([tag = std::string(tag), step, value](MetricSink* sink) { sink->Scalar(tag, step, value); });
}

void HoldingSink::Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) {
  if (!holds()) return sink_->Histogram(tag, step, values);
  Keep([tag = std::string(tag), step, values = std::vector<float>(values.begin(), values.end())](
           MetricSink* sink) { sink->Histogram(tag, step, values); });
}

void HoldingSink::Text(absl::string_view tag, int64_t step, absl::string_view text) {
  if (!holds()) return sink_->Text(tag, step, text);
  Keep([tag = std::string(tag), step, text = std::string(text)](MetricSink* sink) {
    sink->Text(tag, step, text);
  });
}

void HoldingSink::EncodedImage(absl::string_view tag, int64_t step, int width, int height,
                               absl::string_view file) {
  if (!holds()) return sink_->EncodedImage(tag, step, width, height, file);
  Keep([tag = std::string(tag), step, width, height, file = std::string(file)](MetricSink* sink) {
    sink->EncodedImage(tag, step, width, height, file);
  });
}

}  // namespace ding
