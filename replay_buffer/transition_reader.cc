#include "ding_worker/replay_buffer/transition_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"

namespace ding {
namespace {

absl::Status CheckFieldNames(const Spec& rows, int obs_fields) {
  for (int i = 0; i < rows.size(); ++i) {
    const std::string& name = rows.field(i).name;
    if (IsObsColumn(name) == (i < obs_fields)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("field ", i, " '", name, "' ", i < obs_fields ? "stands" : "does not stand",
                     " among the final observations; those are 'obs' or 'obs/...' and no others"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> RewardField(const Spec& rows) {
  DING_ASSIGN_OR_RETURN(const int index, rows.IndexOf(kColumnReward, "rows"));
  const FieldSpec& field = rows.field(index);
  if (field.dtype == DType::kFloat32 && field.shape.empty()) return index;
  return absl::InvalidArgumentError(
      absl::StrCat("field 'reward' is ", field.DebugString(), ", expected float32[]"));
}

absl::Status CheckItems(const Spec& rows, int64_t nstep) {
  DING_RETURN_IF_ERROR(CheckItemFields(rows));
  if (nstep == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "nstep is ", nstep,
      ", expected 1: the rows are items, whose returns are made where their data lie"));
}

bool IsReplaced(const FieldSpec& stored, absl::Span<const FieldSpec> added) {
  return std::any_of(added.begin(), added.end(), [&stored](const FieldSpec& column) {
    return column.name == stored.name && column.dtype == stored.dtype &&
           column.shape == stored.shape;
  });
}

absl::StatusOr<SpecPtr> BatchSpec(const Spec& rows, int obs_fields,
                                  absl::Span<const FieldSpec> added) {
  std::vector<FieldSpec> fields(rows.fields().begin(), rows.fields().end());
  for (int i = 0; i < obs_fields; ++i) {
    FieldSpec next = rows.field(i);
    next.name = NextObsColumn(next.name);
    fields.push_back(std::move(next));
  }
  if (!IsItems(rows)) {
    fields.push_back(Scalar(kColumnDiscount, DType::kFloat32));
    fields.push_back(Scalar(kColumnNStep, DType::kInt32));
  }
  fields.push_back(Scalar(kColumnReplayUniqueId, DType::kInt64));
  for (const FieldSpec& column : added) {
    const std::optional<int> stored = rows.Find(column.name);
    if (!stored.has_value() || !IsReplaced(rows.field(*stored), added)) fields.push_back(column);
  }
  return MakeSpec(std::move(fields));
}

}  // namespace

TransitionReader::TransitionReader(std::shared_ptr<RowStore> store, SpecPtr spec,
                                   std::vector<int> gathered_fields, int reward_field,
                                   int64_t nstep, double gamma)
    : store_(std::move(store)),
      items_(IsItems(*store_->spec())),
      gathered_fields_(std::move(gathered_fields)),
      reward_field_(reward_field),
      first_next_obs_field_(store_->spec()->size()),
      discount_field_(first_next_obs_field_ + store_->obs_fields()),
      n_step_field_(discount_field_ + 1),
      id_field_(discount_field_ + (items_ ? 0 : 2)),
      nstep_(nstep),
      gamma_(gamma),
      pool_(std::move(spec)) {}

absl::StatusOr<std::shared_ptr<TransitionReader>> TransitionReader::Create(
    std::shared_ptr<RowStore> store, int64_t nstep, double gamma,
    absl::Span<const FieldSpec> added) {
  const Spec& rows = *store->spec();
  DING_RETURN_IF_ERROR(CheckFieldNames(rows, store->obs_fields()));
  absl::StatusOr<int> reward_field = -1;
  if (IsItems(rows)) {
    DING_RETURN_IF_ERROR(CheckItems(rows, nstep));
  } else {
    reward_field = RewardField(rows);
    if (!reward_field.ok()) return absl::InvalidArgumentError(reward_field.status().message());
  }
  DING_ASSIGN_OR_RETURN(SpecPtr spec, BatchSpec(rows, store->obs_fields(), added));
  std::vector<int> gathered;
  for (int field = 0; field < rows.size(); ++field) {
    if (field == *reward_field && nstep > 1) continue;  // Resolve() sums it.
    if (!IsReplaced(rows.field(field), added)) gathered.push_back(field);
  }
  return std::shared_ptr<TransitionReader>(new TransitionReader(
      std::move(store), std::move(spec), std::move(gathered), *reward_field, nstep, gamma));
}

absl::Status TransitionReader::Start(int64_t size, std::optional<TransitionDraw>* draw) {
  // Two locations per row are the draw's own, and two per frame.
  const int frames = store_->frames_per_row();
  const int64_t row_bytes =
      spec()->row_bytes() +
      2 * static_cast<int64_t>(sizeof(RowLocation) + sizeof(FrameLocation) * frames);
  if (size > std::numeric_limits<int64_t>::max() / 2 / row_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a batch of ", size, " rows of ", row_bytes, " bytes fits in no memory"));
  }
  DING_ASSIGN_OR_RETURN(BatchBuilder block, pool_.Allocate(size));
  draw->emplace(std::move(block), size, id_field_, frames);
  return absl::OkStatus();
}

void TransitionReader::Resolve(TransitionDraw* draw) const {
  draw->pin_ = store_->Pin();
  if (items_) {
    ResolveItems(draw);
  } else if (nstep_ == 1) {
    ResolveOneStep(draw);
  } else {
    ResolveWindows(draw);
  }
}

void TransitionReader::ResolveItems(TransitionDraw* draw) const {
  for (size_t i = 0; i < draw->ids_.size(); ++i) draw->rows_[i] = store_->Locate(draw->ids_[i]);
}

void TransitionReader::ResolveOneStep(TransitionDraw* draw) const {
  const absl::Span<float> discount = draw->block_.column<float>(discount_field_);
  const absl::Span<int32_t> n_step = draw->block_.column<int32_t>(n_step_field_);
  const auto gamma = static_cast<float>(gamma_);
  const RowStore& store = *store_;
  const bool stacks = store.frames_per_row() > 0;
  for (size_t i = 0; i < draw->ids_.size(); ++i) {
    const int64_t id = draw->ids_[i];
    const RowStore::Successor next = store.Next(id);
    draw->rows_[i] = store.Locate(id);
    draw->next_obs_[i] = next.obs;
    if (stacks) ResolveStacks(i, next, draw);
    discount[i] = next.end == SegmentEnd::kTerminated ? 0.0f : gamma;
    n_step[i] = 1;
  }
}

void TransitionReader::ResolveWindows(TransitionDraw* draw) const {
  const absl::Span<float> discount = draw->block_.column<float>(discount_field_);
  const absl::Span<int32_t> n_step = draw->block_.column<int32_t>(n_step_field_);
  const absl::Span<float> reward = draw->block_.column<float>(reward_field_);
  std::vector<float> window;
  for (size_t i = 0; i < draw->ids_.size(); ++i) {
    int64_t id = draw->ids_[i];
    draw->rows_[i] = store_->Locate(id);
    window.clear();
    RowStore::Successor next;
    for (;; id = next.id) {
      float value;
      std::memcpy(&value, store_->At(store_->Locate(id), reward_field_), sizeof(value));
      window.push_back(value);
      next = store_->Next(id);
      if (next.id < 0 || static_cast<int64_t>(window.size()) == nstep_) break;
    }
    const NStepReturn ret = ComputeNStepReturn(window, next.end, nstep_, gamma_);
    draw->next_obs_[i] = next.obs;
    if (store_->frames_per_row() > 0) ResolveStacks(i, next, draw);
    reward[i] = ret.reward;
    discount[i] = ret.bootstrap_discount;
    n_step[i] = static_cast<int32_t>(ret.steps);
  }
}

void TransitionReader::ResolveStacks(size_t row, const RowStore::Successor& next,
                                     TransitionDraw* draw) const {
  const auto frames = static_cast<size_t>(store_->frames_per_row());
  store_->LocateFrames(draw->ids_[row],
                       absl::MakeSpan(draw->frames_).subspan(row * frames, frames));
  store_->LocateFrames(next, absl::MakeSpan(draw->next_frames_).subspan(row * frames, frames));
}

void TransitionReader::GatherStored(const TransitionDraw& draw, int field, std::byte* to) const {
  if (store_->IsStack(field)) {
    store_->GatherStacks(field, draw.frames_, to);
  } else {
    store_->Gather(field, draw.rows_, to);
  }
}

Batch TransitionReader::Gather(TransitionDraw* draw) const {
  const MutableColumnsView to = draw->block_.view();
  for (const int field : gathered_fields_) {
    GatherStored(*draw, field, to.raw_column(field));
  }
  for (int field = 0; field < store_->obs_fields(); ++field) {
    std::byte* const column = to.raw_column(first_next_obs_field_ + field);
    if (store_->IsStack(field)) {
      store_->GatherStacks(field, draw->next_frames_, column);
    } else {
      store_->Gather(field, draw->next_obs_, column);
    }
  }
  draw->pin_ = RowPin();
  return std::move(draw->block_).Seal(static_cast<int64_t>(draw->ids_.size()));
}

}  // namespace ding
