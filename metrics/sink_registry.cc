#include "ding_worker/metrics/sink_registry.h"

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// Passes every call to a user's sink, and keeps its first exception for Flush().
class GuardedSink : public MetricSink {
 public:
  GuardedSink(absl::string_view type, std::shared_ptr<MetricSink> sink)
      : name_(absl::StrCat("metric sink '", type, "'")), sink_(std::move(sink)) {}

  void Scalar(absl::string_view tag, int64_t step, double value) override {
    Guard([&] { sink_->Scalar(tag, step, value); });
  }
  void Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) override {
    Guard([&] { sink_->Histogram(tag, step, values); });
  }
  void Text(absl::string_view tag, int64_t step, absl::string_view text) override {
    Guard([&] { sink_->Text(tag, step, text); });
  }
  void EncodedImage(absl::string_view tag, int64_t step, int width, int height,
                    absl::string_view file) override {
    Guard([&] { sink_->EncodedImage(tag, step, width, height, file); });
  }
  void BeginRun(const RunDescription& run) override {
    Guard([&] { sink_->BeginRun(run); });
  }
  void EndRun(RunEnd end, int64_t step, const RunResults& results) override {
    Guard([&] { sink_->EndRun(end, step, results); });
  }
  MetricAxis axis() const override {
    MetricAxis axis = MetricSink::axis();
    Guard([&] { axis = sink_->axis(); });
    return axis;
  }
  absl::Status Flush() override {
    const absl::Status flushed =
        Annotate(CallUser("Flush()", [this] { return sink_->Flush(); }), name_);
    MutexLock lock(&mutex_);
    const absl::Status thrown = std::exchange(thrown_, absl::OkStatus());
    return thrown.ok() ? flushed : thrown;
  }

 private:
  template <typename Call>
  void Guard(Call call) const {
    const absl::Status status = CallUser(name_, [&] {
      call();
      return absl::OkStatus();
    });
    if (status.ok()) return;
    MutexLock lock(&mutex_);
    thrown_.Update(status);
  }

  const std::string name_;
  const std::shared_ptr<MetricSink> sink_;
  mutable Mutex mutex_;
  mutable absl::Status thrown_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::shared_ptr<MetricSink>> create_sink(const SinkConfig& config,
                                                        const SinkDeps& deps) {
  DING_ASSIGN_OR_RETURN(std::shared_ptr<MetricSink> sink, SinkRegistry().Create(config, deps));
  return std::make_shared<GuardedSink>(config.type(), std::move(sink));
}

}  // namespace ding
