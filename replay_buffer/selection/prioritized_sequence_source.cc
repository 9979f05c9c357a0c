#include "ding_worker/replay_buffer/selection/prioritized_sequence_source.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

SequenceDrawOptions ListingAdded(SequenceDrawOptions options) {
  options.index.lists_added = true;
  return options;
}

// Repeats the first value of each sequence of `rows` rows in its other rows.
template <typename T>
void RepeatFirst(size_t rows, absl::Span<T> column) {
  for (size_t first = 0; first < column.size(); first += rows) {
    std::fill_n(column.begin() + first + 1, rows - 1, column[first]);
  }
}

}  // namespace

PrioritizedSequenceDraws::PrioritizedSequenceDraws(const SequenceDrawOptions& sequences,
                                                   const PriorityOptions& priority)
    : SequenceDraws(ListingAdded(sequences)), priority_(priority), beta_(priority) {}

absl::StatusOr<std::unique_ptr<DrawSource>> PrioritizedSequenceDraws::MakeSource(
    std::shared_ptr<RowStore> store) {
  return PrioritizedSequenceSource::Create(this, std::move(store));
}

absl::Status PrioritizedSequenceDraws::CheckUpdate(const PriorityInfo& info) const {
  return CheckPriorityInfo(info);
}

void PrioritizedSequenceDraws::Update(const PriorityInfo& info, DrawSource* source) {
  if (source != nullptr) static_cast<PrioritizedSequenceSource*>(source)->Update(info);
}

StateSnapshot PrioritizedSequenceDraws::Snapshot() const {
  return [sequences = SequenceDraws::Snapshot(),
          beta = beta_.Snapshot()](StateWriter* writer) -> absl::Status {
    DING_RETURN_IF_ERROR(sequences(writer));
    return beta(writer);
  };
}

absl::StatusOr<std::function<void()>> PrioritizedSequenceDraws::Read(StateReader* reader) {
  DING_RETURN_IF_ERROR(SequenceDraws::Read(reader).status());
  DING_ASSIGN_OR_RETURN(const bool saved, HasPriorities(reader));
  if (!saved) return std::function<void()>([this] { beta_.set(priority_.beta); });
  DING_ASSIGN_OR_RETURN(const double beta, beta_.Read(reader));
  return std::function<void()>([this, beta] { beta_.set(beta); });
}

PrioritizedSequenceSource::PrioritizedSequenceSource(PrioritizedSequenceDraws* draws,
                                                     std::shared_ptr<TransitionReader> reader,
                                                     std::unique_ptr<PriorityTable> priorities)
    : SequenceSource(draws->options(), std::move(reader)),
      draws_(draws),
      priorities_(std::move(priorities)),
      weight_(FieldOf(kColumnWeight)),
      priority_(FieldOf(kColumnPriority)),
      buffer_idx_(FieldOf(kColumnReplayBufferIdx)) {}

absl::StatusOr<std::unique_ptr<PrioritizedSequenceSource>> PrioritizedSequenceSource::Create(
    PrioritizedSequenceDraws* draws, std::shared_ptr<RowStore> store) {
  if (store->spec()->Find(kColumnPriority).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the rows have a column '", kColumnPriority,
        "', but here sequences have priorities, and a new one gets the largest so far; leave the "
        "column out"));
  }
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<PriorityTable> priorities,
      PriorityTable::Create(store->capacity_rows(), draws->priority_.alpha, store->begin_id()));
  DING_ASSIGN_OR_RETURN(
      std::shared_ptr<TransitionReader> reader,
      MakeReader(draws->options(), std::move(store),
                 {Scalar(kColumnWeight, DType::kFloat32), Scalar(kColumnPriority, DType::kFloat32),
                  Scalar(kColumnReplayBufferIdx, DType::kInt64)}));
  return std::unique_ptr<PrioritizedSequenceSource>(
      new PrioritizedSequenceSource(draws, std::move(reader), std::move(priorities)));
}

void PrioritizedSequenceSource::Append(const SegmentBatch& data, int64_t first_id) {
  SequenceSource::Append(data, first_id);
  priorities_->AppendAbsent(store().begin_id(), store().end_id());
  priorities_->Insert(sequences().added());
}

void PrioritizedSequenceSource::Clear() {
  SequenceSource::Clear();
  priorities_->Clear();
}

absl::Status PrioritizedSequenceSource::DrawByPriority(const DrawRequest& request,
                                                       absl::Span<int64_t> ids) {
  priorities_->Draw(request.first_rank, request.end_rank, request.rng, ids);
  for (int64_t& slot : ids) slot = priorities_->IdOf(slot);
  return absl::OkStatus();
}

// Column weight is p^alpha for now, and all columns have the values of the first rows only.
DrawFacts PrioritizedSequenceSource::Commit(const DrawRequest& request, TransitionDraw* draw,
                                            RetiredRows /*retired*/) {
  const absl::Span<const int64_t> ids = draw->ids();
  const absl::Span<float> weight = draw->column<float>(weight_);
  const absl::Span<float> priority = draw->column<float>(priority_);
  const absl::Span<int64_t> slots = draw->column<int64_t>(buffer_idx_);
  const size_t rows = ids.size() / static_cast<size_t>(request.size);
  for (size_t first = 0; first < ids.size(); first += rows) {
    slots[first] = priorities_->SlotOf(ids[first]);
    weight[first] = priorities_->weight(slots[first]);
    priority[first] = priorities_->priority(slots[first]);
  }
  DrawFacts facts;
  facts.candidate_rows = static_cast<int64_t>(rows);
  facts.beta = draws_->beta_.value();
  draws_->beta_.CountDraw();
  if (request.selector->ByPriority()) facts.min_weight = priorities_->min_weight();
  return facts;
}

void PrioritizedSequenceSource::Finish(const DrawFacts& facts, TransitionDraw* draw) const {
  const auto rows = static_cast<size_t>(facts.candidate_rows);
  const absl::Span<float> weight = draw->column<float>(weight_);
  ToImportanceWeights(facts, rows, weight);
  RepeatFirst(rows, weight);
  RepeatFirst(rows, draw->column<float>(priority_));
  RepeatFirst(rows, draw->column<int64_t>(buffer_idx_));
}

StateSnapshot PrioritizedSequenceSource::Snapshot() const {
  return [sequences = SequenceSource::Snapshot(),
          priorities = priorities_->Snapshot()](StateWriter* writer) -> absl::Status {
    DING_RETURN_IF_ERROR(sequences(writer));
    ScopedStateWriter priorities_writer(writer, "priorities");
    return priorities(&priorities_writer);
  };
}

absl::Status PrioritizedSequenceSource::Load(StateReader* reader) {
  DING_RETURN_IF_ERROR(SequenceSource::Load(reader));
  DING_ASSIGN_OR_RETURN(const bool saved, SequenceDraws::HasPriorities(reader));
  if (!saved) {
    InsertAll();
    return absl::OkStatus();
  }
  ScopedStateReader priorities_reader(reader, "priorities");
  DING_RETURN_IF_ERROR(priorities_->Load(&priorities_reader, store().begin_id(), store().end_id()));
  int64_t found = 0;
  for (int64_t rank = 0; rank < size(); ++rank) {
    found += priorities_->IsValid(Id(rank)) ? 1 : 0;
  }
  if (found == size() && found == priorities_->count()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "saved priorities of ", priorities_->count(), " rows, of which ", found,
      " begin a sequence, expected priorities of the first rows of all ", size(), " sequences"));
}

// Gives all sequences the priority of new ones.
void PrioritizedSequenceSource::InsertAll() {
  std::vector<int64_t> ids;
  for (int64_t rank = 0; rank < size(); ++rank) ids.push_back(Id(rank));
  priorities_->AppendAbsent(store().begin_id(), store().end_id());
  priorities_->Insert(ids);
}

}  // namespace ding
