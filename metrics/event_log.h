// The events of a run: start, end, evaluations, faults ... A file of JSON, an object in each line:
//
//   {"time":1767225600.250,"event":"join","name":"collector-0","env_step":800,"train_iter":40,"text":"..."}
//
// docs/reference/events.md describes the members; EventTable() is the source of its tables. An
// existing file is continued.
//
// Faults, refusals, and workers that come and go are limited to kMaxPerMinute together; the next
// line says how many were left out.
//
// Ownership: the clock must outlive it.
// Threads:   thread-safe. A call waits for nothing but the write to the file, and the line is in
//            the file when the call returns.
// Errors:    on a full disk, lines wait in memory (at most 8 MiB), as in a metric sink; Flush()
//            returns the first error.
#ifndef DING_WORKER_METRICS_EVENT_LOG_H_
#define DING_WORKER_METRICS_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/metrics/file_sink.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

class EventLog {
 public:
  static constexpr int kMaxPerMinute = 600;
  static constexpr size_t kMaxTextBytes = 2000;  // the rest of a longer text is left out

  // The folder of the file must exist.
  //   kNotFound, kPermissionDenied, ...  the file cannot be opened
  static absl::StatusOr<std::unique_ptr<EventLog>> Create(const std::string& path,
                                                          const Clock* clock);

  // For LogSink::Send(): writes the line if it is an event (CurrentLogEvent()). Other lines of
  // severity WARNING or ERROR are faults.
  void Write(const LogLine& line) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the first error since the last Flush(), which names the path; kResourceExhausted for a
  // full disk.
  absl::Status Flush() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  EventLog(const Clock* clock, std::unique_ptr<internal_metrics::AppendFile> file);
  // Whether an event that others cause may be written now.
  bool MayWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  Mutex mutex_;
  const std::unique_ptr<internal_metrics::AppendFile> file_ ABSL_PT_GUARDED_BY(mutex_);
  Timer minute_ ABSL_GUARDED_BY(mutex_);
  int in_minute_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;  // since the last line
};

// "finished", "interrupted" or "failed": the name of an event kEnd.
absl::string_view NameOf(RunEnd end);

// The tables of kinds and of members, in Markdown.
std::string EventTable();

}  // namespace ding

#endif  // DING_WORKER_METRICS_EVENT_LOG_H_
