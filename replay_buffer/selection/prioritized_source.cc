#include "ding_worker/replay_buffer/selection/prioritized_source.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

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

std::string UseLimitText(int64_t max_use) {
  return max_use == 0 ? std::string("no limit") : absl::StrCat(max_use);
}

// Turns the iterations in which rows were collected into their ages, in place.
void ToStaleness(int64_t iter, absl::Span<int64_t> collect_iter) {
  for (int64_t& value : collect_iter) {
    value = value < 0 ? -1 : value < iter ? iter - value : 0;
  }
}

}  // namespace

PrioritizedDraws::PrioritizedDraws(const PrioritizedDrawOptions& options, const std::string& name,
                                   const SampledDataAttrMonitor::Options& attr,
                                   const std::shared_ptr<MetricSink>& metrics)
    : options_(options), beta_(options.priority) {
  if (metrics != nullptr) attr_monitor_.emplace(attr, name, metrics);
}

absl::StatusOr<std::unique_ptr<DrawSource>> PrioritizedDraws::MakeSource(
    std::shared_ptr<RowStore> store) {
  return PrioritizedSource::Create(this, std::move(store));
}

absl::Status PrioritizedDraws::CheckUpdate(const PriorityInfo& info) const {
  return CheckPriorityInfo(info);
}

void PrioritizedDraws::Update(const PriorityInfo& info, DrawSource* source) {
  counters_.skipped_updates += source == nullptr
                                   ? static_cast<int64_t>(info.priority.size())
                                   : static_cast<PrioritizedSource*>(source)->Update(info);
}

StateSnapshot PrioritizedDraws::Snapshot() const {
  return
      [max_use = options_.max_use, beta = beta_.Snapshot()](StateWriter* writer) -> absl::Status {
        DING_RETURN_IF_ERROR(writer->WriteInt("max_use", max_use.value_or(0)));
        return beta(writer);
      };
}

// Checks the options under which the saved state has become what it is. Priorities, rewards and
// collect_iter are saved as they came: alpha, nstep, gamma and max_staleness apply when rows are
// drawn.
absl::StatusOr<std::function<void()>> PrioritizedDraws::Read(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const int64_t max_use, reader->ReadInt("max_use"));
  if (max_use != options_.max_use.value_or(0)) {
    return absl::InvalidArgumentError(absl::StrCat("saved max_use is ", UseLimitText(max_use),
                                                   ", expected ",
                                                   UseLimitText(options_.max_use.value_or(0))));
  }
  DING_ASSIGN_OR_RETURN(const double beta, beta_.Read(reader));
  return std::function<void()>([this, beta] { beta_.set(beta); });
}

PrioritizedSource::PrioritizedSource(PrioritizedDraws* draws, const Fields& fields,
                                     std::shared_ptr<TransitionReader> reader,
                                     std::unique_ptr<PriorityTable> priorities)
    : DrawSource(std::move(reader)),
      draws_(draws),
      fields_(fields),
      priorities_(std::move(priorities)),
      staleness_(draws->options_.max_staleness, fields.collect_iter) {}

absl::StatusOr<std::unique_ptr<PrioritizedSource>> PrioritizedSource::Create(
    PrioritizedDraws* draws, std::shared_ptr<RowStore> store) {
  const PrioritizedDrawOptions& options = draws->options_;
  const Spec& rows = *store->spec();
  Fields fields;
  DING_ASSIGN_OR_RETURN(const std::optional<int> given,
                        FindScalar(rows, kColumnPriority, DType::kFloat32));
  fields.given_priority = given.has_value();
  DING_ASSIGN_OR_RETURN(fields.collect_iter, FindScalar(rows, kColumnCollectIter, DType::kInt64));
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<PriorityTable> priorities,
      PriorityTable::Create(store->capacity_rows(), options.priority.alpha, store->begin_id()));
  DING_ASSIGN_OR_RETURN(
      std::shared_ptr<TransitionReader> reader,
      TransitionReader::Create(
          std::move(store), options.nstep, options.gamma,
          {Scalar(kColumnWeight, DType::kFloat32), Scalar(kColumnUse, DType::kInt64),
           Scalar(kColumnStaleness, DType::kInt64), Scalar(kColumnPriority, DType::kFloat32),
           Scalar(kColumnReplayBufferIdx, DType::kInt64)}));
  const Spec& batch = *reader->spec();
  DING_ASSIGN_OR_RETURN(fields.weight, batch.IndexOf(kColumnWeight, "batch"));
  DING_ASSIGN_OR_RETURN(fields.use, batch.IndexOf(kColumnUse, "batch"));
  DING_ASSIGN_OR_RETURN(fields.staleness, batch.IndexOf(kColumnStaleness, "batch"));
  DING_ASSIGN_OR_RETURN(fields.priority, batch.IndexOf(kColumnPriority, "batch"));
  DING_ASSIGN_OR_RETURN(fields.buffer_idx, batch.IndexOf(kColumnReplayBufferIdx, "batch"));
  return std::unique_ptr<PrioritizedSource>(
      new PrioritizedSource(draws, fields, std::move(reader), std::move(priorities)));
}

bool PrioritizedSource::RanksToIds(absl::Span<int64_t> ranks) const {
  if (!InRange(ranks, size())) return false;
  for (int64_t& rank : ranks) rank = priorities_->IdOfRank(rank);
  return true;
}

absl::Status PrioritizedSource::DrawByPriority(const DrawRequest& request,
                                               absl::Span<int64_t> ids) {
  priorities_->Draw(request.first_rank, request.end_rank, request.rng, ids);
  for (int64_t& slot : ids) slot = priorities_->IdOf(slot);
  return absl::OkStatus();
}

absl::Span<const float> PrioritizedSource::GivenPriorities(const SegmentBatch& data) const {
  return fields_.given_priority ? data.rows.column<float>(kColumnPriority)
                                : absl::Span<const float>();
}

absl::Status PrioritizedSource::Check(const SegmentBatch& data) const {
  return CheckPriorities(GivenPriorities(data));
}

void PrioritizedSource::Append(const SegmentBatch& data, int64_t first_id) {
  priorities_->Append(store().begin_id(), store().end_id(), GivenPriorities(data));
  staleness_.Append(store(), std::max(first_id, store().begin_id()));
}

void PrioritizedSource::Clear() {
  priorities_->Clear();
  staleness_.Append(store(), store().end_id());
}

void PrioritizedSource::RetireStale(int64_t learner_iter, RetiredRows retired) {
  const int64_t before = size();
  staleness_.Take(learner_iter, [&](int64_t begin, int64_t end) {
    priorities_->Retire(begin, end);
    retired(begin, end);
  });
  draws_->counters_.retired_by_staleness += before - size();
}

void PrioritizedSource::Retire(int64_t id, RetiredRows retired) {
  if (!priorities_->IsValid(id)) return;
  priorities_->Retire(id, id + 1);
  retired(id, id + 1);
  ++draws_->counters_.retired_by_remover;
}

absl::Status PrioritizedSource::Draw(const DrawRequest& request,
                                     std::optional<TransitionDraw>* draw) {
  DING_RETURN_IF_ERROR(reader().Start(request.size, draw));
  return Select(request, (*draw)->ids());
}

// Column weight is p^alpha for now.
DrawFacts PrioritizedSource::Commit(const DrawRequest& request, TransitionDraw* draw,
                                    RetiredRows retired) {
  const absl::Span<int64_t> slots = draw->column<int64_t>(fields_.buffer_idx);
  const absl::Span<int64_t> use = draw->column<int64_t>(fields_.use);
  const absl::Span<float> weight = draw->column<float>(fields_.weight);
  const absl::Span<float> priority = draw->column<float>(fields_.priority);
  const absl::Span<const int64_t> ids = draw->ids();
  for (size_t i = 0; i < ids.size(); ++i) {
    slots[i] = priorities_->SlotOf(ids[i]);
    weight[i] = priorities_->weight(slots[i]);
    priority[i] = priorities_->priority(slots[i]);
    use[i] = priorities_->CountUse(slots[i]);
  }
  DrawFacts facts;
  facts.learner_iter = request.learner_iter;
  facts.envstep = request.envstep;
  facts.beta = draws_->beta_.value();
  draws_->beta_.CountDraw();
  if (request.selector->ByPriority()) facts.min_weight = priorities_->min_weight();
  const PrioritizedDrawOptions& options = draws_->options_;
  if (!options.max_use.has_value()) return facts;
  const int64_t used_up = priorities_->RetireUsedUp(slots, *options.max_use);
  draws_->counters_.retired_by_use += used_up;
  if (used_up == 0) return facts;
  for (const int64_t id : ids) {
    if (IsRetired(id)) retired(id, id + 1);
  }
  return facts;
}

void PrioritizedSource::Finish(const DrawFacts& facts, TransitionDraw* draw) const {
  ToImportanceWeights(facts, /*stride=*/1, draw->column<float>(fields_.weight));
  const absl::Span<int64_t> staleness = draw->column<int64_t>(fields_.staleness);
  if (fields_.collect_iter.has_value()) {
    reader().GatherStored(*draw, *fields_.collect_iter,
                          reinterpret_cast<std::byte*>(staleness.data()));
    ToStaleness(facts.learner_iter, staleness);
  } else {
    std::fill(staleness.begin(), staleness.end(), -1);
  }
  if (!draws_->attr_monitor_.has_value()) return;
  draws_->attr_monitor_->Add({draw->column<int64_t>(fields_.use),
                              draw->column<float>(fields_.priority), staleness, facts.beta,
                              facts.learner_iter, facts.envstep});
}

absl::Status PrioritizedSource::Load(StateReader* reader) {
  DING_RETURN_IF_ERROR(priorities_->Load(reader, store().begin_id(), store().end_id()));
  staleness_.Append(store(), store().begin_id());
  return absl::OkStatus();
}

}  // namespace ding
