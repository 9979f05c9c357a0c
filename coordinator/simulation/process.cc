// A process of the coordinator, with a commander and a buffer that check what is done with them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/coordinator/simulation/world.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"

namespace ding {
namespace internal_simulation {

using internal_coordinator::RunDriver;

void CheckedCommander::NoteOver(const std::string& task_id) {
  const bool was_open = given_.erase(task_id) > 0;
  if (!was_open && recovered_) {
    process_->world->loop.Break("every task is running or over",
                                absl::StrCat(task_id, " is over for a second time"));
  }
}

void CheckedCommander::MayFail() const {
  if (process_->user_code_fails) throw std::runtime_error("the simulation lets it fail");
}

// A buffer that notes what is pushed, and checks what is drawn.
class CheckedBuffer : public IBuffer {
 public:
  CheckedBuffer(std::unique_ptr<IBuffer> buffer, Process* process)
      : buffer_(std::move(buffer)), process_(process) {}

  ~CheckedBuffer() override { process_->buffer = nullptr; }

  absl::Status Push(const SegmentBatch& data, int64_t envstep) override {
    if (process_->user_code_fails) throw std::bad_alloc();
    const absl::Status status = buffer_->Push(data, envstep);
    if (!status.ok()) return status;
    const absl::Span<const int64_t> chunk = data.rows.column<int64_t>(kColumnChunk);
    const absl::Span<const int64_t> row = data.rows.column<int64_t>(kColumnRow);
    for (size_t i = 0; i < chunk.size(); ++i) process_->pushed.emplace_back(chunk[i], row[i]);
    process_->world->loop.Trace("coordinator of epoch ", process_->epoch, " pushes ", chunk.size(),
                                " rows of ", ChunkKey(chunk[0]));
    return status;
  }
  absl::StatusOr<Batch> Sample(int64_t size, int64_t iter, const SampleOptions& options) override {
    absl::StatusOr<Batch> batch = buffer_->Sample(size, iter, options);
    if (!batch.ok()) return batch;
    const absl::Span<const int64_t> chunk = batch->column<int64_t>(kColumnChunk);
    const absl::Span<const int64_t> row = batch->column<int64_t>(kColumnRow);
    const std::vector<Row>& pushed = process_->pushed;
    const size_t first = pushed.size() > kCapacity ? pushed.size() - kCapacity : 0;
    for (size_t i = 0; i < chunk.size(); ++i) {
      const Row drawn(chunk[i], row[i]);
      if (std::find(pushed.begin() + static_cast<ptrdiff_t>(first), pushed.end(), drawn) ==
          pushed.end()) {
        process_->world->loop.Break(
            "no row is drawn after it was evicted",
            absl::StrCat("row ", drawn.second, " of ", ChunkKey(drawn.first)));
      }
    }
    return batch;
  }
  absl::Status Update(const PriorityInfo& info) override { return buffer_->Update(info); }
  void Clear() override { buffer_->Clear(); }
  int64_t count() const override { return buffer_->count(); }
  int64_t push_count() const override { return buffer_->push_count(); }
  StateSnapshot Snapshot() const override { return buffer_->Snapshot(); }
  absl::Status LoadState(StateReader* reader) override { return buffer_->LoadState(reader); }

 private:
  const std::unique_ptr<IBuffer> buffer_;
  Process* const process_;
};

class ProcessSender : public CoordinatorSender {
 public:
  explicit ProcessSender(Process* process) : process_(process) {}
  void Send(uint32_t worker, const CoordinatorMessage& message) override {
    process_->world->network.Deliver(process_, worker, message);
  }

 private:
  Process* const process_;
};

Process::Process(World* all, int64_t ahead_nanos)
    : world(all),
      clock(all->loop.clock(), ahead_nanos),
      sender(std::make_unique<ProcessSender>(this)) {
  std::unique_ptr<Log> log = world->disk.OpenLog();
  epoch = world->disk.epoch();
  journal = Journal::Open(std::move(log)).value();
  ComponentDeps deps;
  deps.clock = &clock;
  SoloCommander::Options solo;
  solo.collector_task_space = 2;
  solo.eval_interval = 10;
  auto made =
      std::make_unique<CheckedCommander>(*SoloCommander::Create(solo, nullptr, deps).value(), this);
  commander = made.get();
  Coordinator::Options options;
  options.run = "run";
  options.collectors = 2;
  options.wanted_collectors = 2;
  options.max_env_step = kMaxEnvStep;
  options.saved_policies = {};
  if (world->limited) options.replay_ratio = ReplayRatioLimiter::Options{0.2, 8, 4, 16};
  Coordinator::Parts parts;
  parts.commander = std::move(made);
  parts.make_buffer = [this](const std::string& /*id*/, absl::Span<const std::string> /*settings*/,
                             OnRemoved on_removed) -> absl::StatusOr<std::unique_ptr<IBuffer>> {
    NaiveReplayBuffer::Options naive;
    naive.capacity_rows = kCapacity;
    naive.on_removed = std::move(on_removed);
    absl::StatusOr<std::unique_ptr<IBuffer>> buffer = NaiveReplayBuffer::Create(naive);
    if (!buffer.ok()) return buffer.status();
    auto checked = std::make_unique<CheckedBuffer>(*std::move(buffer), this);
    this->buffer = checked.get();
    return checked;
  };
  parts.delete_key = [this](const std::string& key) {
    world->coordinators.DeleteKey(*this, key);
    return absl::OkStatus();
  };
  parts.list_keys = [this](const std::string& prefix) { return world->store.List(prefix); };
  parts.sender = sender.get();
  parts.journal = journal.get();
  driver = std::make_unique<RunDriver>(options, std::move(parts), clock.MonotonicNanos());
}

}  // namespace internal_simulation
}  // namespace ding
