#include "ding_worker/metrics/file_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"

namespace ding {
namespace {

constexpr int kMaxBuckets = 1 << 20;
constexpr size_t kWriteBytes = size_t{64} << 10;
constexpr size_t kBufferLimitBytes = size_t{8} << 20;

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

// Returns the size of the file up to and including its last `record_end`; -1, with errno, if it
// cannot be read.
int64_t WholeRecordsBytes(int fd, int64_t size_bytes, char record_end) {
  char block[4096];
  while (size_bytes > 0) {
    const int64_t begin = std::max<int64_t>(0, size_bytes - static_cast<int64_t>(sizeof(block)));
    const ssize_t count = pread(fd, block, static_cast<size_t>(size_bytes - begin), begin);
    if (count < 0) return -1;
    const size_t last = absl::string_view(block, static_cast<size_t>(count)).rfind(record_end);
    if (last != absl::string_view::npos) return begin + static_cast<int64_t>(last) + 1;
    size_bytes = begin;
  }
  return 0;
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

namespace internal_metrics {

absl::StatusOr<std::unique_ptr<AppendFile>> AppendFile::Open(const std::string& path,
                                                             const Options& options) {
  // A FIFO that nobody reads would hold the run: its writes fail instead.
  const int fd =
      open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open '", path, "' for writing"));
  struct stat info;
  int64_t size_bytes = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : 0;
  // From here on `file` closes the descriptor.
  std::unique_ptr<AppendFile> file(new AppendFile(fd, path, size_bytes, options));
  if (options.record_end != '\0' && size_bytes > 0) {
    const int64_t whole_bytes = WholeRecordsBytes(fd, size_bytes, options.record_end);
    if (whole_bytes < 0 || (whole_bytes < size_bytes && ftruncate(fd, whole_bytes) != 0)) {
      return ErrnoStatus(errno,
                         absl::StrCat("cannot cut off the torn last record of '", path, "'"));
    }
    file->size_bytes_ = whole_bytes;
  }
  return file;
}

AppendFile::AppendFile(int fd, const std::string& path, int64_t size_bytes, const Options& options)
    : fd_(fd),
      path_(path),
      options_(options),
      size_bytes_(size_bytes),
      last_write_nanos_(options.clock->MonotonicNanos()) {}

AppendFile::~AppendFile() {
  WriteBuffer();
  close(fd_);
}

void AppendFile::Append(absl::string_view record) {
  if (buffer_.size() + record.size() > kBufferLimitBytes && failing_) {
    ++lost_records_;
  } else {
    buffer_.append(record.data(), record.size());
  }
  const absl::Duration since_write =
      absl::Nanoseconds(options_.clock->MonotonicNanos() - last_write_nanos_);
  // After a failed write, wait for the interval before the next attempt.
  if (since_write >= options_.flush_interval || (buffer_.size() >= kWriteBytes && !failing_)) {
    WriteBuffer();
  }
}

absl::Status AppendFile::Flush() {
  WriteBuffer();
  if (lost_records_ > 0) {
    error_.Update(absl::ResourceExhaustedError(
        absl::StrCat("'", path_, "' could not be written, and its buffer is full")));
    error_ = absl::Status(
        error_.code(), absl::StrCat(error_.message(), "; ", lost_records_, " records were lost"));
    lost_records_ = 0;
  }
  return std::exchange(error_, absl::OkStatus());
}

void AppendFile::WriteBuffer() {
  last_write_nanos_ = options_.clock->MonotonicNanos();
  size_t written = 0;
  while (written < buffer_.size()) {
    const ssize_t count = write(fd_, buffer_.data() + written, buffer_.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      error_.Update(ErrnoStatus(errno, absl::StrCat("cannot write '", path_, "'")));
      failing_ = true;
      UndoPartialWrite(static_cast<int64_t>(written));
      return;
    }
    written += static_cast<size_t>(count);
  }
  size_bytes_ += static_cast<int64_t>(written);
  buffer_.clear();
  failing_ = false;
  error_ = absl::OkStatus();
}

void AppendFile::UndoPartialWrite(int64_t written_bytes) {
  if (written_bytes == 0 || ftruncate(fd_, size_bytes_) == 0) return;
  // The written part stays; the next attempt writes the rest of a torn record.
  size_bytes_ += written_bytes;
  buffer_.erase(0, static_cast<size_t>(written_bytes));
}

}  // namespace internal_metrics
}  // namespace ding
