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

// The attributes of a window with one value per draw.
Monitor::AttributeFn MeanOf(const std::string& name) {
  return [name](const Monitor& draws) { return draws.Average(name); };
}

Monitor::AttributeFn MaxOf(const std::string& name) {
  return [name](const Monitor& draws) -> std::optional<double> {
    const std::vector<double> values = draws.Values(name);
    if (values.empty()) return std::nullopt;
    return *std::max_element(values.begin(), values.end());
  };
}

Monitor::AttributeFn MinOf(const std::string& name) {
  return [name](const Monitor& draws) -> std::optional<double> {
    const std::vector<double> values = draws.Values(name);
    if (values.empty()) return std::nullopt;
    return *std::min_element(values.begin(), values.end());
  };
}

constexpr char kMax[] = "max";

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
      windows_(options.average_range) {
  windows_.RegisterAttributeValue("avg", "use", MeanOf("use_avg"));
  windows_.RegisterAttributeValue(kMax, "use", MaxOf("use_max"));
  windows_.RegisterAttributeValue("avg", "priority", MeanOf("priority_avg"));
  windows_.RegisterAttributeValue(kMax, "priority", MaxOf("priority_max"));
  windows_.RegisterAttributeValue("min", "priority", MinOf("priority_min"));
  windows_.RegisterAttributeValue("avg", "staleness", MeanOf("staleness_avg"));
  windows_.RegisterAttributeValue(kMax, "staleness", MaxOf("staleness_max"));
}

void SampledDataAttrMonitor::Add(const Draw& draw) {
  int64_t number;
  Metrics metrics;
  {
    MutexLock lock(&mutex_);
    number = windows_.current_time();
    windows_.Step();
    const int64_t since_written = number % options_.print_freq;
    const int64_t until_written = since_written == 0 ? 0 : options_.print_freq - since_written;
    if (until_written >= options_.average_range) return;
    windows_.Add("read_out_time", static_cast<double>(number));
    Look(draw);
    if (until_written > 0) return;
    metrics = windows_.Attributes();
  }
  metrics.emplace_back("beta", draw.beta);
  Write(metrics, number, draw);
}

void SampledDataAttrMonitor::Look(const Draw& draw) {
  windows_.Add("use_avg", Mean(draw.use));
  windows_.Add("use_max", Max(draw.use));
  windows_.Add("priority_avg", Mean(draw.priority));
  windows_.Add("priority_max", Max(draw.priority));
  windows_.Add("priority_min", *std::min_element(draw.priority.begin(), draw.priority.end()));
  std::vector<int64_t> known;
  for (const int64_t staleness : draw.staleness) {
    if (staleness >= 0) known.push_back(staleness);
  }
  if (known.empty()) return;
  windows_.Add("staleness_avg", Mean<int64_t>(known));
  windows_.Add("staleness_max", Max<int64_t>(known));
}

void SampledDataAttrMonitor::RegisterAttributeValue(absl::string_view attribute,
                                                    absl::string_view property,
                                                    Monitor::AttributeFn value) {
  MutexLock lock(&mutex_);
  windows_.RegisterAttributeValue(attribute, property, std::move(value));
}

absl::StatusOr<double> SampledDataAttrMonitor::GetAttribute(absl::string_view attribute,
                                                            absl::string_view property) const {
  MutexLock lock(&mutex_);
  return windows_.GetAttribute(attribute, property);
}

int64_t SampledDataAttrMonitor::current_time() const {
  MutexLock lock(&mutex_);
  return windows_.current_time();
}

int64_t SampledDataAttrMonitor::fixed_time() const {
  MutexLock lock(&mutex_);
  return windows_.fixed_time();
}

void SampledDataAttrMonitor::Freeze() {
  MutexLock lock(&mutex_);
  windows_.Freeze();
}

void SampledDataAttrMonitor::Unfreeze() {
  MutexLock lock(&mutex_);
  windows_.Unfreeze();
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
