#include "ding_worker/replay_buffer/monitors/sampled_data_attr_monitor.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ding {
namespace {

template <typename T>
double Mean(absl::Span<const T> values) {
  double sum = 0;
  for (const T value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

template <typename T>
double Max(absl::Span<const T> values) {
  return static_cast<double>(*std::max_element(values.begin(), values.end()));
}

double MaxOf(const WindowAverage& window) {
  const std::vector<double> values = window.Values();
  return *std::max_element(values.begin(), values.end());
}

double MinOf(const WindowAverage& window) {
  const std::vector<double> values = window.Values();
  return *std::min_element(values.begin(), values.end());
}

}  // namespace

void SampledDataAttrMonitor::AppendProblems(const Options& options,
                                            std::vector<std::string>* problems) {
  if (options.average_range < 1) {
    problems->push_back(absl::StrCat("sampled_data_attr.average_range is ", options.average_range,
                                     ", expected at least 1"));
  }
  if (options.print_freq < 1) {
    problems->push_back(absl::StrCat("sampled_data_attr.print_freq is ", options.print_freq,
                                     ", expected at least 1"));
  }
}

SampledDataAttrMonitor::SampledDataAttrMonitor(const Options& options, absl::string_view name,
                                               std::shared_ptr<MetricSink> metrics)
    : options_(options),
      name_(name),
      metrics_(std::move(metrics)),
      use_mean_(options.average_range),
      use_max_(options.average_range),
      priority_mean_(options.average_range),
      priority_max_(options.average_range),
      priority_min_(options.average_range),
      staleness_mean_(options.average_range),
      staleness_max_(options.average_range) {}

void SampledDataAttrMonitor::Add(const Draw& draw) {
  int64_t number;
  Metrics metrics;
  {
    MutexLock lock(&mutex_);
    number = draws_++;
    const int64_t since_written = number % options_.print_freq;
    const int64_t until_written = since_written == 0 ? 0 : options_.print_freq - since_written;
    if (until_written >= options_.average_range) return;
    Look(draw);
    if (until_written > 0) return;
    metrics = Summary(draw.beta);
  }
  Write(metrics, number, draw);
}

void SampledDataAttrMonitor::Look(const Draw& draw) {
  use_mean_.Add(Mean(draw.use));
  use_max_.Add(Max(draw.use));
  priority_mean_.Add(Mean(draw.priority));
  priority_max_.Add(Max(draw.priority));
  priority_min_.Add(*std::min_element(draw.priority.begin(), draw.priority.end()));
  std::vector<int64_t> known;
  for (const int64_t staleness : draw.staleness) {
    if (staleness >= 0) known.push_back(staleness);
  }
  if (known.empty()) return;
  staleness_mean_.Add(Mean<int64_t>(known));
  staleness_max_.Add(Max<int64_t>(known));
}

SampledDataAttrMonitor::Metrics SampledDataAttrMonitor::Summary(double beta) const {
  Metrics metrics = {{"use_avg", *use_mean_.Average()},
                     {"use_max", MaxOf(use_max_)},
                     {"priority_avg", *priority_mean_.Average()},
                     {"priority_max", MaxOf(priority_max_)},
                     {"priority_min", MinOf(priority_min_)}};
  if (const std::optional<double> staleness = staleness_mean_.Average(); staleness.has_value()) {
    metrics.emplace_back("staleness_avg", *staleness);
    metrics.emplace_back("staleness_max", MaxOf(staleness_max_));
  }
  metrics.emplace_back("beta", beta);
  return metrics;
}

void SampledDataAttrMonitor::Write(const Metrics& metrics, int64_t number, const Draw& draw) const {
  if (draw.iter != -1 && WritesOverTrainIters(*metrics_, draw.envstep)) {
    Scalars(metrics_.get(), absl::StrCat(name_, "_iter"), draw.iter, metrics);
  }
  if (draw.envstep != -1 && (draw.iter == -1 || WritesOverEnvSteps(*metrics_, draw.envstep))) {
    Scalars(metrics_.get(), absl::StrCat(name_, "_step"), draw.envstep, metrics);
  }
  metrics_->Text(absl::StrCat(name_, "/sampled_data_attr"), number,
                 absl::StrCat(name_, " at draw ", number, ": ",
                              absl::StrJoin(metrics, ", ", absl::PairFormatter(" "))));
}

}  // namespace ding
