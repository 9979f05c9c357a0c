#include "ding_worker/worker/run/run_sinks.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/utf8.h"
#include "ding_worker/metrics/sink_registry.h"
#include "ding_worker/worker/config/text_config.h"

namespace ding {
namespace {

constexpr char kFinalEval[] = "final_eval";
constexpr char kEnvSteps[] = "env_steps";
constexpr char kWallSeconds[] = "wall_seconds";

MetricAxis AxisOf(const MetricsSection& config) {
  switch (config.x_axis()) {
    case MetricsSection::ENV_STEP:
      return MetricAxis::kEnvStep;
    case MetricsSection::TRAIN_ITER:
      return MetricAxis::kTrainIter;
    case MetricsSection::BOTH:
      break;
  }
  return MetricAxis::kBoth;
}

// Returns a text without the quotation marks and escapes of a file, unless it would not be a line of UTF-8.
std::string WithoutQuotes(absl::string_view value) {
  if (!absl::ConsumePrefix(&value, "\"")) return std::string(value);
  absl::ConsumeSuffix(&value, "\"");
  std::string text;
  const bool is_line = absl::CUnescape(value, &text) && PrintableUtf8(text) == text;
  return is_line ? text : std::string(value);
}

}  // namespace

absl::Status AddSinks(const ExperimentConfig& config, const std::string& exp_dir,
                      const std::string& process, std::shared_ptr<MetricSink>* metrics) {
  std::vector<std::shared_ptr<MetricSink>> sinks;
  if (config.metrics().files()) sinks.push_back(*metrics);
  for (int i = 0; i < config.metrics().sink_size(); ++i) {
    absl::StatusOr<std::shared_ptr<MetricSink>> sink =
        create_sink(config.metrics().sink(i), {exp_dir, process});
    DING_RETURN_IF_ERROR(Annotate(sink.status(), absl::StrCat("metrics.sink[", i, "]")));
    sinks.push_back(*std::move(sink));
  }
  *metrics = std::make_shared<MultiSink>(std::move(sinks), AxisOf(config.metrics()));
  return absl::OkStatus();
}

RunDescription DescribeRunForSinks(const ExperimentConfig& config) {
  RunDescription run;
  run.name = config.exp_name();
  for (const SetField& field : ListSetFields(config)) {
    run.hyperparameters.emplace_back(field.path, WithoutQuotes(field.value));
  }
  return run;
}

RunResults ResultsForSinks(std::optional<double> eval_value, int64_t env_steps,
                           double wall_seconds) {
  RunResults results;
  if (eval_value.has_value()) results.emplace_back(kFinalEval, *eval_value);
  results.emplace_back(kEnvSteps, static_cast<double>(env_steps));
  results.emplace_back(kWallSeconds, wall_seconds);
  return results;
}

}  // namespace ding
