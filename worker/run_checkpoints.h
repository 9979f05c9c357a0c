// The checkpoints of one run, written behind the training.
//
//   <exp_dir>/ckpt/
//     iteration_<n>, ckpt_best, ...   kept; one of the same name is replaced
//     resume_<position>               resume points: all that the run needs to go on as if nothing
//                                     had happened; the newest two are kept
//
// Threads: thread-compatible; has a thread of its own that writes.
// Errors:  of a named checkpoint come out of the next Save() or Flush(). A resume point that cannot
//          be written is a warning, since the run may still come to its end and older ones are kept;
//          if it is the last one, Flush() returns its error.
#ifndef DING_WORKER_WORKER_RUN_CHECKPOINTS_H_
#define DING_WORKER_WORKER_RUN_CHECKPOINTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/checkpoint_writer.h"

namespace ding {

class RunCheckpoints {
 public:
  static constexpr size_t kResumePointsKept = 2;

  explicit RunCheckpoints(std::string exp_dir);

  // The components are snapshots.
  absl::Status Save(absl::string_view name, CheckpointInfo info,
                    std::vector<CheckpointComponent> components);
  // `position` grows from point to point: env steps, or train iterations of a run without envs.
  void SaveResumePoint(int64_t position, CheckpointInfo info,
                       std::vector<CheckpointComponent> components);

  // Nothing is being written or waits.
  bool idle() const { return writer_.idle(); }
  // Waits until all is written.
  absl::Status Flush();

 private:
  void RemoveOldResumePoints();

  const std::string folder_;
  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  absl::Status resume_point_error_ ABSL_GUARDED_BY(mutex_);  // of the last one
  CheckpointWriter writer_;                                  // last: its thread uses the others
};

struct ResumePoint {
  CheckpointReader checkpoint;
  int64_t position;
};

// The newest intact resume point of a run, none if there is none. Damaged ones are passed over with
// a warning; one of another version is an error (see CheckpointReader).
absl::StatusOr<std::optional<ResumePoint>> OpenNewestResumePoint(const std::string& exp_dir);

// Before a run goes on from the resume point at `position` (-1: from its beginning), puts its
// checkpoints in order: finishes or removes what a killed process left half done, and removes later
// resume points.
absl::Status CleanUpCheckpoints(const std::string& exp_dir, int64_t position);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_CHECKPOINTS_H_
