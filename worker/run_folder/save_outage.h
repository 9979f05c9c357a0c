// The rule for a run whose files cannot be written: checkpoints, resume points, its result.
//
//   in the middle of the run   one warning, and the run goes on. What is not saved is tried again
//                              every kRetryPeriod
//   at its end                 the run waits and tries again, while the cause may pass (MayPass())
//   after kPatience            the run ends with an error. What was saved before stays, and the run
//                              can be resumed
//
// Threads: thread-safe.
//
// Example:
//   SaveOutage outage(Clock::Real());
//   // In the middle of the run, which goes on after a failure:
//   DING_RETURN_IF_ERROR(outage.Note("ckpt_best", WriteCheckpoint(path, info, components)));
//   // At the end of the run:
//   DING_RETURN_IF_ERROR(outage.Wait("result.json", write, interrupted));
#ifndef DING_WORKER_WORKER_RUN_FOLDER_SAVE_OUTAGE_H_
#define DING_WORKER_WORKER_RUN_FOLDER_SAVE_OUTAGE_H_

#include <functional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"

namespace ding {

class SaveOutage {
 public:
  static constexpr absl::Duration kPatience = absl::Minutes(10);
  static constexpr absl::Duration kRetryPeriod = absl::Seconds(1);

  explicit SaveOutage(const Clock* clock) : clock_(clock), since_(clock) {}

  // Whether the cause of a failed write may pass by itself: a full or read-only disk, a disk or
  // server that fails. A limit of the process (ulimit -f) does not.
  static bool MayPass(const absl::Status& error);

  // Notes whether `what` could be written. An outage begins with the first failure and ends when
  // nothing is missing any more. Returns OK while the run may go on, and the error of `what` if the
  // outage lasts kPatience. Logs a warning when an outage begins, and a line when it ends.
  absl::Status Note(const std::string& what, const absl::Status& saved) ABSL_LOCKS_EXCLUDED(mutex_);
  // `what` need not be written any more.
  void Forget(const std::string& what) ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `save` until it succeeds, its error cannot pass, `stop` returns true or kPatience is
  // over; returns its last status.
  absl::Status Wait(const std::string& what, const std::function<absl::Status()>& save,
                    const std::function<bool()>& stop) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void End(const std::string& what, bool saved) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  Mutex mutex_;
  std::set<std::string> missing_ ABSL_GUARDED_BY(mutex_);  // what could not be written yet
  Timer since_ ABSL_GUARDED_BY(mutex_);                    // of an outage, its begin
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_FOLDER_SAVE_OUTAGE_H_
