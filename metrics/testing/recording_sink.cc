#include "ding_worker/metrics/testing/recording_sink.h"

#include <set>
#include <utility>

namespace ding {

void RecordingSink::Scalar(absl::string_view tag, int64_t step, double value) {
  MutexLock lock(&mutex_);
  scalars_.push_back({std::string(tag), step, value});
}

void RecordingSink::Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) {
  if (values.empty()) return;
  MutexLock lock(&mutex_);
  histograms_.push_back({std::string(tag), step, {values.begin(), values.end()}});
}

void RecordingSink::Text(absl::string_view tag, int64_t step, absl::string_view text) {
  MutexLock lock(&mutex_);
  texts_.push_back({std::string(tag), step, std::string(text)});
}

void RecordingSink::EncodedImage(absl::string_view tag, int64_t step, int width, int height,
                                 absl::string_view file) {
  MutexLock lock(&mutex_);
  images_.push_back({std::string(tag), step, width, height, std::string(file)});
}

absl::Status RecordingSink::Flush() {
  MutexLock lock(&mutex_);
  ++flush_count_;
  return std::exchange(flush_status_, absl::OkStatus());
}

void RecordingSink::set_flush_status(absl::Status status) {
  MutexLock lock(&mutex_);
  flush_status_ = std::move(status);
}

std::vector<RecordingSink::ScalarRecord> RecordingSink::scalars() const {
  MutexLock lock(&mutex_);
  return scalars_;
}

std::vector<RecordingSink::HistogramRecord> RecordingSink::histograms() const {
  MutexLock lock(&mutex_);
  return histograms_;
}

std::vector<RecordingSink::TextRecord> RecordingSink::texts() const {
  MutexLock lock(&mutex_);
  return texts_;
}

std::vector<RecordingSink::ImageRecord> RecordingSink::images() const {
  MutexLock lock(&mutex_);
  return images_;
}

std::vector<double> RecordingSink::ValuesOf(absl::string_view tag) const {
  MutexLock lock(&mutex_);
  std::vector<double> values;
  for (const ScalarRecord& record : scalars_) {
    if (record.tag == tag) values.push_back(record.value);
  }
  return values;
}

std::vector<std::string> RecordingSink::ScalarTags() const {
  MutexLock lock(&mutex_);
  std::set<std::string> tags;
  for (const ScalarRecord& record : scalars_) tags.insert(record.tag);
  return {tags.begin(), tags.end()};
}

int RecordingSink::flush_count() const {
  MutexLock lock(&mutex_);
  return flush_count_;
}

}  // namespace ding
