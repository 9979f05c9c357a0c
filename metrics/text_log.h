// The text log of a run: one file, each entry with the time and the component that wrote it.
//
//   2026-05-01 12:00:00.250 learner: saved checkpoint 'ckpt/iteration_10000'
//
// The lines of an entry after its first (a table) follow as they are. An existing file is
// continued.
//
// Ownership: shared by the components of a run. The clock must live longer.
// Threads:   thread-safe; entries never mix. A call waits for nothing but the write to the file,
//            and the entry is in the file when it returns.
// Errors:    logging never interrupts training: the first error comes out of Flush.
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
#include "ding_worker/metrics/append_file.h"

namespace ding {

class TextLog {
 public:
  struct Options {
    // Its folder must exist.
    std::string path;
    const Clock* clock = Clock::Real();
    absl::TimeZone time_zone = absl::LocalTimeZone();
  };

  //   kNotFound, kPermissionDenied, ...  the file could not be opened
  static absl::StatusOr<std::unique_ptr<TextLog>> Create(const Options& options);

  void Write(absl::string_view component, absl::string_view entry) ABSL_LOCKS_EXCLUDED(mutex_);

  // The first error since the last Flush; kResourceExhausted for a full disk. The path is named.
  absl::Status Flush() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  TextLog(const Options& options, std::unique_ptr<internal_metrics::AppendFile> file);

  const Options options_;
  Mutex mutex_;
  const std::unique_ptr<internal_metrics::AppendFile> file_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_TEXT_LOG_H_
