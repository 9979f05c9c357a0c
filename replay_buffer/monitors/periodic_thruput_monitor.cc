#include "ding_worker/replay_buffer/monitors/periodic_thruput_monitor.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ding {

void WriteThruput(const ThruputReport& report, absl::string_view name, MetricSink* sink) {
  const std::array<std::pair<absl::string_view, int64_t>, 4> values = {{
      {"pushed_in", report.pushed_in},
      {"sampled_out", report.sampled_out},
      {"removed", report.removed},
      {"current_have", report.current_have},
  }};
  const std::string group = absl::StrCat(name, "_sec");
  Scalars(sink, group, report.number, values);
  sink->Text(absl::StrCat(group, "/thruput"), report.number,
             absl::StrCat(name, " in ", report.seconds,
                          " s: ", absl::StrJoin(values, ", ", absl::PairFormatter(" "))));
}

void PeriodicThruputMonitor::AppendProblems(double period_seconds,
                                            std::vector<std::string>* problems) {
  if (period_seconds > 0) return;
  problems->push_back(
      absl::StrCat("periodic_thruput_seconds is ", period_seconds, ", expected above 0"));
}

PeriodicThruputMonitor::PeriodicThruputMonitor(const Options& options)
    : options_(options), period_(options.clock) {}

PeriodicThruputMonitor::~PeriodicThruputMonitor() {
  WriteThruput(TakeLast(), options_.name, options_.metrics.get());
}

std::optional<ThruputReport> PeriodicThruputMonitor::TakeLast() {
  if (counted_.pushed_in == 0 && counted_.sampled_out == 0 && counted_.removed == 0) {
    return std::nullopt;
  }
  return TakeReport(period_.Seconds());
}

std::optional<ThruputReport> PeriodicThruputMonitor::CountPushed(int64_t rows, int64_t have) {
  counted_.pushed_in += rows;
  counted_.removed += counted_.current_have + rows - have;
  counted_.current_have = have;
  if (--pushes_until_look_ > 0) return std::nullopt;
  return ReportIfDue();
}

std::optional<ThruputReport> PeriodicThruputMonitor::CountSampled(int64_t rows, int64_t have) {
  counted_.sampled_out += rows;
  Removed(have);
  return ReportIfDue();
}

void PeriodicThruputMonitor::Removed(int64_t have) {
  if (options_.metrics == nullptr) return;
  counted_.removed += counted_.current_have - have;
  counted_.current_have = have;
}

void PeriodicThruputMonitor::Loaded(int64_t have) { counted_.current_have = have; }

std::optional<ThruputReport> PeriodicThruputMonitor::ReportIfDue() {
  pushes_until_look_ = kPushesPerLook;
  const double seconds = period_.Seconds();
  if (seconds < options_.period_seconds) return std::nullopt;
  return TakeReport(seconds);
}

ThruputReport PeriodicThruputMonitor::TakeReport(double seconds) {
  ThruputReport report = counted_;
  report.seconds = seconds;
  counted_ = ThruputReport();
  counted_.number = report.number + 1;
  counted_.current_have = report.current_have;
  period_ = Timer(options_.clock);
  return report;
}

}  // namespace ding
