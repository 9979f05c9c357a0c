#include "ding_worker/data/checkpoint_writer.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/thread.h"

namespace ding {

CheckpointWriter::CheckpointWriter() {
  absl::StatusOr<std::thread> thread = StartThread("writing checkpoints", [this] { Run(); });
  if (thread.ok()) thread_ = *std::move(thread);
}

CheckpointWriter::~CheckpointWriter() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::Write(std::string path, CheckpointInfo info,
                             std::vector<CheckpointComponent> components,
                             std::function<void(const absl::Status&)> done) {
  if (!thread_.joinable()) return done(WriteCheckpoint(path, info, components));
  MutexLock lock(&mutex_);
  while (waiting_.size() >= kMaxWaiting) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
  waiting_.push_back({std::move(path), std::move(info), std::move(components), std::move(done)});
  changed_.SignalAll();
}

bool CheckpointWriter::idle() const {
  MutexLock lock(&mutex_);
  return waiting_.empty() && !writing_;
}

void CheckpointWriter::Flush() {
  MutexLock lock(&mutex_);
  while (writing_ || !waiting_.empty()) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
}

void CheckpointWriter::Run() {
  while (true) {
    Job job;
    {
      MutexLock lock(&mutex_);
      writing_ = false;
      changed_.SignalAll();
      while (waiting_.empty() && !closing_) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
      if (waiting_.empty()) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
      writing_ = true;
      changed_.SignalAll();
    }
    job.done(WriteCheckpoint(job.path, job.info, job.components));
  }
}

}  // namespace ding
