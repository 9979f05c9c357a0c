// Counts what goes through a buffer, and says so once per period: rows pushed in, drawn, removed
// (overwritten, retired, cleared), and how many there are.
//
// There is no thread: calls look at the clock, so a period ends with the first draw after it, or at
// most kPushesPerLook pushes later; looking at every push would slow small ones. While nothing
// happens nothing is written, and the next report covers the longer time, which it names.
// What was counted after the last report is written at the end.
//
//   current_have = current_have of the report before + pushed_in - removed      (without loading)
//
// Counts are not state: they begin at 0 in a resumed run.
//
// Threads: thread-compatible: the buffer's lock is held for every call. WriteThruput is called
//          without it, so that nobody waits for a file.
//
// Example:
//   std::optional<ThruputReport> report;
//   {
//     MutexLock lock(&mutex_);
//     ...
//     report = monitor_.Pushed(data.size(), CountLocked());
//   }
//   WriteThruput(report, name, sink);
#ifndef DING_WORKER_REPLAY_BUFFER_PERIODIC_THRUPUT_MONITOR_H_
#define DING_WORKER_REPLAY_BUFFER_PERIODIC_THRUPUT_MONITOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

struct ThruputReport {
  int64_t number = 0;  // of this report, from 0
  double seconds = 0;  // since the one before
  int64_t pushed_in = 0;
  int64_t sampled_out = 0;
  int64_t removed = 0;
  int64_t current_have = 0;
};

// Scalars "<name>_sec/pushed_in", "sampled_out", "removed" and "current_have", step: the report's
// number; and the same as a line of text, "<name>_sec/thruput".
void WriteThruput(const ThruputReport& report, absl::string_view name, MetricSink* sink);
// The same if there is a report.
inline void WriteThruput(const std::optional<ThruputReport>& report, absl::string_view name,
                         MetricSink* sink) {
  if (report.has_value()) WriteThruput(*report, name, sink);
}

class PeriodicThruputMonitor {
 public:
  static constexpr int kPushesPerLook = 16;

  struct Options {
    double period_seconds = 60;           // above 0
    std::string name;                     // of the buffer
    std::shared_ptr<MetricSink> metrics;  // for what is left at the end; null: nothing is counted
    const Clock* clock = Clock::Real();   // outlives the monitor
  };

  // Adds a sentence if that cannot be a period.
  static void AppendProblems(double period_seconds, std::vector<std::string>* problems);

  explicit PeriodicThruputMonitor(const Options& options);
  PeriodicThruputMonitor(const PeriodicThruputMonitor&) = delete;
  PeriodicThruputMonitor& operator=(const PeriodicThruputMonitor&) = delete;
  ~PeriodicThruputMonitor();

  // `have`: the rows that the buffer has afterwards. A report if a period has passed.
  std::optional<ThruputReport> Pushed(int64_t rows, int64_t have) {
    if (options_.metrics == nullptr) return std::nullopt;
    return CountPushed(rows, have);
  }
  std::optional<ThruputReport> Sampled(int64_t rows, int64_t have) {
    if (options_.metrics == nullptr) return std::nullopt;
    return CountSampled(rows, have);
  }
  // Rows went, but by no push or draw.
  void Removed(int64_t have);
  // The buffer has other rows now; none of them was pushed, and none removed.
  void Loaded(int64_t have);

 private:
  std::optional<ThruputReport> CountPushed(int64_t rows, int64_t have);
  std::optional<ThruputReport> CountSampled(int64_t rows, int64_t have);
  std::optional<ThruputReport> ReportIfDue();

  const Options options_;
  ThruputReport counted_;  // since the last report
  int pushes_until_look_ = kPushesPerLook;
  Timer period_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_PERIODIC_THRUPUT_MONITOR_H_
