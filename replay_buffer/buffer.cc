#include "ding_worker/replay_buffer/buffer.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"

namespace ding {
namespace {

constexpr char kBuffer[] = "the buffer";

class GuardedBuffer : public IBuffer {
 public:
  explicit GuardedBuffer(std::unique_ptr<IBuffer> buffer) : buffer_(std::move(buffer)) {}

  absl::Status Push(const SegmentBatch& data, int64_t cur_collector_envstep) override {
    DING_RETURN_IF_ERROR(TakeThrown());
    return CallUser(kBuffer, [&] { return buffer_->Push(data, cur_collector_envstep); });
  }
  absl::StatusOr<Batch> Sample(int64_t size, int64_t cur_learner_iter,
                               const SampleOptions& options) override {
    DING_RETURN_IF_ERROR(TakeThrown());
    return CallUser(kBuffer, [&] { return buffer_->Sample(size, cur_learner_iter, options); });
  }
  absl::Status Update(const PriorityInfo& info) override {
    DING_RETURN_IF_ERROR(TakeThrown());
    return CallUser(kBuffer, [&] { return buffer_->Update(info); });
  }
  void Clear() override {
    Guard([&] { buffer_->Clear(); });
  }
  absl::Status Close() override {
    return CallUser(kBuffer, [&] { return buffer_->Close(); });
  }
  bool draws_sequences() const override {
    bool result = false;
    Guard([&] { result = buffer_->draws_sequences(); });
    return result;
  }
  int64_t count() const override {
    int64_t result = 0;
    Guard([&] { result = buffer_->count(); });
    return result;
  }
  int64_t push_count() const override {
    int64_t result = 0;
    Guard([&] { result = buffer_->push_count(); });
    return result;
  }
  StateSnapshot Snapshot() const override {
    StateSnapshot snapshot;
    const absl::Status status = CallUser(kBuffer, [&] {
      snapshot = buffer_->Snapshot();
      return absl::OkStatus();
    });
    return [status, snapshot = std::move(snapshot)](StateWriter* writer) {
      DING_RETURN_IF_ERROR(status);
      return CallUser(kBuffer, [&] { return snapshot(writer); });
    };
  }
  absl::Status LoadState(StateReader* reader) override {
    return CallUser(kBuffer, [&] { return buffer_->LoadState(reader); });
  }
  std::string lost_rows() const override {
    std::string result;
    Guard([&] { result = buffer_->lost_rows(); });
    return result;
  }

 private:
  // Keeps the first error for TakeThrown().
  template <typename Call>
  void Guard(const Call& call) const {
    const absl::Status status = CallUser(kBuffer, [&call] {
      call();
      return absl::OkStatus();
    });
    if (status.ok()) return;
    MutexLock lock(&mutex_);
    thrown_.Update(status);
  }
  absl::Status TakeThrown() const {
    MutexLock lock(&mutex_);
    return std::exchange(thrown_, absl::OkStatus());
  }

  const std::unique_ptr<IBuffer> buffer_;
  mutable Mutex mutex_;
  mutable absl::Status thrown_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<IBuffer> GuardBuffer(std::unique_ptr<IBuffer> buffer) {
  return std::make_unique<GuardedBuffer>(std::move(buffer));
}

}  // namespace ding
