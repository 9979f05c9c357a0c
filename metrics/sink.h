// Where a component's measurements go: scalars, histograms, text and pictures, each under a tag
// and a step.
// Components take a std::shared_ptr<MetricSink> (NullSink when nobody wants the numbers) and never
// ask what stands behind it.
//
// Tags are paths like "collector_step/reward_mean"; TensorBoard groups by the part before the first
// '/'. A step is whatever the tag counts: train iterations ("..._iter/..."), env steps
// ("..._step/...").
//
// Ownership: shared. Every component of a run holds the same sink; it closes when the last one lets
//            go of it, never because one of them closed.
// Threads:   thread-safe. A call waits for nothing but the write to the file.
// Values:    NaN and infinities are recorded as they are.
// Errors:    measuring never interrupts training: the first error is remembered and comes out of
//            Flush().
#ifndef DING_WORKER_METRICS_SINK_H_
#define DING_WORKER_METRICS_SINK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

class MetricSink {
 public:
  MetricSink() = default;
  MetricSink(const MetricSink&) = delete;
  MetricSink& operator=(const MetricSink&) = delete;
  virtual ~MetricSink() = default;

  virtual void Scalar(absl::string_view tag, int64_t step, double value) = 0;

  // The distribution of `values` (as they are, not counts). Nothing is recorded for an empty span.
  virtual void Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) = 0;

  // TensorBoard renders `text` as Markdown.
  virtual void Text(absl::string_view tag, int64_t step, absl::string_view text) = 0;

  // A picture as a file in memory: PNG, JPEG or GIF, which may be animated. Sinks that cannot show
  // any leave it out.
  virtual void EncodedImage(absl::string_view /*tag*/, int64_t /*step*/, int /*width*/,
                            int /*height*/, absl::string_view /*file*/) {}

  // Hands what is buffered to the operating system and returns the first error since the last
  // Flush, then forgets it. The sink stays usable.
  //   kResourceExhausted  disk full or quota;  other codes: could not be written. The path is
  //   named.
  virtual absl::Status Flush() = 0;
};

// Ignores everything.
class NullSink : public MetricSink {
 public:
  void Scalar(absl::string_view, int64_t, double) override {}
  void Histogram(absl::string_view, int64_t, absl::Span<const float>) override {}
  void Text(absl::string_view, int64_t, absl::string_view) override {}
  absl::Status Flush() override { return absl::OkStatus(); }
};

// Passes every call to each of its sinks, in their order. No null among them.
class MultiSink : public MetricSink {
 public:
  explicit MultiSink(std::vector<std::shared_ptr<MetricSink>> sinks);

  void Scalar(absl::string_view tag, int64_t step, double value) override;
  void Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) override;
  void Text(absl::string_view tag, int64_t step, absl::string_view text) override;
  void EncodedImage(absl::string_view tag, int64_t step, int width, int height,
                    absl::string_view file) override;
  // Flushes all of them, and returns the first error.
  absl::Status Flush() override;

 private:
  const std::vector<std::shared_ptr<MetricSink>> sinks_;
};

// Several series of one group: each value of `values` (a range of name, value pairs: a map or an
// array) goes to the tag "<main_tag>/<name>". It is what TensorBoard's add_scalars is used for, in
// one event file.
template <typename NamedValues>
void Scalars(MetricSink* sink, absl::string_view main_tag, int64_t step,
             const NamedValues& values) {
  for (const auto& [name, value] : values) {
    sink->Scalar(absl::StrCat(main_tag, "/", name), step, value);
  }
}

}  // namespace ding

#endif  // DING_WORKER_METRICS_SINK_H_
