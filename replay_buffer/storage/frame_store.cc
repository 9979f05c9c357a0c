#include "ding_worker/replay_buffer/storage/frame_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/batch.h"

namespace ding {

FrameStore::FrameStore(LinkedRows* rows) : rows_(rows) {
  for (const RowLayout::Stack& stack : rows_->layout().stacks) {
    frames_per_row_ = std::max(frames_per_row_, stack.frames.frames());
  }
  frames_.resize(static_cast<size_t>(frames_per_row_));
}

void FrameStore::Locate(int64_t id, absl::Span<FrameLocation> frames) const {
  for (size_t i = 0; i < frames.size();) {
    frames[i++] = {rows_->Locate(id), FrameLocation::kNewestOfRow};
    if (i == frames.size()) return;
    const int32_t previous = rows_->PreviousOf(id);
    if (previous < 0) {
      const RowLocation slot = rows_->memory().LocateSlot(~previous);
      for (int age = 1; i < frames.size(); ++age) frames[i++] = {slot, age};
      return;
    }
    id -= previous;
  }
}

void FrameStore::Locate(const RowSuccessor& next, absl::Span<FrameLocation> frames) const {
  if (next.id >= 0) return Locate(next.id, frames);
  for (size_t i = 0; i < frames.size(); ++i) frames[i] = {next.obs, static_cast<int>(i)};
}

void FrameStore::Gather(int field, absl::Span<const FrameLocation> frames, std::byte* to) const {
  const std::vector<RowLayout::Stack>& stacks = rows_->layout().stacks;
  const auto stack = std::find_if(stacks.begin(), stacks.end(),
                                  [field](const auto& found) { return found.field == field; });
  DING_CHECK(stack != stacks.end()) << "field " << field << " is not a stack";
  const int count = stack->frames.frames();
  for (size_t row = 0; row < frames.size(); row += static_cast<size_t>(frames_per_row_)) {
    for (int age = count - 1; age >= 0; --age) {
      stack->frames.CopyIn(At(frames[row + static_cast<size_t>(age)], *stack), count - 1 - age, to);
    }
    to += stack->bytes;
  }
}

void FrameStore::Plan(const SegmentBatch& data, int64_t skipped, int64_t begin) {
  cut_rows_.clear();
  whole_rows_.clear();
  segments_of_push_.clear();
  if (rows_->ReleasesBlocks(begin)) {
    for (int64_t id = kept_begin_; id < begin; ++id) {
      const int64_t next = rows_->Next(id).id;
      if (next >= begin && rows_->PreviousOf(next) > 0) cut_rows_.push_back(next);
    }
  }
  const ColumnsView rows = data.rows.view();
  for (size_t i = 0; i < data.segments.size(); ++i) {
    const Segment kept = WithoutFirstRows(data.segments[i], skipped);
    if (kept.length < 1) continue;
    if (!SegmentGoesOn(data, static_cast<int>(i), kept, begin)) whole_rows_.push_back(kept.begin);
    for (int64_t row = kept.begin + 1; row < kept.begin + kept.length; ++row) {
      if (!GoesOn(rows, row - 1, row)) whole_rows_.push_back(row);
    }
  }
}

// Whether a segment's first row has a predecessor, in the push or the store, and its stacks are the
// predecessor's shifted by one frame.
bool FrameStore::SegmentGoesOn(const SegmentBatch& data, int segment, const Segment& kept,
                               int64_t begin) {
  const auto [newest, first_of_stream] = segments_of_push_.try_emplace(kept.stream, segment);
  if (!first_of_stream) {
    const Segment& before = data.segments[std::exchange(newest->second, segment)];
    return before.end == SegmentEnd::kCut && before.first_step + before.length == kept.first_step &&
           GoesOn(data.rows.view(), before.begin + before.length - 1, kept.begin);
  }
  const LinkedRows::Tail* const tail = rows_->TailOf(kept.stream);
  return tail != nullptr && tail->row >= begin && tail->next_step == kept.first_step &&
         GoesOnAfter(tail->row, data.rows.view(), kept.begin);
}

// Whether the stacks of row `row` are those of row `before` shifted by one frame.
bool FrameStore::GoesOn(const ColumnsView& rows, int64_t before, int64_t row) const {
  const std::vector<RowLayout::Stack>& stacks = rows_->layout().stacks;
  return std::all_of(stacks.begin(), stacks.end(), [&](const auto& stack) {
    const std::byte* const column = rows.raw_column(stack.field);
    return stack.frames.GoesOn(column + before * stack.bytes, column + row * stack.bytes);
  });
}

// Whether the stacks of row `row` are those of the stored row `id` shifted by one frame.
bool FrameStore::GoesOnAfter(int64_t id, const ColumnsView& rows, int64_t row) {
  Locate(id, absl::MakeSpan(frames_));
  const std::vector<RowLayout::Stack>& stacks = rows_->layout().stacks;
  return std::all_of(stacks.begin(), stacks.end(), [&](const auto& stack) {
    const std::byte* const next = rows.raw_column(stack.field) + row * stack.bytes;
    const int frames = stack.frames.frames();
    for (int age = 0; age + 1 < frames; ++age) {
      if (!stack.frames.Holds(next, frames - 2 - age, At(frames_[age], stack))) return false;
    }
    return true;
  });
}

void FrameStore::CutBefore(int64_t id) {
  // Until their block is released, the frames of evicted rows stay where they are.
  if (id <= rows_->begin_id() || (!rows_->ReleasesBlocks(id) && id != rows_->end_id())) return;
  for (const int64_t row : cut_rows_) GiveSlot(row);
  for (; kept_begin_ < id; ++kept_begin_) {
    const int32_t previous = rows_->PreviousOf(kept_begin_);
    if (previous < 0) rows_->memory().RetireSlot(~previous);
  }
}

void FrameStore::CutAll() {
  cut_rows_.clear();
  CutBefore(rows_->end_id());
}

// Copies the older frames of a stored row into a slot of its own.
void FrameStore::GiveSlot(int64_t id) {
  Locate(id, absl::MakeSpan(frames_));
  const int32_t slot = rows_->memory().TakeSlot();
  for (const RowLayout::Stack& stack : rows_->layout().stacks) {
    std::byte* to = SlotAt(rows_->memory().LocateSlot(slot), stack);
    for (int age = stack.frames.frames() - 1; age > 0; --age) {
      std::memcpy(to, At(frames_[age], stack), static_cast<size_t>(stack.frames.frame_bytes()));
      to += stack.frames.frame_bytes();
    }
  }
  *rows_->MutablePreviousAt(id) = ~slot;
}

void FrameStore::Append(const ColumnsView& from) {
  const int64_t first_id = rows_->end_id() - from.rows();
  rows_->ForEachPiece(first_id, rows_->end_id(), [this](int64_t piece_id, int64_t rows) {
    std::fill_n(rows_->MutablePreviousAt(piece_id), rows, 1);
  });
  for (const RowLayout::Stack& stack : rows_->layout().stacks) {
    const std::byte* row = from.raw_column(stack.field);
    for (int64_t i = 0; i < from.rows(); ++i, row += stack.bytes) {
      stack.frames.CopyOut(row, stack.frames.frames() - 1,
                           rows_->MutableAt(rows_->Locate(first_id + i), stack.field));
    }
  }
}

void FrameStore::LinkSegment(int64_t first_id, const LinkedRows::Linked& linked,
                             const ColumnsView& final_obs, int64_t final_row) {
  if (linked.predecessor >= 0) {
    // KeepOlderFrames() replaces this if the stack is not the predecessor's shifted by one frame.
    *rows_->MutablePreviousAt(first_id) = static_cast<int32_t>(first_id - linked.predecessor);
  }
  for (const RowLayout::Stack& stack : rows_->layout().stacks) {
    const std::byte* const from = final_obs.raw_column(stack.field) + final_row * stack.bytes;
    std::byte* const to = SlotAt(linked.final_obs, stack);
    for (int i = 0; i < stack.frames.frames(); ++i) {
      stack.frames.CopyOut(from, i, to + i * stack.frames.frame_bytes());
    }
  }
}

void FrameStore::KeepOlderFrames(const ColumnsView& rows, int64_t first_id) {
  for (const int64_t row : whole_rows_) {
    const int32_t slot = rows_->memory().TakeSlot();
    for (const RowLayout::Stack& stack : rows_->layout().stacks) {
      const std::byte* const from = rows.raw_column(stack.field) + row * stack.bytes;
      std::byte* const to = SlotAt(rows_->memory().LocateSlot(slot), stack);
      for (int i = 0; i + 1 < stack.frames.frames(); ++i) {
        stack.frames.CopyOut(from, i, to + i * stack.frames.frame_bytes());
      }
    }
    *rows_->MutablePreviousAt(first_id + row) = ~slot;
  }
}

int64_t FrameStore::FirstWhole(int64_t id) const {
  int64_t first = id;
  for (int64_t row = id; row < rows_->end_id() && frames_per_row_ > 0; ++row) {
    int64_t at = row;
    for (int age = 1; age < frames_per_row_ && at >= id; ++age) {
      const int32_t previous = rows_->PreviousOf(at);
      if (previous < 0) break;
      at -= previous;
    }
    if (at < id) first = row + 1;
  }
  return first;
}

absl::StatusOr<int32_t> FrameStore::AdoptPrevious(int32_t first_slot) {
  int32_t slots = first_slot;
  for (int64_t id = rows_->begin_id(); id < rows_->end_id(); ++id) {
    int32_t& previous = *rows_->MutablePreviousAt(id);
    // Frames are found along `previous`, and the rows that need them along the links: both must
    // agree.
    const int64_t before = id - previous;
    if (previous > 0 ? before >= rows_->begin_id() && rows_->LinkOf(before) == previous - 1
                     : ~previous == slots - first_slot) {
      if (previous < 0) previous = ~slots++;
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("saved previous ", previous, " of row ",
                                                   id - rows_->begin_id(), " leads nowhere"));
  }
  return slots;
}

}  // namespace ding
