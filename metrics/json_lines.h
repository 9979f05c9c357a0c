// Writes metrics as JSON for programs, one object per line:
//
//   {"time":1714550400.25,"tag":"learner_step/total_loss_avg","step":120,"value":0.0125}
//   {"time":..., "tag":"learner_step/td_error","step":120,"count":64,"mean":0.1,"std":0.2,"min":-1,"max":2,"non_finite":0}
//   {"time":..., "tag":"config","step":0,"text":"..."}
//   {"time":..., "begin":"cartpole_dqn","hyperparameters":{"policy.learn.batch_size":"64"}}
//   {"time":..., "end":"finished","step":1144,"results":{"final_eval":195.2}}
//
// time   seconds since 1970, with milliseconds
// value  null if it is not finite, which JSON cannot say
// end    "finished", "interrupted" or "failed"
//
// Pictures are not written. An existing file is continued; a torn last line after a crash is cut
// off.
//
// Ownership, threads, errors: as MetricSink. The clock must outlive the sink. The file is written,
// in whole lines, when a buffer is full, on a value that comes `flush_interval` after the last
// write, on Flush() and on destruction.
//
// The sink of type "json_lines" (metrics/json_lines_factory.cc) writes
// <exp_dir>/log/<process>.jsonl.
#ifndef DING_WORKER_METRICS_JSON_LINES_H_
#define DING_WORKER_METRICS_JSON_LINES_H_

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

class JsonLinesSink : public MetricSink {
 public:
  struct Options {
    std::string path;  // its folder must exist
    absl::Duration flush_interval = absl::Seconds(5);
    const Clock* clock = Clock::Real();
  };

  //   kNotFound, kPermissionDenied, ...  the file cannot be opened
  static absl::StatusOr<std::unique_ptr<JsonLinesSink>> Create(const Options& options);

  void Scalar(absl::string_view tag, int64_t step, double value) override;
  void Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) override;
  void Text(absl::string_view tag, int64_t step, absl::string_view text) override;
  void BeginRun(const RunDescription& run) override;
  void EndRun(RunEnd end, int64_t step, const RunResults& results) override;
  absl::Status Flush() override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  JsonLinesSink(const Clock* clock, std::unique_ptr<internal_metrics::AppendFile> file);
  // Appends {"time":...,<members>}.
  void Append(absl::string_view members) ABSL_LOCKS_EXCLUDED(mutex_);

  const Clock* const clock_;
  Mutex mutex_;
  const std::unique_ptr<internal_metrics::AppendFile> file_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_JSON_LINES_H_
