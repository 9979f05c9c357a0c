// Reports statistics of draws: how often their rows were used, their priorities, and how stale they
// are. A report is written for the first draw and every `print_freq`-th draw after it, over the
// last `average_range` draws:
//
//   use_avg  priority_avg  staleness_avg    mean over draws of the mean of a draw
//   use_max  priority_max  staleness_max    the largest of all their rows
//   priority_min                            the smallest
//   beta                                    the beta of this draw
//
// These are written as scalars "<name>_iter/use_avg" ... with the learner's iteration as step and
// "<name>_step/use_avg" ... with the env step of the last push as step, each only if the step is
// not -1; and as a line of text, "<name>/sampled_data_attr", with the number of the draw.
//
// Rows of unknown staleness (-1) are left out. Staleness is averaged over the last `average_range`
// draws that have a row of known staleness, and is not written before there is one. Only draws that
// enter a report are looked at: 5 of 200, by default. The number of draws is not state: it begins
// at 0 in a resumed run.
//
// Each value above but beta is an attribute of the monitor (metrics/averages.h): attribute "avg" of
// property "use", ... RegisterAttributeValue() adds others to the reports; it reads the windows of
// one value per draw: "use_avg", "use_max", "priority_avg", "priority_max", "priority_min",
// "staleness_avg", "staleness_max", and "read_out_time", the number of the draw.
//
// Threads: thread-safe. An AttributeFn is called with the lock held: it must not call the monitor
// but through its argument.
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
    absl::Span<const int64_t> use;  // [B], B >= 1; so are the other columns
    absl::Span<const float> priority;
    absl::Span<const int64_t> staleness;  // -1: unknown
    double beta = 0;
    int64_t iter = -1;
    int64_t envstep = -1;
  };

  // Adds a sentence for each option that is out of range.
  static void AppendProblems(const Options& options, std::vector<std::string>* problems);

  // `options` must have no problems. `name` is the buffer's name. `metrics` must not be null.
  SampledDataAttrMonitor(const Options& options, absl::string_view name,
                         std::shared_ptr<MetricSink> metrics);

  void Add(const Draw& draw) ABSL_LOCKS_EXCLUDED(mutex_);

  // As Monitor says; a tick is a draw.
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
