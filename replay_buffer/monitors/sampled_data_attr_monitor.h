// Reports statistics of draws: use counts, priorities and staleness of the rows drawn. It writes a
// report for the first draw and for every `print_freq`-th draw after it, over the last
// `average_range` draws:
//
//   use_avg  priority_avg  staleness_avg    mean over draws of the mean of a draw
//   use_max  priority_max  staleness_max    the largest over all rows of these draws
//   priority_min                            the smallest over all rows of these draws
//   beta                                    the beta of the last draw
//
// A report is written as scalars and as a line of text. The step of "<name>_iter/use_avg" ... is
// the learner's iteration, the step of "<name>_step/use_avg" ... is the env step of the last push;
// scalars whose step would be -1 are left out. The step of the text "<name>/sampled_data_attr" is
// the number of the draw.
//
// Rows of unknown staleness (-1) are left out. Staleness is averaged over the last `average_range`
// draws that have a row of known staleness; before the first such draw it is not written. Only
// draws that a report covers are read: 5 of 200, by default. The number of draws is not saved: it
// begins at 0 in a resumed run.
//
// All values above except beta are attributes of the monitor (metrics/averages.h): "use_avg" is
// attribute "avg" of property "use". RegisterAttributeValue() adds attributes to the reports. An
// AttributeFn reads windows with one value per draw: "use_avg", "use_max", "priority_avg",
// "priority_max", "priority_min", "staleness_avg", "staleness_max", and "read_out_time", the number
// of the draw.
//
// Threads: thread-safe. An AttributeFn is called with the lock held, so it may use the monitor only
// through its argument.
#ifndef DING_WORKER_REPLAY_BUFFER_MONITORS_SAMPLED_DATA_ATTR_MONITOR_H_
#define DING_WORKER_REPLAY_BUFFER_MONITORS_SAMPLED_DATA_ATTR_MONITOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/metrics/averages.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

class SampledDataAttrMonitor {
 public:
  struct Options {
    int32_t average_range = 5;  // draws, at least 1
    int64_t print_freq = 200;   // draws, at least 1
  };

  struct Draw {
    absl::Span<const int64_t> use;  // all columns are [B], B >= 1
    absl::Span<const float> priority;
    absl::Span<const int64_t> staleness;  // -1: unknown
    double beta = 0;
    int64_t iter = -1;
    int64_t envstep = -1;
  };

  // Appends a sentence to `problems` for each option that is out of range.
  static void AppendProblems(const Options& options, std::vector<std::string>* problems);

  // `options` must have no problems. `name` is the buffer's name. `metrics` must not be null.
  SampledDataAttrMonitor(const Options& options, absl::string_view name,
                         std::shared_ptr<MetricSink> metrics);

  void Add(const Draw& draw) ABSL_LOCKS_EXCLUDED(mutex_);

  // As in Monitor (metrics/averages.h); a tick is a draw.
  void RegisterAttributeValue(absl::string_view attribute, absl::string_view property,
                              Monitor::AttributeFn value) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<double> GetAttribute(absl::string_view attribute, absl::string_view property) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t current_time() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t fixed_time() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Freeze() ABSL_LOCKS_EXCLUDED(mutex_);
  void Unfreeze() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Metrics = std::vector<std::pair<std::string, double>>;

  void Look(const Draw& draw) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(const Metrics& metrics, int64_t number, const Draw& draw) const;

  const Options options_;
  const std::string name_;
  const std::shared_ptr<MetricSink> metrics_;
  mutable Mutex mutex_;
  Monitor windows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_MONITORS_SAMPLED_DATA_ATTR_MONITOR_H_
