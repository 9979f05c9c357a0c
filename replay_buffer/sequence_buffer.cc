#include "ding_worker/replay_buffer/sequence_buffer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/buffer_checks.h"
#include "ding_worker/replay_buffer/row_layout.h"
#include "ding_worker/replay_buffer/row_store.h"

namespace ding {
namespace {

constexpr int64_t kStateVersion = 1;
constexpr char kStateType[] = "sequence";
constexpr char kStateTypeAcross[] = "sequence with cross_episodes";  // which has more in it
// With padding and repetitions a batch may have more rows than there are; more than this is a slip.
constexpr int64_t kMaxRowsOfABatch = kMaxCapacityRows;

SequenceIndex::Options IndexOptions(const SequenceReplayBuffer::Options& options) {
  SequenceIndex::Options index;
  index.rows = options.unroll_len;
  if (options.unroll_len.has_value()) {
    index.period = *options.unroll_len - options.overlap.value_or(*options.unroll_len - 1);
  }
  index.padding = options.padding;
  index.cross_episodes = options.cross_episodes;
  return index;
}

RowCapacity CapacityOf(const SequenceReplayBuffer::Options& options) {
  return {options.capacity_rows, options.capacity_bytes,
          SequenceIndex::RowBytes(IndexOptions(options))};
}

absl::string_view StateType(const SequenceIndex::Options& index) {
  return index.cross_episodes ? kStateTypeAcross : kStateType;
}

absl::Status TooManyRows(int64_t sequences, int64_t rows) {
  return absl::ResourceExhaustedError(absl::StrCat("a batch of ", sequences, " sequences of ", rows,
                                                   " rows, expected at most ", kMaxRowsOfABatch,
                                                   " rows"));
}

// The row after `id` in a sequence; -1: none (yet).
int64_t NextRow(const RowStore& store, const SequenceIndex& sequences, int64_t id) {
  const int64_t next = store.Next(id).id;
  return next >= 0 ? next : sequences.NextEpisode(id);
}

}  // namespace

SequenceReplayBuffer::SequenceReplayBuffer(const Options& options)
    : options_(options),
      index_options_(IndexOptions(options)),
      draw_(Rng(options.seed, absl::StrCat(options.name, "/sample"))),
      monitor_({options.periodic_thruput_seconds, options.name, options.metrics, options.clock}) {}

std::vector<std::string> SequenceReplayBuffer::Problems(const Options& options) {
  std::vector<std::string> problems;
  AppendRingProblems(CapacityOf(options), options.nstep, options.gamma, &problems);
  PeriodicThruputMonitor::AppendProblems(options.periodic_thruput_seconds, &problems);
  const auto in_range = [&problems](absl::string_view name, int64_t value, int64_t low,
                                    int64_t high) {
    if (value >= low && value <= high) return;
    problems.push_back(absl::StrCat(name, " is ", value, ", expected ", low, " to ", high));
  };
  // How many rows fit in capacity_bytes shows at the first push.
  const int64_t longest = options.capacity_bytes.has_value()
                              ? kMaxCapacityRows
                              : std::max<int64_t>(options.capacity_rows, 1);
  if (!options.unroll_len.has_value()) {
    if (options.burn_in < 0) in_range("burn_in", options.burn_in, 0, longest);
    if (options.overlap.has_value()) problems.emplace_back("overlap is set for whole episodes");
    if (options.padding) problems.emplace_back("padding is set for whole episodes");
    if (options.cross_episodes) problems.emplace_back("cross_episodes is set for whole episodes");
    return problems;
  }
  in_range("unroll_len", *options.unroll_len, 1, longest);
  const int64_t last = std::max<int64_t>(*options.unroll_len, 1) - 1;
  in_range("burn_in", options.burn_in, 0, last);
  in_range("overlap", options.overlap.value_or(0), 0, last);
  return problems;
}

absl::StatusOr<std::unique_ptr<SequenceReplayBuffer>> SequenceReplayBuffer::Create(
    const Options& options) {
  DING_RETURN_IF_ERROR(BufferProblemsToStatus(options.name, Problems(options)));
  return std::unique_ptr<SequenceReplayBuffer>(new SequenceReplayBuffer(options));
}

absl::StatusOr<std::unique_ptr<SequenceReplayBuffer::Contents>> SequenceReplayBuffer::MakeContents(
    std::shared_ptr<RowStore> store) const {
  if (IsItems(*store->spec())) {
    return absl::InvalidArgumentError(
        "the rows are items (chunk, row, length), expected rows with their data: sequences are "
        "made of steps that follow each other here");
  }
  if (options_.unroll_len.value_or(1) > store->capacity_rows()) {
    return absl::InvalidArgumentError(absl::StrCat("unroll_len is ", *options_.unroll_len,
                                                   ", but replay_buffer_bytes holds ",
                                                   store->capacity_rows(), " rows"));
  }
  auto contents = std::make_unique<Contents>();
  contents->sequences = std::make_unique<SequenceIndex>(index_options_, store->capacity_rows());
  std::vector<FieldSpec> added = {Scalar(kColumnMask, DType::kBool),
                                  Scalar(kColumnBurnIn, DType::kBool)};
  if (options_.cross_episodes) added.push_back(Scalar(kColumnIsFirst, DType::kBool));
  DING_ASSIGN_OR_RETURN(contents->reader, TransitionReader::Create(std::move(store), options_.nstep,
                                                                   options_.gamma, added));
  const Spec& batch = *contents->reader->spec();
  DING_ASSIGN_OR_RETURN(contents->mask_field, batch.IndexOf(kColumnMask, "batch"));
  DING_ASSIGN_OR_RETURN(contents->burn_in_field, batch.IndexOf(kColumnBurnIn, "batch"));
  contents->is_first_field = -1;
  if (options_.cross_episodes) {
    DING_ASSIGN_OR_RETURN(contents->is_first_field, batch.IndexOf(kColumnIsFirst, "batch"));
  }
  return contents;
}

absl::StatusOr<std::unique_ptr<SequenceReplayBuffer::Contents>> SequenceReplayBuffer::ContentsFor(
    const SegmentBatch& data) const {
  DING_ASSIGN_OR_RETURN(
      std::shared_ptr<RowStore> store,
      RowStore::Create(data.rows.spec_ptr(), data.final_obs.spec().size(), CapacityOf(options_)));
  return MakeContents(std::move(store));
}

absl::Status SequenceReplayBuffer::Push(const SegmentBatch& data,
                                        int64_t /*cur_collector_envstep*/) {
  DING_RETURN_IF_ERROR(Annotate(ValidateSegments(data), options_.name));
  if (data.size() == 0) return absl::OkStatus();
  std::optional<ThruputReport> report;
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(Annotate(PushChecked(data), options_.name));
    report = monitor_.Pushed(data.size(), RowsLocked());
  }
  WriteThruput(report, options_.name, options_.metrics.get());
  return absl::OkStatus();
}

absl::Status SequenceReplayBuffer::PushChecked(const SegmentBatch& data) {
  std::unique_ptr<Contents> made;
  if (contents_ == nullptr) {
    DING_ASSIGN_OR_RETURN(made, ContentsFor(data));
  }
  Contents& contents = made != nullptr ? *made : *contents_;
  RowStore& store = contents.reader->store();
  DING_RETURN_IF_ERROR(store.CheckLayout(data, "rows"));
  const int64_t first_id = store.end_id();
  DING_RETURN_IF_ERROR(store.Append(data));
  contents.sequences->Append(data.segments, first_id, store.begin_id());
  if (made != nullptr) contents_ = std::move(made);
  push_count_ += data.size();
  return absl::OkStatus();
}

absl::StatusOr<Batch> SequenceReplayBuffer::Sample(int64_t size, int64_t /*cur_learner_iter*/,
                                                   const SampleOptions& options) {
  absl::StatusOr<Batch> batch = SampleChecked(size, options);
  if (!batch.ok()) return Annotate(batch.status(), options_.name);
  return batch;
}

absl::StatusOr<Batch> SequenceReplayBuffer::SampleChecked(int64_t size,
                                                          const SampleOptions& options) {
  DING_RETURN_IF_ERROR(CheckSampleRequest(size, options));
  std::shared_ptr<TransitionReader> reader;
  std::optional<TransitionDraw> draw;
  std::optional<ThruputReport> report;
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(CheckEnough(size, options));
    reader = contents_->reader;
    const Rng before = draw_.rng();
    const std::vector<int64_t> starts = DrawStarts(size, options);
    const absl::Status started = StartDraw(starts, &draw);
    if (!started.ok()) {
      draw_.set_rng(before);
      return started;
    }
    FillDraw(starts, &*draw);
    if (options_.cross_episodes) FillIsFirst(&*draw);
    reader->Resolve(&*draw);
    report = monitor_.Sampled(static_cast<int64_t>(draw->ids().size()), RowsLocked());
  }
  WriteThruput(report, options_.name, options_.metrics.get());
  return reader->Gather(&*draw);
}

absl::Status SequenceReplayBuffer::CheckEnough(int64_t size, const SampleOptions& options) const {
  const int64_t part = PartLocked(options);
  const int64_t rows = options_.unroll_len.value_or(1);
  if (part < (options.replace ? 1 : size)) {
    return absl::FailedPreconditionError(
        absl::StrCat("sample of ", size,
                     options_.unroll_len.has_value() ? absl::StrCat(" sequences of ", rows, " rows")
                                                     : " whole episodes",
                     options.replace ? "" : ", all different,", " from ", part,
                     part == CountLocked() ? " there are" : " newest of those there are", " in ",
                     RowsLocked(), " rows"));
  }
  return size <= kMaxRowsOfABatch / rows ? absl::OkStatus() : TooManyRows(size, rows);
}

// Ids of the first rows.
std::vector<int64_t> SequenceReplayBuffer::DrawStarts(int64_t size, const SampleOptions& options) {
  std::vector<int64_t> starts(static_cast<size_t>(size));
  const int64_t part = PartLocked(options);
  if (options.replace) {
    draw_.WithReplacement(part, absl::MakeSpan(starts));
  } else {
    draw_.WithoutReplacement(part, absl::MakeSpan(starts));
  }
  const int64_t first = CountLocked() - part;
  for (int64_t& start : starts) start = contents_->sequences->Select(first + start);
  return starts;
}

absl::Status SequenceReplayBuffer::StartDraw(absl::Span<const int64_t> starts,
                                             std::optional<TransitionDraw>* draw) {
  const auto size = static_cast<int64_t>(starts.size());
  int64_t rows = options_.unroll_len.value_or(1);
  if (!options_.unroll_len.has_value()) {
    for (const int64_t start : starts) rows = std::max(rows, LengthFrom(start));
  }
  if (size > kMaxRowsOfABatch / rows) return TooManyRows(size, rows);
  return contents_->reader->Start(size * rows, draw);
}

void SequenceReplayBuffer::FillDraw(absl::Span<const int64_t> starts, TransitionDraw* draw) const {
  const RowStore& store = contents_->reader->store();
  const SequenceIndex& sequences = *contents_->sequences;
  const absl::Span<uint8_t> mask = draw->column<uint8_t>(contents_->mask_field);
  const absl::Span<uint8_t> burn_in = draw->column<uint8_t>(contents_->burn_in_field);
  const absl::Span<int64_t> ids = draw->ids();
  const size_t rows = ids.size() / starts.size();
  for (size_t sequence = 0; sequence < starts.size(); ++sequence) {
    int64_t id = starts[sequence];
    bool there = true;
    for (size_t t = 0; t < rows; ++t) {
      const size_t row = sequence * rows + t;
      ids[row] = id;
      mask[row] = there;
      burn_in[row] = static_cast<int64_t>(t) < options_.burn_in;
      if (!there) continue;
      const int64_t next = NextRow(store, sequences, id);
      there = next >= 0;
      if (there) id = next;
    }
  }
}

// After FillDraw().
void SequenceReplayBuffer::FillIsFirst(TransitionDraw* draw) const {
  const absl::Span<const int64_t> ids = draw->ids();
  const absl::Span<const uint8_t> mask = draw->column<uint8_t>(contents_->mask_field);
  const absl::Span<uint8_t> is_first = draw->column<uint8_t>(contents_->is_first_field);
  for (size_t row = 0; row < ids.size(); ++row) {
    is_first[row] = mask[row] != 0 && contents_->sequences->BeginsEpisode(ids[row]);
  }
}

// Rows of the sequence that begins there.
int64_t SequenceReplayBuffer::LengthFrom(int64_t id) const {
  const int64_t most = options_.unroll_len.value_or(std::numeric_limits<int64_t>::max());
  int64_t length = 1;
  const RowStore& store = contents_->reader->store();
  const SequenceIndex& sequences = *contents_->sequences;
  while (length < most && (id = NextRow(store, sequences, id)) >= 0) ++length;
  return length;
}

std::vector<int64_t> SequenceReplayBuffer::SequenceLengths() const {
  MutexLock lock(&mutex_);
  std::vector<int64_t> lengths;
  for (int64_t rank = 0; rank < CountLocked(); ++rank) {
    lengths.push_back(LengthFrom(contents_->sequences->Select(rank)));
  }
  return lengths;
}

absl::Status SequenceReplayBuffer::Update(const PriorityInfo& /*info*/) { return absl::OkStatus(); }

void SequenceReplayBuffer::Clear() {
  MutexLock lock(&mutex_);
  push_count_ = 0;
  if (contents_ == nullptr) return;
  RowStore& store = contents_->reader->store();
  store.Clear();
  contents_->sequences->EvictBefore(store.end_id());
  monitor_.Removed(RowsLocked());
}

int64_t SequenceReplayBuffer::RowsLocked() const {
  return contents_ == nullptr ? 0 : contents_->reader->store().size();
}

int64_t SequenceReplayBuffer::CountLocked() const {
  return contents_ == nullptr ? 0 : contents_->sequences->size();
}

int64_t SequenceReplayBuffer::PartLocked(const SampleOptions& options) const {
  return std::min(options.newest.value_or(CountLocked()), CountLocked());
}

int64_t SequenceReplayBuffer::count() const {
  MutexLock lock(&mutex_);
  return CountLocked();
}

int64_t SequenceReplayBuffer::push_count() const {
  MutexLock lock(&mutex_);
  return push_count_;
}

StateSnapshot SequenceReplayBuffer::Snapshot() const {
  struct Saved {
    std::shared_ptr<TransitionReader> reader;  // outlives the snapshot of its rows
    StateSnapshot rows;
    StateSnapshot sequences;
  };
  MutexLock lock(&mutex_);
  auto saved = std::make_shared<Saved>();
  if (contents_ != nullptr) {
    saved->reader = contents_->reader;
    saved->rows = saved->reader->store().Snapshot();
    saved->sequences = contents_->sequences->Snapshot(saved->reader->store());
  }
  return [saved, capacity = CapacityOf(options_), index = index_options_, push_count = push_count_,
          rng = draw_.rng()](StateWriter* writer) -> absl::Status {
    DING_RETURN_IF_ERROR(writer->WriteString("type", StateType(index)));
    DING_RETURN_IF_ERROR(writer->WriteInt("version", kStateVersion));
    DING_RETURN_IF_ERROR(SaveCapacity(capacity, writer));
    DING_RETURN_IF_ERROR(writer->WriteInt("unroll_len", index.rows.value_or(0)));
    DING_RETURN_IF_ERROR(writer->WriteInt("period", index.period));
    DING_RETURN_IF_ERROR(writer->WriteInt("padding", index.padding));
    DING_RETURN_IF_ERROR(writer->WriteInt("push_count", push_count));
    DING_RETURN_IF_ERROR(writer->WriteRng("rng", rng));
    DING_RETURN_IF_ERROR(writer->WriteInt("has_rows", saved->reader != nullptr));
    if (saved->reader == nullptr) return absl::OkStatus();
    ScopedStateWriter store_writer(writer, "store");
    DING_RETURN_IF_ERROR(saved->rows(&store_writer));
    ScopedStateWriter sequences_writer(writer, "sequences");
    return saved->sequences(&sequences_writer);
  };
}

absl::Status SequenceReplayBuffer::LoadState(StateReader* reader) {
  return Annotate(LoadChecked(reader), options_.name);
}

absl::Status SequenceReplayBuffer::LoadChecked(StateReader* reader) {
  DING_RETURN_IF_ERROR(CheckSavedType(reader, StateType(index_options_)));
  DING_RETURN_IF_ERROR(CheckSavedVersion(reader, kStateVersion));
  DING_RETURN_IF_ERROR(CheckSavedCapacity(reader, CapacityOf(options_)));
  DING_RETURN_IF_ERROR(CheckSavedInt(reader, "unroll_len", index_options_.rows.value_or(0)));
  DING_RETURN_IF_ERROR(CheckSavedInt(reader, "period", index_options_.period));
  DING_RETURN_IF_ERROR(CheckSavedInt(reader, "padding", index_options_.padding));
  DING_ASSIGN_OR_RETURN(const int64_t push_count, reader->ReadInt("push_count"));
  Rng rng(0, "");
  DING_RETURN_IF_ERROR(reader->ReadRng("rng", &rng));
  DING_ASSIGN_OR_RETURN(const int64_t has_rows, reader->ReadInt("has_rows"));
  std::unique_ptr<Contents> loaded;
  if (has_rows != 0) {
    ScopedStateReader store_reader(reader, "store");
    DING_ASSIGN_OR_RETURN(std::shared_ptr<RowStore> store,
                          RowStore::Load(&store_reader, CapacityOf(options_)));
    DING_ASSIGN_OR_RETURN(loaded, MakeContents(std::move(store)));
    ScopedStateReader sequences_reader(reader, "sequences");
    DING_RETURN_IF_ERROR(loaded->sequences->Load(&sequences_reader, loaded->reader->store()));
  }
  DING_RETURN_IF_ERROR(
      CheckPushCount(push_count, loaded == nullptr ? nullptr : &loaded->reader->store()));
  MutexLock lock(&mutex_);
  if (contents_ != nullptr && loaded != nullptr) {
    DING_RETURN_IF_ERROR(CheckSameRows(contents_->reader->store(), loaded->reader->store()));
  }
  contents_ = std::move(loaded);
  push_count_ = push_count;
  draw_.set_rng(rng);
  monitor_.Loaded(RowsLocked());
  return absl::OkStatus();
}

}  // namespace ding
