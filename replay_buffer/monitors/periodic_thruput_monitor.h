// Reports once per period how many rows went through a buffer: rows pushed in, drawn and removed
// (overwritten, retired, cleared), and how many rows it holds.
//
// There is no thread: calls look at the clock. So a period ends with the first draw after its time,
// or at most kPushesPerLook pushes later; looking at the clock for every push would slow down small
// pushes. While the buffer is not used nothing is written, and the next report covers the longer
// time, which it states. TakeLast() and the destructor report what was counted after the last
// report.
//
//   current_have = current_have of the report before + pushed_in - removed      (without loading)
//
// Counts are not state: they begin at 0 in a resumed run.
//
// Threads: thread-compatible: the caller holds the buffer's lock for every call. WriteThruput is
//          called without it, so that no other thread waits for a file.
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
  double seconds = 0;  // since the report before
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

  // Adds a sentence if `period_seconds` is out of range.
  static void AppendProblems(double period_seconds, std::vector<std::string>* problems);

  explicit PeriodicThruputMonitor(const Options& options);
  PeriodicThruputMonitor(const PeriodicThruputMonitor&) = delete;
  PeriodicThruputMonitor& operator=(const PeriodicThruputMonitor&) = delete;
  ~PeriodicThruputMonitor();

  // Count rows that were pushed or drawn. `have` is the number of rows that the buffer then holds.
  // Return a report if a period has passed.
  std::optional<ThruputReport> Pushed(int64_t rows, int64_t have) {
    if (options_.metrics == nullptr) return std::nullopt;
    return CountPushed(rows, have);
  }
  std::optional<ThruputReport> Sampled(int64_t rows, int64_t have) {
    if (options_.metrics == nullptr) return std::nullopt;
    return CountSampled(rows, have);
  }
  // Counts rows that left the buffer other than by a push or a draw.
  void Removed(int64_t have);
  // Returns what was counted since the last report, if anything was.
  std::optional<ThruputReport> TakeLast();
  // Called after the buffer loaded other rows, which count neither as pushed nor as removed.
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
