// The checkpoints of one run, written in the background while the training continues.
//
//   <exp_dir>/ckpt/
//     iteration_<n>, ckpt_best, ...   named checkpoints, which are kept; one of the same name is
//                                     replaced
//     resume_<position>               resume points: all that the run needs to continue as if it
//                                     had not been interrupted; the newest two are kept
//
// Threads: thread-compatible; has a thread of its own that writes.
// Errors:  the error of a named checkpoint is returned by the next Save() or Flush(). A resume
//          point that cannot be written is only a warning, since the run may still come to its end
//          and older ones are kept; if it is the last one, Flush() returns its error.
#ifndef DING_WORKER_WORKER_RUN_RUN_CHECKPOINTS_H_
#define DING_WORKER_WORKER_RUN_RUN_CHECKPOINTS_H_

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

  // `components` must be snapshots.
  absl::Status Save(absl::string_view name, CheckpointInfo info,
                    std::vector<CheckpointComponent> components);
  // `position` grows from point to point: it is the number of env steps, or of train iterations in
  // a run without envs.
  void SaveResumePoint(int64_t position, CheckpointInfo info,
                       std::vector<CheckpointComponent> components);

  // Whether nothing is being written or waiting to be written.
  bool idle() const { return writer_.idle(); }
  // Waits until everything is written.
  absl::Status Flush();

 private:
  void RemoveOldResumePoints();

  const std::string folder_;
  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  absl::Status resume_point_error_ ABSL_GUARDED_BY(mutex_);  // of the last resume point
  CheckpointWriter writer_;                                  // last: its thread uses the others
};

struct ResumePoint {
  CheckpointReader checkpoint;
  int64_t position;
};

// Opens the newest intact resume point of a run; none if there is none. Damaged ones are skipped
// with a warning; one of another version is an error (see CheckpointReader).
absl::StatusOr<std::optional<ResumePoint>> OpenNewestResumePoint(const std::string& exp_dir);

// Tidies up the checkpoints of a run before it continues from the resume point at `position` (-1:
// from its beginning): finishes or removes what a killed process left half written, and removes
// later resume points. `folder` is that of the checkpoints.
absl::Status CleanUpCheckpoints(const std::string& exp_dir, int64_t position,
                                absl::string_view folder = "ckpt");

// Moves the checkpoints of a run that has no resume point out of the way, before it begins anew: they are of
// another history. Returns their new folder, below `exp_dir`; empty if there are none.
absl::StatusOr<std::string> SetCheckpointsAside(const std::string& exp_dir);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_RUN_CHECKPOINTS_H_
