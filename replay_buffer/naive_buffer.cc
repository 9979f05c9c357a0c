#include "ding_worker/replay_buffer/naive_buffer.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/buffer_checks.h"
#include "ding_worker/replay_buffer/row_layout.h"
#include "ding_worker/replay_buffer/row_store.h"

namespace ding {
namespace {

constexpr int64_t kStateVersion = 1;
constexpr char kStateType[] = "naive";

RowCapacity CapacityOf(const NaiveReplayBuffer::Options& options) {
  return {options.capacity_rows, options.capacity_bytes};
}

}  // namespace

NaiveReplayBuffer::NaiveReplayBuffer(const Options& options)
    : options_(options),
      draw_(Rng(options.seed, absl::StrCat(options.name, "/sample"))),
      monitor_({options.periodic_thruput_seconds, options.name, options.metrics, options.clock}) {}

std::vector<std::string> NaiveReplayBuffer::Problems(const Options& options) {
  std::vector<std::string> problems;
  AppendRingProblems(CapacityOf(options), options.nstep, options.gamma, &problems);
  PeriodicThruputMonitor::AppendProblems(options.periodic_thruput_seconds, &problems);
  return problems;
}

absl::StatusOr<std::unique_ptr<NaiveReplayBuffer>> NaiveReplayBuffer::Create(
    const Options& options) {
  DING_RETURN_IF_ERROR(BufferProblemsToStatus(options.name, Problems(options)));
  return std::unique_ptr<NaiveReplayBuffer>(new NaiveReplayBuffer(options));
}

absl::StatusOr<std::shared_ptr<TransitionReader>> NaiveReplayBuffer::MakeReader(
    const SegmentBatch& data) const {
  DING_ASSIGN_OR_RETURN(
      std::shared_ptr<RowStore> store,
      RowStore::Create(data.rows.spec_ptr(), data.final_obs.spec().size(), CapacityOf(options_)));
  return TransitionReader::Create(std::move(store), options_.nstep, options_.gamma);
}

absl::StatusOr<std::unique_ptr<HeldItems>> NaiveReplayBuffer::MakeHeld(
    const RowStore& store) const {
  if (options_.on_removed == nullptr) return nullptr;
  return HeldItems::Create(store);
}

absl::Status NaiveReplayBuffer::Push(const SegmentBatch& data, int64_t /*cur_collector_envstep*/) {
  DING_RETURN_IF_ERROR(Annotate(ValidateSegments(data), options_.name));
  if (data.size() == 0) return absl::OkStatus();
  std::optional<ThruputReport> report;
  RemovedItems removed;
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(PushChecked(data, &removed));
    report = monitor_.Pushed(data.size(), CountLocked());
  }
  WriteThruput(report, options_.name, options_.metrics.get());
  TellRemoved(options_.on_removed, removed);
  return absl::OkStatus();
}

absl::Status NaiveReplayBuffer::PushChecked(const SegmentBatch& data, RemovedItems* removed) {
  std::shared_ptr<TransitionReader> reader = reader_;
  std::unique_ptr<HeldItems> held;
  if (reader == nullptr) {
    absl::StatusOr<std::shared_ptr<TransitionReader>> made = MakeReader(data);
    if (!made.ok()) return Annotate(made.status(), options_.name);
    reader = *std::move(made);
    absl::StatusOr<std::unique_ptr<HeldItems>> none = MakeHeld(reader->store());
    if (!none.ok()) return Annotate(none.status(), options_.name);
    held = *std::move(none);
  }
  DING_RETURN_IF_ERROR(reader->store().CheckLayout(data, options_.name));
  DING_RETURN_IF_ERROR(Annotate(reader->store().Append(data), options_.name));
  if (reader_ == nullptr) held_ = std::move(held);
  reader_ = std::move(reader);
  const RowStore& store = reader_->store();
  if (held_ != nullptr) held_->Append(data.rows, store.begin_id(), store.end_id(), removed);
  push_count_ += data.size();
  return absl::OkStatus();
}

absl::StatusOr<Batch> NaiveReplayBuffer::Sample(int64_t size, int64_t /*cur_learner_iter*/,
                                                const SampleOptions& options) {
  std::shared_ptr<TransitionReader> reader;
  std::optional<TransitionDraw> draw;
  std::optional<ThruputReport> report;
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(CheckDraw(size, options));
    reader = reader_;
    DING_RETURN_IF_ERROR(Annotate(reader->Start(size, &draw), options_.name));
    DrawIds(options, draw->ids());
    reader->Resolve(&*draw);
    report = monitor_.Sampled(size, CountLocked());
  }
  WriteThruput(report, options_.name, options_.metrics.get());
  return reader->Gather(&*draw);
}

absl::Status NaiveReplayBuffer::CheckDraw(int64_t size, const SampleOptions& options) const {
  DING_RETURN_IF_ERROR(Annotate(CheckSampleRequest(size, options), options_.name));
  const int64_t part = PartLocked(options);
  if (part >= (options.replace ? 1 : size)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      options_.name, ": sample of ", size, " rows", options.replace ? "" : ", all different,",
      " from ", part, part == CountLocked() ? " there are" : " newest of those there are"));
}

void NaiveReplayBuffer::DrawIds(const SampleOptions& options, absl::Span<int64_t> ids) {
  const int64_t part = PartLocked(options);
  if (options.replace) {
    draw_.WithReplacement(part, ids);
  } else {
    draw_.WithoutReplacement(part, ids);
  }
  const int64_t first = reader_->store().end_id() - part;
  for (int64_t& id : ids) id += first;
}

absl::Status NaiveReplayBuffer::Update(const PriorityInfo& /*info*/) { return absl::OkStatus(); }

void NaiveReplayBuffer::Clear() {
  RemovedItems removed;
  {
    MutexLock lock(&mutex_);
    push_count_ = 0;
    if (reader_ != nullptr) reader_->store().Clear();
    if (held_ != nullptr) held_->Clear(&removed);
    monitor_.Removed(CountLocked());
  }
  TellRemoved(options_.on_removed, removed);
}

int64_t NaiveReplayBuffer::CountLocked() const {
  return reader_ == nullptr ? 0 : reader_->store().size();
}

int64_t NaiveReplayBuffer::PartLocked(const SampleOptions& options) const {
  return options.newest.has_value() ? std::min(*options.newest, CountLocked()) : CountLocked();
}

int64_t NaiveReplayBuffer::count() const {
  MutexLock lock(&mutex_);
  return CountLocked();
}

int64_t NaiveReplayBuffer::push_count() const {
  MutexLock lock(&mutex_);
  return push_count_;
}

StateSnapshot NaiveReplayBuffer::Snapshot() const {
  MutexLock lock(&mutex_);
  // The reader first, so that it goes last: the snapshot of its rows must not outlive them.
  return
      [reader = reader_, rows = reader_ == nullptr ? StateSnapshot() : reader_->store().Snapshot(),
       capacity = CapacityOf(options_), push_count = push_count_,
       rng = draw_.rng()](StateWriter* writer) -> absl::Status {
        DING_RETURN_IF_ERROR(writer->WriteString("type", kStateType));
        DING_RETURN_IF_ERROR(writer->WriteInt("version", kStateVersion));
        DING_RETURN_IF_ERROR(SaveCapacity(capacity, writer));
        DING_RETURN_IF_ERROR(writer->WriteInt("push_count", push_count));
        DING_RETURN_IF_ERROR(writer->WriteRng("rng", rng));
        DING_RETURN_IF_ERROR(writer->WriteInt("has_rows", reader != nullptr));
        if (reader == nullptr) return absl::OkStatus();
        ScopedStateWriter store_writer(writer, "store");
        return rows(&store_writer);
      };
}

absl::Status NaiveReplayBuffer::LoadState(StateReader* reader) {
  return Annotate(LoadChecked(reader), options_.name);
}

absl::Status NaiveReplayBuffer::LoadChecked(StateReader* reader) {
  DING_RETURN_IF_ERROR(CheckSavedType(reader, kStateType));
  DING_RETURN_IF_ERROR(CheckSavedVersion(reader, kStateVersion));
  DING_RETURN_IF_ERROR(CheckSavedCapacity(reader, CapacityOf(options_)));
  DING_ASSIGN_OR_RETURN(const int64_t push_count, reader->ReadInt("push_count"));
  Rng rng(0, "");
  DING_RETURN_IF_ERROR(reader->ReadRng("rng", &rng));
  DING_ASSIGN_OR_RETURN(const int64_t has_rows, reader->ReadInt("has_rows"));
  std::shared_ptr<TransitionReader> loaded;
  std::unique_ptr<HeldItems> held;
  if (has_rows != 0) {
    ScopedStateReader store_reader(reader, "store");
    DING_ASSIGN_OR_RETURN(std::shared_ptr<RowStore> store,
                          RowStore::Load(&store_reader, CapacityOf(options_)));
    DING_ASSIGN_OR_RETURN(
        loaded, TransitionReader::Create(std::move(store), options_.nstep, options_.gamma));
    DING_ASSIGN_OR_RETURN(held, MakeHeld(loaded->store()));
  }
  DING_RETURN_IF_ERROR(CheckPushCount(push_count, loaded == nullptr ? nullptr : &loaded->store()));
  MutexLock lock(&mutex_);
  if (reader_ != nullptr && loaded != nullptr) {
    DING_RETURN_IF_ERROR(CheckSameRows(reader_->store(), loaded->store()));
  }
  reader_ = std::move(loaded);
  held_ = std::move(held);
  push_count_ = push_count;
  draw_.set_rng(rng);
  monitor_.Loaded(CountLocked());
  return absl::OkStatus();
}

}  // namespace ding
