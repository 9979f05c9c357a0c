// Writes scalars to one CSV file in long format, which plot tools and pandas read directly:
//
//   step,tag,value,wall_time
//   120,collector_step/reward_mean,21.5,1714550400.250
//
//   pandas.read_csv(path).pivot_table(index="step", columns="tag", values="value", aggfunc="last")
//
// value      the shortest decimal that parses to the same float64; nan, inf and -inf
// wall_time  seconds since 1970, with milliseconds
// tag        quoted according to RFC 4180 if it has a comma, a quote or a line break
//
// A histogram becomes the scalars <tag>/count, /mean, /std (of the population), /min and /max of
// its finite values, and <tag>/non_finite if there are others. Text is not written, because the
// value column has numbers only.
//
// An existing file is continued, so that a resumed run has one file. If a step was run twice, the
// file has two rows for it, and the last one is valid. A torn last line after a crash is cut off.
//
// Ownership, threads, errors: as MetricSink. The clock must outlive the sink. The file is written,
// in whole lines, when a buffer is full, on a value that comes `flush_interval` after the last
// write, on Flush() and on destruction.
#ifndef DING_WORKER_METRICS_CSV_H_
#define DING_WORKER_METRICS_CSV_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/metrics/file_sink.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

class CsvSink : public MetricSink {
 public:
  struct Options {
    // The folder of the file must exist.
    std::string path;
    absl::Duration flush_interval = absl::Seconds(5);
    const Clock* clock = Clock::Real();
  };

  //   kNotFound, kPermissionDenied, ...  the file cannot be opened
  static absl::StatusOr<std::unique_ptr<CsvSink>> Create(const Options& options);

  void Scalar(absl::string_view tag, int64_t step, double value) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Text(absl::string_view, int64_t, absl::string_view) override {}
  absl::Status Flush() override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  CsvSink(const Clock* clock, std::unique_ptr<internal_metrics::AppendFile> file);

  const Clock* const clock_;
  Mutex mutex_;
  const std::unique_ptr<internal_metrics::AppendFile> file_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_CSV_H_
