// Writes checkpoints behind the program: whoever saves takes snapshots of its components, hands them
// over and goes on; a thread writes them, one after the other.
//
// Ownership: the writer holds the snapshots until their checkpoint is written.
// Threads:   thread-safe; `done` is called on the writer's own thread.
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
  // Checkpoints that wait while another is written; more of them would only take memory.
  static constexpr size_t kMaxWaiting = 2;

  CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  // Writes what waits.
  ~CheckpointWriter();

  // Writes as WriteCheckpoint() does and tells `done` what came of it. Each component's `save` must
  // be a snapshot: it is called on another thread. Waits, for as long as the disk takes, while
  // kMaxWaiting others do. Where the system
  // refuses the thread, Write() writes itself.
  void Write(std::string path, CheckpointInfo info, std::vector<CheckpointComponent> components,
             std::function<void(const absl::Status&)> done) ABSL_LOCKS_EXCLUDED(mutex_);

  // Nothing is being written or waits.
  bool idle() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits, for as long as the disk takes, until that is so.
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
  CondVar changed_;  // any of what follows
  std::deque<Job> waiting_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace ding

#endif  // DING_WORKER_DATA_CHECKPOINT_WRITER_H_
