// Writes checkpoints in the background. The caller takes snapshots of its components, passes them on and continues; a
// thread writes the checkpoints, one after the other.
//
// Ownership: the writer holds the snapshots until their checkpoint is written.
// Threads:   thread-safe; it calls `done` on its own thread.
//
// Example:
//   CheckpointWriter writer;
//   DING_ASSIGN_OR_RETURN(StateSnapshot model, CopyState(save_model));
//   writer.Write(path, info, {{"model", std::move(model)}}, [](const absl::Status& status) {...});
#ifndef DING_WORKER_DATA_CHECKPOINT_WRITER_H_
#define DING_WORKER_DATA_CHECKPOINT_WRITER_H_

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/data/checkpoint.h"

namespace ding {

class CheckpointWriter {
 public:
  // The most checkpoints that wait while another one is written. More of them would only take memory.
  static constexpr size_t kMaxWaiting = 2;

  CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  // Waits until all checkpoints are written.
  ~CheckpointWriter();

  // Writes the checkpoint as WriteCheckpoint() does and calls `done` with the result. The `save` of each component must
  // be a snapshot, because another thread calls it. If kMaxWaiting checkpoints wait already, Write() first waits until
  // there is room, for as long as the disk takes. If the system refuses the thread, Write() itself writes the checkpoint.
  void Write(std::string path, CheckpointInfo info, std::vector<CheckpointComponent> components,
             std::function<void(const absl::Status&)> done) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether no checkpoint is being written or waits.
  bool idle() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until idle(), for as long as the disk takes.
  void Flush() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Job {
    std::string path;
    CheckpointInfo info;
    std::vector<CheckpointComponent> components;
    std::function<void(const absl::Status&)> done;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;  // signalled when a member below has changed
  std::deque<Job> waiting_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace ding

#endif  // DING_WORKER_DATA_CHECKPOINT_WRITER_H_
