#include "ding_worker/replay_buffer/storage/transition_reader.h"

#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/segment.h"

namespace ding {
namespace {

absl::Status CheckNStep(const Spec& rows, int64_t nstep) {
  if (nstep == 1 || !IsItems(rows)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "nstep is ", nstep,
      ", expected 1: the rows are items, whose returns are made where their data lie"));
}

}  // namespace

TransitionReader::TransitionReader(std::shared_ptr<RowStore> store, TransitionLayout layout,
                                   int64_t nstep, double gamma)
    : store_(std::move(store)),
      layout_(std::move(layout)),
      items_(IsItems(*store_->spec())),
      nstep_(nstep),
      gamma_(gamma),
      pool_(layout_.spec) {}

absl::StatusOr<std::shared_ptr<TransitionReader>> TransitionReader::Create(
    std::shared_ptr<RowStore> store, int64_t nstep, double gamma,
    absl::Span<const FieldSpec> added) {
  DING_ASSIGN_OR_RETURN(TransitionLayout layout,
                        MakeTransitionLayout(*store->spec(), store->obs_fields(), added));
  DING_RETURN_IF_ERROR(CheckNStep(*store->spec(), nstep));
  return std::shared_ptr<TransitionReader>(
      new TransitionReader(std::move(store), std::move(layout), nstep, gamma));
}

absl::Status TransitionReader::Start(int64_t size, std::optional<TransitionDraw>* draw) {
  // The draw itself holds two locations per row and two per frame.
  const int frames = store_->frames_per_row();
  const int64_t row_bytes =
      spec()->row_bytes() +
      2 * static_cast<int64_t>(sizeof(RowLocation) + sizeof(FrameLocation) * frames);
  if (size > std::numeric_limits<int64_t>::max() / 2 / row_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a batch of ", size, " rows of ", row_bytes, " bytes fits in no memory"));
  }
  DING_ASSIGN_OR_RETURN(BatchBuilder block, pool_.Allocate(size));
  draw->emplace(std::move(block), size, layout_.replay_unique_id, frames);
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
  const absl::Span<float> discount = draw->block_.column<float>(layout_.discount);
  const absl::Span<int32_t> n_step = draw->block_.column<int32_t>(layout_.n_step);
  std::fill(discount.begin(), discount.end(), static_cast<float>(gamma_));
  std::fill(n_step.begin(), n_step.end(), 1);
  const RowFinder find = store_->finder();
  const size_t size = draw->ids_.size();
  const int64_t* const ids = draw->ids_.data();
  RowLocation* const rows = draw->rows_.data();
  RowLocation* const next_obs = draw->next_obs_.data();
  for (size_t i = 0; i < size; ++i) {
    rows[i] = find.Locate(ids[i]);
    const RowSuccessor next = find.Next(ids[i]);
    next_obs[i] = next.obs;
    if (ABSL_PREDICT_FALSE(next.end == SegmentEnd::kTerminated)) discount[i] = 0;
  }
  if (store_->frames_per_row() == 0) return;
  for (size_t i = 0; i < size; ++i) ResolveStacks(i, store_->Next(ids[i]), draw);
}

void TransitionReader::ResolveWindows(TransitionDraw* draw) const {
  const absl::Span<float> discount = draw->block_.column<float>(layout_.discount);
  const absl::Span<int32_t> n_step = draw->block_.column<int32_t>(layout_.n_step);
  const absl::Span<float> reward = draw->block_.column<float>(layout_.reward);
  const auto components = static_cast<size_t>(layout_.spec->field(layout_.reward).num_elements());
  std::vector<float> window;  // [rows, components]
  for (size_t i = 0; i < draw->ids_.size(); ++i) {
    int64_t id = draw->ids_[i];
    draw->rows_[i] = store_->Locate(id);
    window.clear();
    RowSuccessor next;
    for (int64_t rows = 1;; id = next.id, ++rows) {
      window.resize(window.size() + components);
      std::memcpy(window.data() + window.size() - components,
                  store_->At(store_->Locate(id), layout_.reward), components * sizeof(float));
      next = store_->Next(id);
      if (next.id < 0 || rows == nstep_) break;
    }
    const NStepReturn ret = ComputeNStepReturns(window, next.end, nstep_, gamma_,
                                                reward.subspan(i * components, components));
    draw->next_obs_[i] = next.obs;
    if (store_->frames_per_row() > 0) ResolveStacks(i, next, draw);
    discount[i] = ret.bootstrap_discount;
    n_step[i] = static_cast<int32_t>(ret.steps);
  }
}

void TransitionReader::ResolveStacks(size_t row, const RowSuccessor& next,
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

// Asks the disk for all rows of a draw, so that it reads them side by side.
void TransitionReader::ReadAhead(const TransitionDraw& draw) const {
  for (const RowLocation& row : draw.rows_) store_->ReadAhead(row);
  for (const RowLocation& next : draw.next_obs_) store_->ReadAhead(next);
  for (const FrameLocation& frame : draw.frames_) {
    if (frame.age == FrameLocation::kNewestOfRow) store_->ReadAhead(frame.at);
  }
}

void TransitionReader::Gather(TransitionDraw* draw) const {
  if (store_->reads_ahead() && !items_) ReadAhead(*draw);
  const MutableColumnsView to = draw->block_.view();
  // The columns are copied one after the other, so the rows are fetched together before.
  const int64_t last_byte = store_->row_bytes() - 1;
  for (size_t i = 0; !items_ && i < draw->ids_.size(); ++i) {
    __builtin_prefetch(draw->rows_[i].at);
    __builtin_prefetch(draw->rows_[i].at + last_byte);
    __builtin_prefetch(draw->next_obs_[i].at);
  }
  for (const int field : layout_.stored) {
    if (field == layout_.reward && nstep_ > 1) continue;  // Resolve() has summed it.
    GatherStored(*draw, field, to.raw_column(field));
  }
  for (int field = 0; field < store_->obs_fields(); ++field) {
    std::byte* const column = to.raw_column(layout_.first_next_obs + field);
    if (store_->IsStack(field)) {
      store_->GatherStacks(field, draw->next_frames_, column);
    } else {
      store_->Gather(field, draw->next_obs_, column);
    }
  }
  draw->pin_ = RowPin();
}

Batch TransitionReader::Seal(TransitionDraw* draw) const {
  return std::move(draw->block_).Seal(static_cast<int64_t>(draw->ids_.size()));
}

}  // namespace ding
