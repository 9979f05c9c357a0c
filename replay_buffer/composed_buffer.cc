#include "ding_worker/replay_buffer/composed_buffer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"
#include "ding_worker/replay_buffer/storage/row_store.h"

namespace ding {
namespace {

constexpr absl::Duration kRecheckPeriod = absl::Milliseconds(10);

// The ranks [first, end) of the candidates that a draw is made from; there may be none.
struct Ranks {
  int64_t first;
  int64_t end;
};

Ranks RanksToDrawFrom(const SampleOptions& options, int64_t count) {
  const int64_t newest = std::min(options.newest.value_or(count), count);
  const AgeRange range = options.range.value_or(AgeRange());
  // The rank of a number in the range.
  const auto rank_of = [count, newest](int64_t number) {
    return count - newest + std::clamp<int64_t>(number < 0 ? newest + number : number, 0, newest);
  };
  const int64_t first = rank_of(range.begin);
  return {first, range.end.has_value() ? std::max(first, rank_of(*range.end)) : count};
}

// Calls code of a user that returns nothing.
template <typename Call>
absl::Status CallVoid(absl::string_view what, Call&& call) {
  return CallUser(what, [&call] {
    call();
    return absl::OkStatus();
  });
}

// Writes what a part saves, if it saves anything.
absl::Status WriteIfAny(const StateSnapshot& snapshot, StateWriter* writer) {
  return snapshot == nullptr ? absl::OkStatus() : snapshot(writer);
}

}  // namespace

ComposedBuffer::ComposedBuffer(Options options, Parts parts)
    : options_(std::move(options)),
      kind_(std::move(parts.kind)),
      selector_(std::move(parts.selector)),
      limiter_(std::move(parts.limiter)),
      remover_(std::move(parts.remover)),
      rng_(options_.seed, absl::StrCat(options_.name, "/sample")),
      monitor_(
          {options_.periodic_thruput_seconds, options_.name, options_.metrics, options_.clock}) {}

absl::StatusOr<std::unique_ptr<ComposedBuffer::Contents>> ComposedBuffer::MakeContents(
    std::shared_ptr<RowStore> store) const {
  auto contents = std::make_unique<Contents>();
  if (options_.on_removed != nullptr) {
    DING_ASSIGN_OR_RETURN(contents->held, ItemBook::Create(*store));
  }
  DING_ASSIGN_OR_RETURN(contents->source, kind_->MakeSource(std::move(store)));
  return contents;
}

absl::StatusOr<std::unique_ptr<ComposedBuffer::Contents>> ComposedBuffer::ContentsFor(
    const SegmentBatch& data) const {
  DING_ASSIGN_OR_RETURN(
      std::shared_ptr<RowStore> store,
      RowStore::Create(data.rows.spec_ptr(), data.final_obs.spec().size(), options_.capacity));
  return MakeContents(std::move(store));
}

absl::Status ComposedBuffer::Push(const SegmentBatch& data, int64_t cur_collector_envstep) {
  DING_RETURN_IF_ERROR(Annotate(ValidateSegments(data), options_.name));
  if (data.size() == 0) return absl::OkStatus();
  std::optional<ThruputReport> report;
  RemovedItems removed;
  absl::Status pushed;
  {
    MutexLock lock(&mutex_);
    pushed = PushChecked(data, &removed);
    if (pushed.ok()) {
      last_push_envstep_ = cur_collector_envstep;
      report = monitor_.Pushed(data.size(), RowsLocked());
    }
  }
  WriteThruput(report, options_.name, options_.metrics.get());
  pushed.Update(Tell(removed));
  return Annotate(pushed, options_.name);
}

absl::Status ComposedBuffer::Tell(const RemovedItems& removed) const {
  return CallVoid("on_removed", [&] { TellRemoved(options_.on_removed, removed); });
}

absl::Status ComposedBuffer::PushChecked(const SegmentBatch& data, RemovedItems* removed) {
  DING_RETURN_IF_ERROR(WaitUntilPushAllowed(data.size()));
  // If the first push fails, the contents that it made are dropped: the next push may have other
  // fields.
  std::unique_ptr<Contents> made;
  if (contents_ == nullptr) {
    DING_ASSIGN_OR_RETURN(made, ContentsFor(data));
  }
  Contents& contents = made != nullptr ? *made : *contents_;
  RowStore& store = contents.source->store();
  DING_RETURN_IF_ERROR(store.disk_status());
  DING_RETURN_IF_ERROR(store.CheckLayout(data, "rows"));
  DING_RETURN_IF_ERROR(contents.source->Check(data));
  const int64_t first_id = store.end_id();
  DING_RETURN_IF_ERROR(store.Append(data));
  contents.source->Append(data, first_id);
  absl::Status noted;
  if (remover_ != nullptr) {
    noted = CallVoid("the remover", [&] { remover_->Append(data, first_id); });
  }
  if (contents.held != nullptr) {
    contents.held->Append(data.rows, store.begin_id(), store.end_id(), removed);
  }
  if (made != nullptr) contents_ = std::move(made);
  push_count_ += data.size();
  if (limiter_ != nullptr) limiter_->CountPush(data.size());
  changed_.SignalAll();
  return noted;
}

absl::Status ComposedBuffer::CheckOpen() const {
  return closed_ ? absl::FailedPreconditionError("is closed") : absl::OkStatus();
}

// False when it has waited for as long as it may.
bool ComposedBuffer::WaitForChange(const Timer& waited) {
  if (closed_) return false;
  const absl::Duration left = options_.max_wait - waited.Elapsed();
  if (left <= absl::ZeroDuration()) return false;
  // Rates also change as time passes.
  changed_.WaitFor(&mutex_, std::min(left, kRecheckPeriod));
  return true;
}

absl::Status ComposedBuffer::WaitUntilPushAllowed(int64_t rows) {
  if (limiter_ == nullptr) return CheckOpen();
  const Timer waited(Clock::Real());
  absl::Status status;
  do {
    status = CheckOpen();
    if (status.ok()) status = limiter_->CheckPush(rows);
  } while (!status.ok() && WaitForChange(waited));
  return status;
}

absl::Status ComposedBuffer::WaitUntilDrawAllowed(int64_t size, int64_t iter,
                                                  const SampleOptions& options,
                                                  RemovedItems* removed) {
  const auto allowed = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::Status {
    DING_RETURN_IF_ERROR(CheckOpen());
    if (contents_ != nullptr) {
      ItemBook* const held = contents_->held.get();
      const auto retired = [held, removed](int64_t begin, int64_t end) {
        if (held != nullptr) held->Remove(begin, end, removed);
      };
      contents_->source->RetireStale(iter, retired);
      DING_RETURN_IF_ERROR(RetireChosen(iter, retired));
    }
    DING_RETURN_IF_ERROR(CheckEnough(size, options));
    return limiter_ == nullptr ? absl::OkStatus() : limiter_->CheckSample(size);
  };
  absl::Status status = allowed();
  if (status.ok() || options_.max_wait <= absl::ZeroDuration()) return status;
  const Timer waited(Clock::Real());
  while (!status.ok() && WaitForChange(waited)) status = allowed();
  return status;
}

absl::Status ComposedBuffer::RetireChosen(int64_t iter, RetiredRows retired) {
  if (remover_ == nullptr) return absl::OkStatus();
  DrawSource& source = *contents_->source;
  chosen_.clear();
  DING_RETURN_IF_ERROR(
      CallUser("the remover", [&] { return remover_->Remove(source, iter, &chosen_); }));
  for (const int64_t id : chosen_) source.Retire(id, retired);
  return absl::OkStatus();
}

absl::Status ComposedBuffer::CheckEnough(int64_t size, const SampleOptions& options) const {
  const int64_t count = CountLocked();
  const int64_t newest = std::min(options.newest.value_or(count), count);
  const Ranks ranks = RanksToDrawFrom(options, count);
  const double needed = options.replace ? 1 : kind_->NeededFor(size);
  if (static_cast<double>(ranks.end - ranks.first) >= needed) {
    return kind_->CheckSize(size, options.sequence);
  }
  const bool distinct = !options.replace && !selector_->ByPriority();
  const int64_t rows = contents_ == nullptr ? 0 : contents_->source->store().size();
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot draw ", size, distinct ? " distinct " : " ", kind_->candidates(),
      newest < count ? absl::StrCat(" from the newest ", newest) : "",
      options.range.has_value() ? absl::StrCat(" from range ", AgeRangeText(*options.range),
                                               ", which has ", ranks.end - ranks.first)
                                : "",
      ": the buffer holds ", count, count == rows ? "" : absl::StrCat(" in ", rows, " rows"),
      needed > static_cast<double>(size) ? absl::StrCat(", expected at least ", needed) : "",
      count == 0 && push_count_ > 0 ? contents_->source->WhyNoCandidates() : ""));
}

absl::StatusOr<Batch> ComposedBuffer::Sample(int64_t size, int64_t cur_learner_iter,
                                             const SampleOptions& options) {
  RemovedItems removed;
  absl::StatusOr<Batch> batch = SampleChecked(size, cur_learner_iter, options, &removed);
  const absl::Status told = Tell(removed);
  if (!batch.ok()) return Annotate(batch.status(), options_.name);
  if (!told.ok()) return Annotate(told, options_.name);
  return batch;
}

absl::StatusOr<Batch> ComposedBuffer::SampleChecked(int64_t size, int64_t iter,
                                                    const SampleOptions& options,
                                                    RemovedItems* removed) {
  DING_RETURN_IF_ERROR(CheckSampleRequest(size, options));
  if (options.sequence.has_value()) {
    DING_RETURN_IF_ERROR(kind_->CheckSequence(*options.sequence));
  }
  std::shared_ptr<DrawSource> source;
  std::optional<TransitionDraw> draw;
  DrawFacts facts;
  std::optional<ThruputReport> report;
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(WaitUntilDrawAllowed(size, iter, options, removed));
    source = contents_->source;
    const Ranks ranks = RanksToDrawFrom(options, source->size());
    const DrawRequest request = {
        size,  ranks.first, ranks.end,         options.replace, options.sequence, selector_.get(),
        &rng_, iter,        last_push_envstep_};
    const Rng before = rng_;
    const absl::Status drawn = source->Draw(request, &draw);
    if (!drawn.ok()) {
      rng_ = before;
      return drawn;
    }
    ItemBook* const held = contents_->held.get();
    facts = source->Commit(request, &*draw, [held, removed](int64_t begin, int64_t end) {
      if (held != nullptr) held->Remove(begin, end, removed);
    });
    source->reader().Resolve(&*draw);
    if (limiter_ != nullptr) limiter_->CountSample(size);
    changed_.SignalAll();
    report = monitor_.Sampled(static_cast<int64_t>(draw->ids().size()), RowsLocked());
  }
  WriteThruput(report, options_.name, options_.metrics.get());
  source->Finish(facts, &*draw);
  const int64_t rows_each = static_cast<int64_t>(draw->ids().size()) / size;
  source->reader().Gather(&*draw);
  DING_RETURN_IF_ERROR(source->store().disk_status());
  source->Edit(&*draw);
  const Batch batch = source->reader().Seal(&*draw);
  return kind_->draws_sequences() ? batch.AsSequences(rows_each) : batch;
}

absl::Status ComposedBuffer::Update(const PriorityInfo& info) {
  DING_RETURN_IF_ERROR(Annotate(kind_->CheckUpdate(info), options_.name));
  MutexLock lock(&mutex_);
  kind_->Update(info, contents_ == nullptr ? nullptr : contents_->source.get());
  absl::Status noted = CallVoid("the selector", [&] { selector_->Update(info); });
  if (remover_ != nullptr) {
    noted.Update(CallVoid("the remover", [&] { remover_->Update(info); }));
  }
  return Annotate(noted, options_.name);
}

void ComposedBuffer::Clear() {
  RemovedItems removed;
  {
    MutexLock lock(&mutex_);
    push_count_ = 0;
    selector_->Clear();
    if (remover_ != nullptr) remover_->Clear();
    // What an earlier run has left in the folder is dropped, too.
    if (options_.capacity.files != nullptr) options_.capacity.files->Resume();
    if (contents_ != nullptr) {
      contents_->source->store().Clear();
      contents_->source->Clear();
      if (contents_->held != nullptr) contents_->held->Clear(&removed);
    }
    monitor_.Removed(RowsLocked());
  }
  TellRemoved(options_.on_removed, removed);
}

absl::Status ComposedBuffer::Close() {
  std::optional<ThruputReport> report;
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    report = monitor_.TakeLast();
    changed_.SignalAll();
  }
  WriteThruput(report, options_.name, options_.metrics.get());
  if (options_.metrics == nullptr) return absl::OkStatus();
  return CallUser("the metric sink", [this] { return options_.metrics->Flush(); });
}

int64_t ComposedBuffer::CountLocked() const {
  return contents_ == nullptr ? 0 : contents_->source->size();
}

int64_t ComposedBuffer::RowsLocked() const {
  return contents_ == nullptr ? 0 : contents_->source->rows();
}

int64_t ComposedBuffer::count() const {
  MutexLock lock(&mutex_);
  return CountLocked();
}

std::string ComposedBuffer::lost_rows() const {
  MutexLock lock(&mutex_);
  return lost_rows_;
}

int64_t ComposedBuffer::push_count() const {
  MutexLock lock(&mutex_);
  return push_count_;
}

StateSnapshot ComposedBuffer::Snapshot() const {
  struct Saved {
    std::shared_ptr<DrawSource> source;  // outlives the snapshot of its rows
    std::string type;
    int64_t version;
    RowCapacity capacity;
    int64_t push_count;
    Rng rng;
    StateSnapshot kind;
    StateSnapshot selector;
    StateSnapshot remover;
    StateSnapshot rows;
    StateSnapshot drawn;
  };
  MutexLock lock(&mutex_);
  auto saved = std::make_shared<Saved>(
      Saved{contents_ == nullptr ? nullptr : contents_->source, std::string(kind_->state_type()),
            kind_->state_version(), options_.capacity, push_count_, rng_, kind_->Snapshot(),
            selector_->Snapshot(), remover_ == nullptr ? nullptr : remover_->Snapshot(), nullptr,
            nullptr});
  if (saved->source != nullptr) {
    saved->rows = saved->source->store().Snapshot();
    saved->drawn = saved->source->Snapshot();
  }
  return [saved](StateWriter* writer) -> absl::Status {
    DING_RETURN_IF_ERROR(writer->WriteString("type", saved->type));
    DING_RETURN_IF_ERROR(writer->WriteInt("version", saved->version));
    DING_RETURN_IF_ERROR(SaveCapacity(saved->capacity, writer));
    DING_RETURN_IF_ERROR(WriteIfAny(saved->kind, writer));
    DING_RETURN_IF_ERROR(writer->WriteInt("push_count", saved->push_count));
    DING_RETURN_IF_ERROR(writer->WriteRng("rng", saved->rng));
    if (saved->selector != nullptr) {
      ScopedStateWriter selector_writer(writer, "selector");
      DING_RETURN_IF_ERROR(saved->selector(&selector_writer));
    }
    if (saved->remover != nullptr) {
      ScopedStateWriter remover_writer(writer, "remover");
      DING_RETURN_IF_ERROR(saved->remover(&remover_writer));
    }
    DING_RETURN_IF_ERROR(writer->WriteInt("has_rows", saved->source != nullptr));
    if (saved->source == nullptr) return absl::OkStatus();
    DING_RETURN_IF_ERROR(WriteIfAny(saved->drawn, writer));
    ScopedStateWriter store_writer(writer, "store");
    return saved->rows(&store_writer);
  };
}

// Drops the rows whose files are missing or damaged, as a push that evicts them would.
absl::StatusOr<std::string> ComposedBuffer::DropLost(Contents* contents,
                                                     RemovedItems* removed) const {
  RowStore& store = contents->source->store();
  const LostRows& lost = store.lost();
  if (lost.why.ok()) return "";
  const int64_t rows = store.size();
  DING_RETURN_IF_ERROR(store.EvictLost());
  SegmentBatch nothing;
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, BatchBuilder::Create(store.spec(), 0));
  nothing.rows = std::move(builder).Seal(0);
  contents->source->Append(nothing, store.end_id());
  if (contents->held != nullptr) {
    contents->held->Append(nothing.rows, store.begin_id(), store.end_id(), removed);
  }
  return absl::StrCat("the oldest ", rows - store.size(), " of ", rows,
                      " rows are lost: ", lost.why.message());
}

absl::Status ComposedBuffer::LoadState(StateReader* reader) {
  RemovedItems removed;
  absl::Status loaded = LoadChecked(reader, &removed);
  if (loaded.ok()) loaded = Tell(removed);
  return Annotate(loaded, options_.name);
}

absl::Status ComposedBuffer::LoadChecked(StateReader* reader, RemovedItems* removed) {
  DING_RETURN_IF_ERROR(kind_->CheckSaved(reader));
  DING_RETURN_IF_ERROR(CheckSavedCapacity(reader, options_.capacity));
  DING_ASSIGN_OR_RETURN(const std::function<void()> take_over, kind_->Read(reader));
  DING_ASSIGN_OR_RETURN(const int64_t push_count, reader->ReadCount("push_count"));
  Rng rng(0, "");
  DING_RETURN_IF_ERROR(reader->ReadRng("rng", &rng));
  DING_ASSIGN_OR_RETURN(const int64_t has_rows, reader->ReadInt("has_rows"));
  std::unique_ptr<Contents> loaded;
  const RowStore* rows = nullptr;
  std::string lost;
  if (has_rows != 0) {
    ScopedStateReader store_reader(reader, "store");
    DING_ASSIGN_OR_RETURN(std::shared_ptr<RowStore> store,
                          RowStore::Load(&store_reader, options_.capacity));
    rows = store.get();
    DING_ASSIGN_OR_RETURN(loaded, MakeContents(std::move(store)));
    DING_RETURN_IF_ERROR(loaded->source->Load(reader));
    // Rows that were retired before they were saved have left, and their owner was told then.
    RemovedItems told_before;
    for (int64_t id = rows->begin_id(); loaded->held != nullptr && id < rows->end_id(); ++id) {
      if (loaded->source->IsRetired(id)) loaded->held->Remove(id, id + 1, &told_before);
    }
    DING_ASSIGN_OR_RETURN(lost, DropLost(loaded.get(), removed));
  }
  DING_RETURN_IF_ERROR(CheckPushCount(push_count, rows));
  MutexLock lock(&mutex_);
  if (contents_ != nullptr && rows != nullptr) {
    DING_RETURN_IF_ERROR(CheckSameRows(contents_->source->store(), *rows));
  }
  if (selector_->Snapshot() != nullptr) {
    ScopedStateReader selector_reader(reader, "selector");
    DING_RETURN_IF_ERROR(
        CallUser("the selector", [&] { return selector_->LoadState(&selector_reader); }));
  }
  if (remover_ != nullptr && remover_->Snapshot() != nullptr) {
    ScopedStateReader remover_reader(reader, "remover");
    DING_RETURN_IF_ERROR(
        CallUser("the remover", [&] { return remover_->LoadState(&remover_reader); }));
  }
  if (options_.capacity.files != nullptr) options_.capacity.files->Resume();
  take_over();
  contents_ = std::move(loaded);
  lost_rows_ = std::move(lost);
  push_count_ = push_count;
  rng_ = rng;
  monitor_.Loaded(RowsLocked());
  return absl::OkStatus();
}

}  // namespace ding
