// The checkpoints of one run, written in the background while the training continues.
//
//   <exp_dir>/ckpt/
//     iteration_<n>, ckpt_best, ...   named checkpoints, which are kept; one of the same name is
//                                     replaced
//     resume_<position>               resume points: all that the run needs to continue as if it
//                                     had not been interrupted; the newest two are kept
//
// A checkpoint that cannot be written is kept in memory and tried again (save_outage.h), unless a
// newer checkpoint of its name takes its place. Of the unwritten resume points only the newest one
// is kept, and of checkpoints with a number in their name the newest kMaxUnsaved.
//
// Threads: thread-safe; RunCheckpoints has a thread of its own that writes.
// Errors:  Save(), Retry() and Flush() return an error once something could not be written for
//          SaveOutage::kPatience.
#ifndef DING_WORKER_WORKER_RUN_FOLDER_RUN_CHECKPOINTS_H_
#define DING_WORKER_WORKER_RUN_FOLDER_RUN_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/state.h"
#include "ding_worker/worker/run_folder/save_outage.h"

namespace ding {

class RunCheckpoints {
 public:
  static constexpr size_t kResumePointsKept = 2;
  static constexpr size_t kMaxUnsaved = 4;

  explicit RunCheckpoints(const std::string& exp_dir, const Clock* clock = Clock::Real());

  // `components` must be snapshots.
  absl::Status Save(absl::string_view name, CheckpointInfo info,
                    std::vector<CheckpointComponent> components);
  // `position` grows from point to point: it is the number of env steps, or of train iterations in
  // a run without envs.
  void SaveResumePoint(int64_t position, CheckpointInfo info,
                       std::vector<CheckpointComponent> components);

  // Begins to write again what could not be written, at most every SaveOutage::kRetryPeriod. Cheap
  // if nothing is left to write.
  absl::Status Retry();
  // Whether nothing is being written or waiting to be written.
  bool idle() const { return writer_.idle(); }
  // Waits until everything is written, or has failed; returns the error of what has failed.
  absl::Status Flush();
  // The same, but tries again as SaveOutage::Wait() does.
  absl::Status Flush(const std::function<bool()>& stop);

 private:
  struct Job;

  void Start(std::shared_ptr<Job> job);
  void Write(const std::shared_ptr<const Job>& job);
  void Finish(const std::shared_ptr<const Job>& job, const absl::Status& status);
  void WriteUnsaved();
  void LimitUnsaved() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveOldResumePoints();

  const std::string folder_;
  SaveOutage outage_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const Job>> newest_
      ABSL_GUARDED_BY(mutex_);  // the jobs that are not written
  std::map<std::string, std::shared_ptr<const Job>> unsaved_
      ABSL_GUARDED_BY(mutex_);  // the jobs in newest_ that failed
  int64_t jobs_ ABSL_GUARDED_BY(mutex_) = 0;
  Timer since_try_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);       // the last one
  bool has_given_up_ ABSL_GUARDED_BY(mutex_) = false;  // a checkpoint, in this outage
  absl::Status error_ ABSL_GUARDED_BY(mutex_);         // that ends the run
  CheckpointWriter writer_;                            // last: its thread uses the others
};

// Logs the event that the checkpoint at `path` is written; `more` continues the sentence.
void LogSavedCheckpoint(const std::string& path, const CheckpointInfo& info,
                        absl::string_view more = "");

struct ResumePoint {
  CheckpointReader checkpoint;
  int64_t position;
};

// Opens the newest intact resume point of a run; none if there is none. Damaged ones are skipped
// with a warning; one of another version is an error (see CheckpointReader).
absl::StatusOr<std::optional<ResumePoint>> OpenNewestResumePoint(const std::string& exp_dir);

// Tidies up the checkpoints of a run before it continues from the resume point at `position` (-1:
// from its beginning): finishes or removes what a killed process left half written, and removes
// later resume points. `folder` is the checkpoints' folder.
absl::Status CleanUpCheckpoints(const std::string& exp_dir, int64_t position,
                                absl::string_view folder = "ckpt");

// Moves the checkpoints of a run that has no resume point out of the way, before it begins anew:
// they belong to another history. Returns their new folder, below `exp_dir`; empty if there are
// none.
absl::StatusOr<std::string> SetCheckpointsAside(const std::string& exp_dir);

// The component of a checkpoint that `component`, an object with SaveState(StateWriter*), saves;
// `component` must live until it is copied.
template <typename T>
CheckpointComponent ComponentOf(absl::string_view name, const T* component) {
  return {std::string(name),
          [component](StateWriter* writer) { return component->SaveState(writer); }};
}

// Copies what each component saves, so that all of them are snapshots.
absl::StatusOr<std::vector<CheckpointComponent>> CopyComponents(
    std::vector<CheckpointComponent> components);

// Passes the component named `name` to `load`.
template <typename F>
absl::Status LoadComponent(const CheckpointReader& checkpoint, absl::string_view name, F load) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> reader, checkpoint.Component(name));
  return Annotate(load(reader.get()), absl::StrCat("resume point, ", name));
}
// The same for an object that has LoadState(StateReader*).
template <typename T>
absl::Status LoadComponent(const CheckpointReader& checkpoint, absl::string_view name,
                           T* component) {
  return LoadComponent(checkpoint, name,
                       [component](StateReader* reader) { return component->LoadState(reader); });
}

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_FOLDER_RUN_CHECKPOINTS_H_
