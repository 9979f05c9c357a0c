// Reports once per period how many rows went through a buffer: rows pushed in, drawn and removed
// (overwritten, retired, cleared), and how many rows it holds.
//
// The monitor has no thread. It reads the clock in draws and in every kPushesPerLook-th push,
// because reading it in every small push would be slow. So a report comes with the first draw after
// the end of the period, or at most kPushesPerLook pushes later. If the buffer is idle nothing is
// written, and the next report covers, and states, the longer time. TakeLast() and the destructor
// report what was counted after the last report.
//
//   current_have = previous current_have + pushed_in - removed      (if nothing was loaded)
//
// Counts are not saved: they begin at 0 in a resumed run.
//
// Threads: thread-compatible: the caller holds the buffer's lock for every call. WriteThruput() is
//          called without the lock, so that no other thread waits for a file.
//
// Example:
//   std::optional<ThruputReport> report;
//   {
//     MutexLock lock(&mutex_);
//     ...
//     report = monitor_.Pushed(data.size(), CountLocked());
//   }
//   WriteThruput(report, name, sink);
#ifndef DING_WORKER_REPLAY_BUFFER_MONITORS_PERIODIC_THRUPUT_MONITOR_H_
#define DING_WORKER_REPLAY_BUFFER_MONITORS_PERIODIC_THRUPUT_MONITOR_H_

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
  int64_t number = 0;  // reports are numbered from 0
  double seconds = 0;  // since the previous report
  int64_t pushed_in = 0;
  int64_t sampled_out = 0;
  int64_t removed = 0;
  int64_t current_have = 0;
};

// Writes the scalars "<name>_sec/pushed_in", "sampled_out", "removed" and "current_have", with the
// report's number as step, and a line of text with the same values, "<name>_sec/thruput".
void WriteThruput(const ThruputReport& report, absl::string_view name, MetricSink* sink);
// Does the same if there is a report.
inline void WriteThruput(const std::optional<ThruputReport>& report, absl::string_view name,
                         MetricSink* sink) {
  if (report.has_value()) WriteThruput(*report, name, sink);
}

class PeriodicThruputMonitor {
 public:
  static constexpr int kPushesPerLook = 16;

  struct Options {
    double period_seconds = 60;           // above 0
    std::string name;                     // name of the buffer
    std::shared_ptr<MetricSink> metrics;  // for the last report; null: nothing is counted
    const Clock* clock = Clock::Real();   // outlives the monitor
  };

  // Appends a sentence to `problems` if `period_seconds` is out of range.
  static void AppendProblems(double period_seconds, std::vector<std::string>* problems);

  explicit PeriodicThruputMonitor(const Options& options);
  PeriodicThruputMonitor(const PeriodicThruputMonitor&) = delete;
  PeriodicThruputMonitor& operator=(const PeriodicThruputMonitor&) = delete;
  ~PeriodicThruputMonitor();

  // Count rows that were pushed or drawn; `have` is the number of rows in the buffer afterwards.
  // Return a report if a period has ended.
  std::optional<ThruputReport> Pushed(int64_t rows, int64_t have) {
    if (options_.metrics == nullptr) return std::nullopt;
    return CountPushed(rows, have);
  }
  std::optional<ThruputReport> Sampled(int64_t rows, int64_t have) {
    if (options_.metrics == nullptr) return std::nullopt;
    return CountSampled(rows, have);
  }
  // Counts rows that left the buffer without a push or a draw; `have` as above.
  void Removed(int64_t have);
  // Returns what was counted since the last report, if anything was.
  std::optional<ThruputReport> TakeLast();
  // Call it after the buffer has loaded a state: its rows count neither as pushed nor as removed.
  void Loaded(int64_t have);

 private:
  std::optional<ThruputReport> CountPushed(int64_t rows, int64_t have);
  std::optional<ThruputReport> CountSampled(int64_t rows, int64_t have);
  std::optional<ThruputReport> ReportIfDue();
  ThruputReport TakeReport(double seconds);

  const Options options_;
  ThruputReport counted_;  // since the last report
  int pushes_until_look_ = kPushesPerLook;
  Timer period_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_MONITORS_PERIODIC_THRUPUT_MONITOR_H_
