#include "ding_worker/replay_buffer/advanced_buffer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/buffer_checks.h"
#include "ding_worker/replay_buffer/row_layout.h"
#include "ding_worker/replay_buffer/row_store.h"

namespace ding {
namespace {

constexpr int64_t kStateVersion = 2;
constexpr char kStateType[] = "advanced";
constexpr absl::Duration kRecheckPeriod = absl::Milliseconds(10);

RowCapacity CapacityOf(const AdvancedReplayBuffer::Options& options) {
  return {options.capacity_rows, options.capacity_bytes, PriorityTable::kRowBytes};
}

// The scalar field `name` of the rows, if there is one.
absl::StatusOr<std::optional<int>> FindScalar(const Spec& rows, absl::string_view name,
                                              DType dtype) {
  const std::optional<int> index = rows.Find(name);
  if (!index.has_value()) return index;
  const FieldSpec& field = rows.field(*index);
  if (field.dtype == dtype && field.shape.empty()) return index;
  return absl::InvalidArgumentError(absl::StrCat("field '", name, "' is ", field.DebugString(),
                                                 ", expected ", Scalar(name, dtype).DebugString()));
}

std::string UseLimit(int64_t max_use) {
  return max_use == 0 ? std::string("no limit") : absl::StrCat(max_use);
}

// Of rows collected at `collect_iter` (in place).
void ToStaleness(int64_t iter, absl::Span<int64_t> collect_iter) {
  for (int64_t& value : collect_iter) {
    value = value < 0 ? -1 : value < iter ? iter - value : 0;
  }
}

// From p_i^alpha (in place).
void ToImportanceWeights(float min_weight, float beta, absl::Span<float> weights) {
  for (float& weight : weights) {
    weight = weight == min_weight ? 1.0f : std::pow(min_weight / weight, beta);
  }
}

}  // namespace

AdvancedReplayBuffer::AdvancedReplayBuffer(const Options& options)
    : options_(options),
      beta_(options.beta),
      rng_(options.seed, absl::StrCat(options.name, "/sample")),
      thruput_(options.thruput, options.clock),
      thruput_monitor_(
          {options.periodic_thruput_seconds, options.name, options.metrics, options.clock}) {
  if (options.metrics == nullptr) return;
  attr_monitor_.emplace(options.sampled_data_attr, options.name, options.metrics);
}

std::vector<std::string> AdvancedReplayBuffer::Problems(const Options& options) {
  std::vector<std::string> problems;
  AppendRingProblems(CapacityOf(options), options.nstep, options.gamma, &problems);
  const auto probability = [&problems](absl::string_view name, double value) {
    if (value >= 0 && value <= 1) return;
    problems.push_back(absl::StrCat(name, " is ", value, ", expected 0 to 1"));
  };
  probability("alpha", options.alpha);
  probability("beta", options.beta);
  const auto at_least = [&problems](absl::string_view name, int64_t value, int64_t least) {
    if (value >= least) return;
    problems.push_back(absl::StrCat(name, " is ", value, ", expected at least ", least));
  };
  at_least("anneal_step", options.anneal_step, 0);
  at_least("max_use", options.max_use.value_or(1), 1);
  at_least("max_staleness", options.max_staleness.value_or(1), 1);
  if (!(options.sample_min_limit_ratio >= 1 && std::isfinite(options.sample_min_limit_ratio))) {
    problems.push_back(absl::StrCat("sample_min_limit_ratio is ", options.sample_min_limit_ratio,
                                    ", expected a finite number of at least 1"));
  }
  ThruputController::AppendProblems(options.thruput, &problems);
  PeriodicThruputMonitor::AppendProblems(options.periodic_thruput_seconds, &problems);
  SampledDataAttrMonitor::AppendProblems(options.sampled_data_attr, &problems);
  return problems;
}

absl::StatusOr<std::unique_ptr<AdvancedReplayBuffer>> AdvancedReplayBuffer::Create(
    const Options& options) {
  DING_RETURN_IF_ERROR(BufferProblemsToStatus(options.name, Problems(options)));
  return std::unique_ptr<AdvancedReplayBuffer>(new AdvancedReplayBuffer(options));
}

absl::StatusOr<std::unique_ptr<AdvancedReplayBuffer::Contents>> AdvancedReplayBuffer::MakeContents(
    std::shared_ptr<RowStore> store) const {
  const Spec& rows = *store->spec();
  DING_ASSIGN_OR_RETURN(const std::optional<int> given,
                        FindScalar(rows, kColumnPriority, DType::kFloat32));
  auto contents = std::make_unique<Contents>();
  DING_ASSIGN_OR_RETURN(contents->fields.collect_iter,
                        FindScalar(rows, kColumnCollectIter, DType::kInt64));
  contents->fields.given_priority = given.has_value();
  if (options_.on_removed != nullptr) {
    DING_ASSIGN_OR_RETURN(contents->held, HeldItems::Create(*store));
  }
  DING_ASSIGN_OR_RETURN(
      contents->priorities,
      PriorityTable::Create(store->capacity_rows(), options_.alpha, store->begin_id()));
  DING_ASSIGN_OR_RETURN(
      contents->reader,
      TransitionReader::Create(
          std::move(store), options_.nstep, options_.gamma,
          {Scalar(kColumnWeight, DType::kFloat32), Scalar(kColumnUse, DType::kInt64),
           Scalar(kColumnStaleness, DType::kInt64), Scalar(kColumnPriority, DType::kFloat32),
           Scalar(kColumnReplayBufferIdx, DType::kInt64)}));
  const Spec& batch = *contents->reader->spec();
  Fields& fields = contents->fields;
  DING_ASSIGN_OR_RETURN(fields.weight, batch.IndexOf(kColumnWeight, "batch"));
  DING_ASSIGN_OR_RETURN(fields.use, batch.IndexOf(kColumnUse, "batch"));
  DING_ASSIGN_OR_RETURN(fields.staleness, batch.IndexOf(kColumnStaleness, "batch"));
  DING_ASSIGN_OR_RETURN(fields.priority, batch.IndexOf(kColumnPriority, "batch"));
  DING_ASSIGN_OR_RETURN(fields.buffer_idx, batch.IndexOf(kColumnReplayBufferIdx, "batch"));
  return contents;
}

absl::StatusOr<std::unique_ptr<AdvancedReplayBuffer::Contents>> AdvancedReplayBuffer::ContentsFor(
    const SegmentBatch& data) const {
  DING_ASSIGN_OR_RETURN(
      std::shared_ptr<RowStore> store,
      RowStore::Create(data.rows.spec_ptr(), data.final_obs.spec().size(), CapacityOf(options_)));
  return MakeContents(std::move(store));
}

absl::Status AdvancedReplayBuffer::Push(const SegmentBatch& data, int64_t cur_collector_envstep) {
  DING_RETURN_IF_ERROR(Annotate(ValidateSegments(data), options_.name));
  if (data.size() == 0) return absl::OkStatus();
  std::optional<ThruputReport> report;
  RemovedItems removed;
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(Annotate(PushChecked(data, &removed), options_.name));
    last_push_envstep_ = cur_collector_envstep;
    report = thruput_monitor_.Pushed(data.size(), CountLocked());
  }
  WriteThruput(report, options_.name, options_.metrics.get());
  TellRemoved(options_.on_removed, removed);
  return absl::OkStatus();
}

absl::Status AdvancedReplayBuffer::PushChecked(const SegmentBatch& data, RemovedItems* removed) {
  DING_RETURN_IF_ERROR(WaitUntilPushAllowed(data.size()));
  std::unique_ptr<Contents> made;
  if (contents_ == nullptr) {
    DING_ASSIGN_OR_RETURN(made, ContentsFor(data));
  }
  Contents& contents = made != nullptr ? *made : *contents_;
  RowStore& store = contents.reader->store();
  DING_RETURN_IF_ERROR(store.CheckLayout(data, "rows"));
  absl::Span<const float> given;
  if (contents.fields.given_priority) given = data.rows.column<float>(kColumnPriority);
  DING_RETURN_IF_ERROR(CheckPriorities(given));
  const int64_t old_end = store.end_id();
  DING_RETURN_IF_ERROR(store.Append(data));
  contents.priorities->Append(store.begin_id(), store.end_id(), given);
  if (contents.held != nullptr) {
    contents.held->Append(data.rows, store.begin_id(), store.end_id(), removed);
  }
  contents.staleness.EvictBefore(store.begin_id());
  IndexStaleness(&contents, std::max(old_end, store.begin_id()));
  if (made != nullptr) contents_ = std::move(made);
  push_count_ += data.size();
  thruput_.CountPush(data.size());
  changed_.SignalAll();
  return absl::OkStatus();
}

// False when it has waited for as long as it may.
bool AdvancedReplayBuffer::WaitForChange(const Timer& waited) {
  const absl::Duration left = options_.max_wait - waited.Elapsed();
  if (left <= absl::ZeroDuration()) return false;
  // Rates also change as time passes.
  changed_.WaitFor(&mutex_, std::min(left, kRecheckPeriod));
  return true;
}

absl::Status AdvancedReplayBuffer::WaitUntilPushAllowed(int64_t rows) {
  const Timer waited(Clock::Real());
  absl::Status status;
  do {
    status = thruput_.CheckPush(rows);
  } while (!status.ok() && WaitForChange(waited));
  return status;
}

absl::Status AdvancedReplayBuffer::WaitUntilDrawAllowed(int64_t size, int64_t iter,
                                                        const SampleOptions& options,
                                                        RemovedItems* removed) {
  const Timer waited(Clock::Real());
  absl::Status status;
  do {
    RetireStale(iter, removed);
    status = CheckEnough(size, options);
    if (status.ok()) status = thruput_.CheckSample(size);
  } while (!status.ok() && WaitForChange(waited));
  return status;
}

// Rows from `first_id` to the newest.
void AdvancedReplayBuffer::IndexStaleness(Contents* contents, int64_t first_id) const {
  if (!options_.max_staleness.has_value() || !contents->fields.collect_iter.has_value()) return;
  const RowStore& store = contents->reader->store();
  std::vector<RowLocation> rows;
  for (int64_t id = first_id; id < store.end_id(); ++id) rows.push_back(store.Locate(id));
  std::vector<int64_t> iters(rows.size());
  store.Gather(*contents->fields.collect_iter, rows, reinterpret_cast<std::byte*>(iters.data()));
  contents->staleness.Add(first_id, iters);
}

// Rows that were retired before they were saved have left, and their owner was told then.
void AdvancedReplayBuffer::ForgetRetired(Contents* contents) {
  if (contents->held == nullptr) return;
  const RowStore& store = contents->reader->store();
  RemovedItems told_before;
  for (int64_t id = store.begin_id(); id < store.end_id(); ++id) {
    if (!contents->priorities->IsValid(id)) contents->held->Remove(id, id + 1, &told_before);
  }
}

absl::StatusOr<Batch> AdvancedReplayBuffer::Sample(int64_t size, int64_t cur_learner_iter,
                                                   const SampleOptions& options) {
  RemovedItems removed;
  absl::StatusOr<Batch> batch = SampleChecked(size, cur_learner_iter, options, &removed);
  TellRemoved(options_.on_removed, removed);
  if (!batch.ok()) return Annotate(batch.status(), options_.name);
  return batch;
}

absl::StatusOr<Batch> AdvancedReplayBuffer::SampleChecked(int64_t size, int64_t iter,
                                                          const SampleOptions& options,
                                                          RemovedItems* removed) {
  DING_RETURN_IF_ERROR(CheckSampleRequest(size, options));
  std::shared_ptr<TransitionReader> reader;
  std::optional<TransitionDraw> draw;
  Fields fields;
  float min_weight;
  double beta;
  int64_t envstep;
  std::optional<ThruputReport> report;
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(WaitUntilDrawAllowed(size, iter, options, removed));
    reader = contents_->reader;
    fields = contents_->fields;
    min_weight = contents_->priorities->min_weight();
    beta = beta_;
    DING_RETURN_IF_ERROR(reader->Start(size, &draw));
    ChooseRows(std::min(options.newest.value_or(CountLocked()), CountLocked()), fields, &*draw,
               removed);
    reader->Resolve(&*draw);
    thruput_.CountSample(size);
    changed_.SignalAll();
    if (options_.anneal_step > 0) {
      const double step = (1 - options_.beta) / static_cast<double>(options_.anneal_step);
      beta_ = std::min(1.0, beta_ + step);
    }
    envstep = last_push_envstep_;
    report = thruput_monitor_.Sampled(size, CountLocked());
  }
  WriteThruput(report, options_.name, options_.metrics.get());
  ToImportanceWeights(min_weight, static_cast<float>(beta), draw->column<float>(fields.weight));
  const absl::Span<int64_t> staleness = draw->column<int64_t>(fields.staleness);
  if (fields.collect_iter.has_value()) {
    reader->GatherStored(*draw, *fields.collect_iter,
                         reinterpret_cast<std::byte*>(staleness.data()));
    ToStaleness(iter, staleness);
  } else {
    std::fill(staleness.begin(), staleness.end(), -1);
  }
  if (attr_monitor_.has_value()) {
    attr_monitor_->Add({draw->column<int64_t>(fields.use), draw->column<float>(fields.priority),
                        staleness, beta, iter, envstep});
  }
  return reader->Gather(&*draw);
}

void AdvancedReplayBuffer::RetireStale(int64_t iter, RemovedItems* removed) {
  if (!options_.max_staleness.has_value() || contents_ == nullptr) return;
  // Nothing was collected before iteration 0.
  if (iter < *options_.max_staleness) return;
  const int64_t before = CountLocked();
  PriorityTable* const priorities = contents_->priorities.get();
  HeldItems* const held = contents_->held.get();
  contents_->staleness.TakeUpTo(iter - *options_.max_staleness, [=](int64_t begin, int64_t end) {
    priorities->Retire(begin, end);
    if (held != nullptr) held->Remove(begin, end, removed);
  });
  counters_.retired_by_staleness += before - CountLocked();
}

absl::Status AdvancedReplayBuffer::CheckEnough(int64_t size, const SampleOptions& options) const {
  const int64_t count = CountLocked();
  const int64_t part = std::min(options.newest.value_or(count), count);
  const double needed =
      options.replace ? 1 : options_.sample_min_limit_ratio * static_cast<double>(size);
  if (static_cast<double>(part) >= needed) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("sample of ", size, " rows from ", part,
                   part == count ? " there are" : " newest of those there are",
                   needed > static_cast<double>(size) ? absl::StrCat(", expected ", needed) : ""));
}

// Fills the columns of the draw. Column weight: p^alpha for now.
void AdvancedReplayBuffer::ChooseRows(int64_t part, const Fields& fields, TransitionDraw* draw,
                                      RemovedItems* removed) {
  PriorityTable& priorities = *contents_->priorities;
  const absl::Span<int64_t> slots = draw->column<int64_t>(fields.buffer_idx);
  const absl::Span<int64_t> use = draw->column<int64_t>(fields.use);
  const absl::Span<float> weight = draw->column<float>(fields.weight);
  const absl::Span<float> priority = draw->column<float>(fields.priority);
  const absl::Span<int64_t> ids = draw->ids();
  priorities.Draw(part, &rng_, slots);
  for (size_t i = 0; i < slots.size(); ++i) {
    ids[i] = priorities.IdOf(slots[i]);
    weight[i] = priorities.weight(slots[i]);
    priority[i] = priorities.priority(slots[i]);
    use[i] = priorities.CountUse(slots[i]);
  }
  if (!options_.max_use.has_value()) return;
  counters_.retired_by_use += priorities.RetireUsedUp(slots, *options_.max_use);
  if (contents_->held == nullptr) return;
  for (const int64_t id : ids) {
    if (!priorities.IsValid(id)) contents_->held->Remove(id, id + 1, removed);
  }
}

absl::Status AdvancedReplayBuffer::Update(const PriorityInfo& info) {
  if (info.replay_unique_id.size() != info.priority.size() ||
      info.replay_buffer_idx.size() != info.priority.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options_.name, ": ", info.priority.size(), " priorities for ", info.replay_unique_id.size(),
        " replay_unique_id and ", info.replay_buffer_idx.size(),
        " replay_buffer_idx, expected as many of each"));
  }
  DING_RETURN_IF_ERROR(Annotate(CheckPriorities(info.priority), options_.name));
  MutexLock lock(&mutex_);
  counters_.skipped_updates += contents_ == nullptr ? static_cast<int64_t>(info.priority.size())
                                                    : contents_->priorities->Update(info);
  return absl::OkStatus();
}

void AdvancedReplayBuffer::Clear() {
  RemovedItems removed;
  {
    MutexLock lock(&mutex_);
    push_count_ = 0;
    if (contents_ == nullptr) return;
    RowStore& store = contents_->reader->store();
    store.Clear();
    contents_->staleness.EvictBefore(store.end_id());
    contents_->priorities->Clear();
    if (contents_->held != nullptr) contents_->held->Clear(&removed);
    thruput_monitor_.Removed(CountLocked());
  }
  TellRemoved(options_.on_removed, removed);
}

int64_t AdvancedReplayBuffer::CountLocked() const {
  return contents_ == nullptr ? 0 : contents_->priorities->count();
}

int64_t AdvancedReplayBuffer::count() const {
  MutexLock lock(&mutex_);
  return CountLocked();
}

int64_t AdvancedReplayBuffer::push_count() const {
  MutexLock lock(&mutex_);
  return push_count_;
}

double AdvancedReplayBuffer::beta() const {
  MutexLock lock(&mutex_);
  return beta_;
}

double AdvancedReplayBuffer::max_priority() const {
  MutexLock lock(&mutex_);
  return contents_ == nullptr ? 1 : contents_->priorities->max_priority();
}

AdvancedReplayBuffer::Counters AdvancedReplayBuffer::counters() const {
  MutexLock lock(&mutex_);
  return counters_;
}

int64_t AdvancedReplayBuffer::staleness_runs() const {
  MutexLock lock(&mutex_);
  return contents_ == nullptr ? 0 : contents_->staleness.runs();
}

StateSnapshot AdvancedReplayBuffer::Snapshot() const {
  struct Saved {
    std::shared_ptr<TransitionReader> reader;  // outlives the snapshot of its rows
    StateSnapshot rows;
    StateSnapshot priorities;
  };
  MutexLock lock(&mutex_);
  auto saved = std::make_shared<Saved>();
  if (contents_ != nullptr) {
    saved->reader = contents_->reader;
    saved->rows = saved->reader->store().Snapshot();
    saved->priorities = contents_->priorities->Snapshot();
  }
  return [saved, capacity = CapacityOf(options_), max_use = options_.max_use.value_or(0),
          first_beta = options_.beta, anneal_step = options_.anneal_step, push_count = push_count_,
          beta = beta_, rng = rng_](StateWriter* writer) -> absl::Status {
    DING_RETURN_IF_ERROR(writer->WriteString("type", kStateType));
    DING_RETURN_IF_ERROR(writer->WriteInt("version", kStateVersion));
    DING_RETURN_IF_ERROR(SaveCapacity(capacity, writer));
    DING_RETURN_IF_ERROR(writer->WriteInt("max_use", max_use));
    DING_RETURN_IF_ERROR(writer->WriteDouble("first_beta", first_beta));
    DING_RETURN_IF_ERROR(writer->WriteInt("anneal_step", anneal_step));
    DING_RETURN_IF_ERROR(writer->WriteInt("push_count", push_count));
    DING_RETURN_IF_ERROR(writer->WriteDouble("beta", beta));
    DING_RETURN_IF_ERROR(writer->WriteRng("rng", rng));
    DING_RETURN_IF_ERROR(writer->WriteInt("has_rows", saved->reader != nullptr));
    if (saved->reader == nullptr) return absl::OkStatus();
    DING_RETURN_IF_ERROR(saved->priorities(writer));
    ScopedStateWriter store_writer(writer, "store");
    return saved->rows(&store_writer);
  };
}

absl::Status AdvancedReplayBuffer::LoadState(StateReader* reader) {
  return Annotate(LoadChecked(reader), options_.name);
}

// The options under which the saved state has become what it is. Priorities, rewards and collect_iter
// are saved as they came: alpha, nstep, gamma and max_staleness apply when rows are drawn.
absl::Status AdvancedReplayBuffer::CheckSavedOptions(StateReader* reader) const {
  DING_RETURN_IF_ERROR(CheckSavedCapacity(reader, CapacityOf(options_)));
  DING_ASSIGN_OR_RETURN(const int64_t max_use, reader->ReadInt("max_use"));
  if (max_use != options_.max_use.value_or(0)) {
    return absl::InvalidArgumentError(absl::StrCat("saved max_use is ", UseLimit(max_use),
                                                   ", expected ",
                                                   UseLimit(options_.max_use.value_or(0))));
  }
  DING_ASSIGN_OR_RETURN(const double first_beta, reader->ReadDouble("first_beta"));
  if (first_beta != options_.beta) {
    return absl::InvalidArgumentError(
        absl::StrCat("saved first beta is ", first_beta, ", expected ", options_.beta));
  }
  return CheckSavedInt(reader, "anneal_step", options_.anneal_step);
}

absl::Status AdvancedReplayBuffer::LoadChecked(StateReader* reader) {
  DING_RETURN_IF_ERROR(CheckSavedType(reader, kStateType));
  DING_RETURN_IF_ERROR(CheckSavedVersion(reader, kStateVersion));
  DING_RETURN_IF_ERROR(CheckSavedOptions(reader));
  DING_ASSIGN_OR_RETURN(const int64_t push_count, reader->ReadInt("push_count"));
  DING_ASSIGN_OR_RETURN(const double beta, reader->ReadDouble("beta"));
  if (!(beta >= 0 && beta <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("saved beta is ", beta, ", expected 0 to 1"));
  }
  Rng rng(0, "");
  DING_RETURN_IF_ERROR(reader->ReadRng("rng", &rng));
  DING_ASSIGN_OR_RETURN(const int64_t has_rows, reader->ReadInt("has_rows"));
  std::unique_ptr<Contents> loaded;
  if (has_rows != 0) {
    ScopedStateReader store_reader(reader, "store");
    DING_ASSIGN_OR_RETURN(std::shared_ptr<RowStore> store,
                          RowStore::Load(&store_reader, CapacityOf(options_)));
    DING_ASSIGN_OR_RETURN(loaded, MakeContents(store));
    DING_RETURN_IF_ERROR(loaded->priorities->Load(reader, store->begin_id(), store->end_id()));
    ForgetRetired(loaded.get());
    IndexStaleness(loaded.get(), store->begin_id());
  }
  const RowStore* const rows = loaded == nullptr ? nullptr : &loaded->reader->store();
  DING_RETURN_IF_ERROR(CheckPushCount(push_count, rows));
  MutexLock lock(&mutex_);
  if (contents_ != nullptr && rows != nullptr) {
    DING_RETURN_IF_ERROR(CheckSameRows(contents_->reader->store(), *rows));
  }
  contents_ = std::move(loaded);
  push_count_ = push_count;
  beta_ = beta;
  rng_ = rng;
  thruput_monitor_.Loaded(CountLocked());
  return absl::OkStatus();
}

}  // namespace ding
