// The text log of a run: one file of entries, each with its time and component.
//
//   2026-05-01 12:00:00.250 learner: saved checkpoint 'ckpt/iteration_10000'
//
// Further lines of an entry (a table) follow without a prefix. An existing file is continued.
//
// Ownership: the components of a run share it. The clock must outlive it.
// Threads:   thread-safe; entries never mix. A call waits for nothing but the write to the file,
//            and the entry is in the file when the call returns.
// Errors:    an error never interrupts training: Flush() returns the first one.
#ifndef DING_WORKER_METRICS_TEXT_LOG_H_
#define DING_WORKER_METRICS_TEXT_LOG_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/metrics/file_sink.h"

namespace ding {

class TextLog {
 public:
  struct Options {
    // The folder of the file must exist.
    std::string path;
    const Clock* clock = Clock::Real();
    absl::TimeZone time_zone = absl::LocalTimeZone();
  };

  //   kNotFound, kPermissionDenied, ...  the file cannot be opened
  static absl::StatusOr<std::unique_ptr<TextLog>> Create(const Options& options);

  void Write(absl::string_view component, absl::string_view entry) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the first error since the last Flush(), which names the path; kResourceExhausted for a
  // full disk.
  absl::Status Flush() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  TextLog(const Options& options, std::unique_ptr<internal_metrics::AppendFile> file);

  const Options options_;
  Mutex mutex_;
  const std::unique_ptr<internal_metrics::AppendFile> file_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_TEXT_LOG_H_
