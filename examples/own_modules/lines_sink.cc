// A metric sink: "lines" writes scalars as lines "tag step value" to a file beside the other logs
// of the process. Each process of a run has its own: lines_serial.txt, lines_coordinator.txt, ...
//   metrics { sink { type: "lines" params { [type.googleapis.com/own.LinesSinkParams] { prefix: "own/" } } } }
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "ding_worker/metrics/sink_registry.h"
#include "own_modules.pb.h"

namespace own {
namespace {

class LinesSink : public ding::MetricSink {
 public:
  LinesSink(const std::string& path, std::string prefix)
      : file_(path, std::ios::app), prefix_(std::move(prefix)) {}

  void Scalar(absl::string_view tag, int64_t step, double value) override {
    if (!absl::StartsWith(tag, prefix_)) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    file_ << tag << ' ' << step << ' ' << value << '\n';
  }
  void Histogram(absl::string_view, int64_t, absl::Span<const float>) override {}
  void Text(absl::string_view, int64_t, absl::string_view) override {}
  absl::Status Flush() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return file_.flush() ? absl::OkStatus() : absl::UnavailableError("the lines are not written");
  }

 private:
  std::mutex mutex_;
  std::ofstream file_;
  const std::string prefix_;
};

absl::StatusOr<std::shared_ptr<ding::MetricSink>> Create(const ding::SinkConfig& /*config*/,
                                                         const LinesSinkParams& params,
                                                         const ding::SinkDeps& deps) {
  return std::make_shared<LinesSink>(deps.exp_dir + "/log/lines_" + deps.process + ".txt",
                                     params.prefix());
}

DING_REGISTER(ding::SinkRegistry(), "lines", Create, "lines 'tag step value' in a file");

}  // namespace
}  // namespace own
