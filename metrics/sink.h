// Receives the measurements of components: scalars, histograms, text and pictures, each with a tag
// and a step. Components take a std::shared_ptr<MetricSink> (NullSink to drop all) and do not
// depend on the implementation. HoldingSink delays measurements; ComponentDeps has the services
// that each component gets in addition to its config.
//
// Tags are paths like "collector_step/reward_mean"; TensorBoard groups by the part before the first
// '/'. The tag says what a step counts: train iterations ("..._iter/...") or env steps
// ("..._step/...").
//
// Ownership: shared. All components of a run hold the same sink, which closes when the last owner
//            is destroyed.
// Threads: thread-safe. A call waits for nothing but the write to the file.
// Values:    NaN and infinities are recorded as they are.
// Errors:    an error never interrupts training: Flush() returns the first one.
#ifndef DING_WORKER_METRICS_SINK_H_
#define DING_WORKER_METRICS_SINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"

namespace ding {

// Over which x axis components write their metrics: train iterations ("..._iter/..."), env steps
// ("..._step/..."), or both.
enum class MetricAxis { kBoth, kEnvStep, kTrainIter };

// The description of a run, for sinks that compare runs.
struct RunDescription {
  std::string name;
  // The settings of the run that are not defaults, as a config file has them:
  // {"policy.learn.batch_size", "64"}.
  std::vector<std::pair<std::string, std::string>> hyperparameters;
};

using RunResults = std::vector<std::pair<std::string, double>>;

enum class RunEnd { kFinished, kInterrupted, kFailed };

class MetricSink {
 public:
  MetricSink() = default;
  MetricSink(const MetricSink&) = delete;
  MetricSink& operator=(const MetricSink&) = delete;
  virtual ~MetricSink() = default;

  virtual void Scalar(absl::string_view tag, int64_t step, double value) = 0;

  // Records the distribution of `values`; an empty span is ignored.
  virtual void Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) = 0;

  // Records a text, which TensorBoard renders as Markdown.
  virtual void Text(absl::string_view tag, int64_t step, absl::string_view text) = 0;

  // Records a picture, encoded as PNG, JPEG or (animated) GIF. Sinks that cannot write pictures
  // ignore it.
  virtual void EncodedImage(absl::string_view /*tag*/, int64_t /*step*/, int /*width*/,
                            int /*height*/, absl::string_view /*file*/) {}

  // A program calls these at the beginning of a run, and at its end with the final results (names
  // and values at `step`). A resumed run calls BeginRun() again. Sinks that cannot write them
  // ignore them.
  virtual void BeginRun(const RunDescription& /*run*/) {}
  virtual void EndRun(RunEnd /*end*/, int64_t /*step*/, const RunResults& /*results*/) {}

  // The axis over which components write their metrics if they know the env steps. Otherwise they
  // write over train iterations.
  virtual MetricAxis axis() const { return MetricAxis::kBoth; }

  // Writes the buffers to the operating system, and returns and forgets the first error since the
  // last Flush(), which names the path. The sink stays usable.
  //   kResourceExhausted  disk full or quota
  //   other codes         the file could not be written
  virtual absl::Status Flush() = 0;
};

// Ignores all calls.
class NullSink : public MetricSink {
 public:
  void Scalar(absl::string_view, int64_t, double) override {}
  void Histogram(absl::string_view, int64_t, absl::Span<const float>) override {}
  void Text(absl::string_view, int64_t, absl::string_view) override {}
  absl::Status Flush() override { return absl::OkStatus(); }
};

// Passes every call to each of its sinks, in order. None may be null.
class MultiSink : public MetricSink {
 public:
  explicit MultiSink(std::vector<std::shared_ptr<MetricSink>> sinks,
                     MetricAxis axis = MetricAxis::kBoth);

  void Scalar(absl::string_view tag, int64_t step, double value) override;
  void Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) override;
  void Text(absl::string_view tag, int64_t step, absl::string_view text) override;
  void EncodedImage(absl::string_view tag, int64_t step, int width, int height,
                    absl::string_view file) override;
  void BeginRun(const RunDescription& run) override;
  void EndRun(RunEnd end, int64_t step, const RunResults& results) override;
  MetricAxis axis() const override { return axis_; }
  // Flushes all sinks and returns the first error.
  absl::Status Flush() override;

 private:
  const std::vector<std::shared_ptr<MetricSink>> sinks_;
  const MetricAxis axis_;
};

// Passes measurements on to another sink at once. From Hold() on it keeps them instead, until
// Release() passes all of them on.
//
// Components that measure at the same time on several threads would write their records in a
// different order in each run. With a HoldingSink for all threads but one, released when all
// threads have reached the same point, the order is always the same. Release() must not overlap
// with measurements.
//
// Example:
//   learner_metrics->Hold();
//   ... the learner works on a second thread, the collector on this one ...
//   second->Wait();
//   learner_metrics->Release();
class HoldingSink : public MetricSink {
 public:
  explicit HoldingSink(std::shared_ptr<MetricSink> sink) : sink_(std::move(sink)) {}

  // Keeps measurements from now on.
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);
  // Passes on the kept measurements in their order, and later ones at once.
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

  void Scalar(absl::string_view tag, int64_t step, double value) override;
  void Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) override;
  void Text(absl::string_view tag, int64_t step, absl::string_view text) override;
  void EncodedImage(absl::string_view tag, int64_t step, int width, int height,
                    absl::string_view file) override;
  // Only programs call these and Flush(); they are passed on at once.
  void BeginRun(const RunDescription& run) override { sink_->BeginRun(run); }
  void EndRun(RunEnd end, int64_t step, const RunResults& results) override {
    sink_->EndRun(end, step, results);
  }
  MetricAxis axis() const override { return sink_->axis(); }
  absl::Status Flush() override { return sink_->Flush(); }

 private:
  using Record = std::function<void(MetricSink*)>;

  // Whether measurements are held now, so that the caller must keep its record.
  bool holds() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Keep(Record record) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<MetricSink> sink_;
  mutable Mutex mutex_;
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Record> kept_ ABSL_GUARDED_BY(mutex_);
};

// Whether a component writes its metrics over train iterations, and over env steps; `envstep` is
// below 0 if it does not know them.
inline bool WritesOverTrainIters(const MetricSink& sink, int64_t envstep) {
  return envstep < 0 || sink.axis() != MetricAxis::kEnvStep;
}
inline bool WritesOverEnvSteps(const MetricSink& sink, int64_t envstep) {
  return envstep >= 0 && sink.axis() != MetricAxis::kTrainIter;
}

// Records several series of a group: each value of `values` (a range of pairs of name and value)
// goes to the tag "<main_tag>/<name>". It replaces TensorBoard's add_scalars, in one event file.
template <typename NamedValues>
void Scalars(MetricSink* sink, absl::string_view main_tag, int64_t step,
             const NamedValues& values) {
  for (const auto& [name, value] : values) {
    sink->Scalar(absl::StrCat(main_tag, "/", name), step, value);
  }
}

// The services that every component gets in addition to its config: metric sink, clock, seed,
// folder of the run and instance name.
struct ComponentDeps {
  // All components of a run share it; never null.
  std::shared_ptr<MetricSink> metrics = std::make_shared<NullSink>();
  const Clock* clock = Clock::Real();
  // Components derive their random streams from it: Rng(seed, "<component>/<purpose>").
  uint64_t seed = 0;
  // The folder of the run, in which it writes all its files.
  std::string exp_dir = "default_experiment";
  // The name of the instance: the first part of metric tags ("collector_iter/reward_mean") and of
  // log lines.
  std::string name;
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_SINK_H_
