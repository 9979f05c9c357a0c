// The common part of sinks that write files: the summary of a histogram; and AppendFile, which is
// private to this package.
//
// Threads: an AppendFile is thread-compatible; Summarize() is a pure function.
#ifndef DING_WORKER_METRICS_FILE_SINK_H_
#define DING_WORKER_METRICS_FILE_SINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"

namespace ding {

// The distribution of some values, as the sinks write it for MetricSink::Histogram(): moments, and
// counts in buckets of equal width.
struct HistogramSummary {
  // The number of NaN and infinite values, which no other member includes.
  int64_t non_finite_count = 0;

  // Statistics of the finite values; all 0 if there are none.
  int64_t count = 0;
  double min = 0;
  double max = 0;
  double sum = 0;
  double sum_squares = 0;

  // Bucket i counts the values in (limits[i - 1], limits[i]]. The first bucket also includes `min`;
  // the last one ends with `max`. There is one bucket if all values are equal and none without
  // finite values.
  std::vector<double> limits;
  std::vector<int64_t> counts;

  double Mean() const;
  // The standard deviation of the population (divided by `count`).
  double StandardDeviation() const;
};

// `bucket_count` is 1 to 2^20; TensorBoard draws 30.
HistogramSummary Summarize(absl::Span<const float> values, int bucket_count = 30);

namespace internal_metrics {

// A file to which whole records (lines, framed events) are appended through a buffer.
//
// On a full disk no record is lost as long as the buffer (8 MiB) has room: a failed write removes
// the partly written record and keeps the buffer for the next attempt, so that the file always has
// whole records. While the buffer is full, new records are lost and counted in the next error.
//
// Ownership: the file is open from Open() to destruction; the clock must outlive it.
// Errors: errors name the path. A failed write is not an error if its records were written later.
class AppendFile {
 public:
  struct Options {
    const Clock* clock = Clock::Real();
    // Append() writes the buffer when this time has passed since the last write. 0: always.
    absl::Duration flush_interval = absl::Seconds(5);
    // If it is not 0, Open() cuts off the part of an existing file after the last such character: a
    // record torn by a crash.
    char record_end = '\0';
  };

  // Opens `path` for appending and creates it if needed. The folder must exist.
  static absl::StatusOr<std::unique_ptr<AppendFile>> Open(const std::string& path,
                                                          const Options& options);
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  // Writes the buffer; errors are ignored.
  ~AppendFile();

  void Append(absl::string_view record);

  // Writes the buffer.
  //   kResourceExhausted  disk full, quota, file too large, or records lost
  //   other codes         the file could not be written
  absl::Status Flush();

  bool empty() const { return size_bytes_ == 0 && buffer_.empty(); }

 private:
  AppendFile(int fd, const std::string& path, int64_t size_bytes, const Options& options);
  void WriteBuffer();
  void UndoPartialWrite(int64_t written_bytes);

  const int fd_;
  const std::string path_;
  const Options options_;
  int64_t size_bytes_;
  int64_t lost_records_ = 0;
  int64_t last_write_nanos_;
  bool failing_ = false;
  std::string buffer_;
  absl::Status error_;
};

}  // namespace internal_metrics

}  // namespace ding

#endif  // DING_WORKER_METRICS_FILE_SINK_H_
