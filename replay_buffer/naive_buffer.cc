#include "ding_worker/replay_buffer/naive_buffer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/monitors/periodic_thruput_monitor.h"
#include "ding_worker/replay_buffer/selection/draw_source.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"

namespace ding {
namespace {

RowCapacity CapacityOf(const NaiveReplayBuffer::Options& options) {
  return {options.capacity_rows, options.capacity_bytes, /*owner_row_bytes=*/0, options.files};
}

absl::StatusOr<int64_t> WindowAt(const std::function<int64_t(int64_t)>& window_rows_at,
                                 int64_t envstep) {
  DING_ASSIGN_OR_RETURN(const int64_t rows,
                        CallUser("window_rows", [&]() -> absl::StatusOr<int64_t> {
                          return window_rows_at(envstep);
                        }));
  if (rows >= 1) return rows;
  return absl::InvalidArgumentError(
      absl::StrCat("the window of env step ", envstep, " is ", rows, " rows, expected at least 1"));
}

}  // namespace

NaiveReplayBuffer::NaiveReplayBuffer(const Options& options)
    : ComposedBuffer({options.name, options.seed, CapacityOf(options), options.metrics,
                      options.periodic_thruput_seconds, options.clock, options.on_removed},
                     {std::make_unique<RowDraws>(options.nstep, options.gamma),
                      SelectorOr<UniformSelector>(options.selector), /*limiter=*/nullptr}) {}

std::vector<std::string> NaiveReplayBuffer::Problems(const Options& options) {
  std::vector<std::string> problems;
  AppendRingProblems(CapacityOf(options), options.nstep, options.gamma, &problems);
  PeriodicThruputMonitor::AppendProblems(options.periodic_thruput_seconds, &problems);
  return problems;
}

absl::StatusOr<std::unique_ptr<NaiveReplayBuffer>> NaiveReplayBuffer::Create(
    const Options& options) {
  DING_RETURN_IF_ERROR(ProblemsToStatus(Problems(options), options.name));
  return std::unique_ptr<NaiveReplayBuffer>(new NaiveReplayBuffer(options));
}

ElasticReplayBuffer::ElasticReplayBuffer(Options options, std::unique_ptr<NaiveReplayBuffer> ring,
                                         int64_t window_rows)
    : name_(std::move(options.ring.name)),
      window_rows_at_(std::move(options.window_rows)),
      ring_(std::move(ring)),
      window_rows_(window_rows) {}

absl::StatusOr<std::unique_ptr<ElasticReplayBuffer>> ElasticReplayBuffer::Create(Options options) {
  if (options.window_rows == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.ring.name, ": window_rows is null, expected a function of the env step"));
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<NaiveReplayBuffer> ring,
                        NaiveReplayBuffer::Create(options.ring));
  const absl::StatusOr<int64_t> window_rows = WindowAt(options.window_rows, 0);
  if (!window_rows.ok()) return Annotate(window_rows.status(), options.ring.name);
  return std::unique_ptr<ElasticReplayBuffer>(
      new ElasticReplayBuffer(std::move(options), std::move(ring), *window_rows));
}

absl::Status ElasticReplayBuffer::Push(const SegmentBatch& data, int64_t cur_collector_envstep) {
  if (cur_collector_envstep < 0) return ring_->Push(data, cur_collector_envstep);
  int64_t window_rows;
  int64_t number;
  {
    MutexLock lock(&mutex_);
    const absl::StatusOr<int64_t> found = WindowAt(window_rows_at_, cur_collector_envstep);
    if (!found.ok()) return Annotate(found.status(), name_);
    window_rows = *found;
    number = ++pushes_begun_;
  }
  // The lock is not held here, because the on_removed callback may call this buffer.
  DING_RETURN_IF_ERROR(ring_->Push(data, cur_collector_envstep));
  MutexLock lock(&mutex_);
  if (number > window_of_push_) {
    window_of_push_ = number;
    window_rows_ = window_rows;
  }
  return absl::OkStatus();
}

absl::StatusOr<Batch> ElasticReplayBuffer::Sample(int64_t size, int64_t cur_learner_iter,
                                                  const SampleOptions& options) {
  SampleOptions in_window = options;
  const int64_t window = window_rows();
  in_window.newest = std::min(options.newest.value_or(window), window);
  return ring_->Sample(size, cur_learner_iter, in_window);
}

absl::Status ElasticReplayBuffer::Update(const PriorityInfo& info) { return ring_->Update(info); }

void ElasticReplayBuffer::Clear() { ring_->Clear(); }

absl::Status ElasticReplayBuffer::Close() { return ring_->Close(); }

int64_t ElasticReplayBuffer::count() const { return std::min(ring_->count(), window_rows()); }

int64_t ElasticReplayBuffer::push_count() const { return ring_->push_count(); }

int64_t ElasticReplayBuffer::window_rows() const {
  MutexLock lock(&mutex_);
  return window_rows_;
}

StateSnapshot ElasticReplayBuffer::Snapshot() const {
  MutexLock lock(&mutex_);
  return [ring = ring_->Snapshot(), window_rows = window_rows_](StateWriter* writer) {
    DING_RETURN_IF_ERROR(writer->WriteInt("window_rows", window_rows));
    ScopedStateWriter ring_writer(writer, "ring");
    return ring(&ring_writer);
  };
}

absl::Status ElasticReplayBuffer::LoadState(StateReader* reader) {
  const absl::StatusOr<int64_t> window_rows = reader->ReadInt("window_rows");
  if (!window_rows.ok()) return Annotate(window_rows.status(), name_);
  if (*window_rows < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": saved window_rows is ", *window_rows, ", expected at least 1"));
  }
  MutexLock lock(&mutex_);
  ScopedStateReader ring_reader(reader, "ring");
  DING_RETURN_IF_ERROR(ring_->LoadState(&ring_reader));
  window_rows_ = *window_rows;
  window_of_push_ = pushes_begun_;
  return absl::OkStatus();
}

}  // namespace ding
