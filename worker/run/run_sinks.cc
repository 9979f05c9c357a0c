#include "ding_worker/worker/run/run_sinks.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/metrics/sink_registry.h"

namespace ding {

absl::Status AddSinks(const ExperimentConfig& config, const std::string& exp_dir,
                      const std::string& process, std::shared_ptr<MetricSink>* metrics) {
  std::vector<std::shared_ptr<MetricSink>> sinks = {*metrics};
  for (int i = 0; i < config.metrics().sink_size(); ++i) {
    absl::StatusOr<std::shared_ptr<MetricSink>> sink =
        create_sink(config.metrics().sink(i), {exp_dir, process});
    DING_RETURN_IF_ERROR(Annotate(sink.status(), absl::StrCat("metrics.sink[", i, "]")));
    sinks.push_back(*std::move(sink));
  }
  if (sinks.size() > 1) *metrics = std::make_shared<MultiSink>(std::move(sinks));
  return absl::OkStatus();
}

}  // namespace ding
