#include "ding_worker/replay_buffer/row_store.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/saved_columns.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/frame_stack.h"
#include "ding_worker/replay_buffer/read_vector.h"

namespace ding {
namespace {

// Far from overflow, far beyond any run.
constexpr int64_t kMaxId = (int64_t{1} << 60) - 1;
constexpr int64_t kLinkBytes = sizeof(int32_t);
constexpr int32_t kLastEnd = static_cast<int32_t>(SegmentEnd::kTruncated);

template <int kBytes>
void CopyFixed(absl::Span<const RowLocation> rows, int64_t offset, std::byte* to) {
  for (const RowLocation& row : rows) {
    std::memcpy(to, row.block + offset + row.row * kBytes, kBytes);
    to += kBytes;
  }
}

void CopyAny(absl::Span<const RowLocation> rows, int64_t offset, int64_t bytes, std::byte* to) {
  for (const RowLocation& row : rows) {
    std::memcpy(to, row.block + offset + row.row * bytes, static_cast<size_t>(bytes));
    to += bytes;
  }
}

absl::string_view BytesAt(const std::byte* data, int64_t bytes) {
  return {reinterpret_cast<const char*>(data), static_cast<size_t>(bytes)};
}

absl::Status OutOfMemory(int64_t blocks, int64_t bytes, absl::string_view what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("out of memory: ", blocks, " more ", what, " of ", bytes, " bytes"));
}

absl::Span<char> WritableAt(const std::byte* data, int64_t bytes) {
  return {reinterpret_cast<char*>(const_cast<std::byte*>(data)), static_cast<size_t>(bytes)};
}

// [rows, frames, ...shape of a frame of the field]
Shape StacksShape(int64_t rows, int64_t frames, const FieldSpec& field) {
  return ColumnShape(rows, ColumnShape(frames, FrameShape(field)));
}

bool IsNoRow(int32_t link) { return link < 0; }

absl::Status Damaged(absl::string_view what, int64_t found, int64_t low, int64_t high) {
  return absl::InvalidArgumentError(
      absl::StrCat("saved ", what, " is ", found, ", expected ", low, " to ", high));
}

// What is kept of a segment if the first `skipped` rows of its push are not: a length below 1 if
// nothing.
Segment WithoutFirstRows(Segment segment, int64_t skipped) {
  const int64_t missing = std::max<int64_t>(0, skipped - segment.begin);
  segment.begin += missing;
  segment.first_step += missing;
  segment.length -= missing;
  return segment;
}

}  // namespace

RowStore::RowStore(SpecPtr rows, int obs_fields, int64_t capacity_rows)
    : spec_(std::move(rows)),
      obs_fields_(obs_fields),
      capacity_rows_(capacity_rows),
      layout_(LayOutRows(*spec_, obs_fields, capacity_rows)),
      block_shift_(layout_.block_shift),
      row_mask_((int64_t{1} << layout_.block_shift) - 1),
      slot_mask_((int64_t{1} << layout_.slot_shift) - 1) {
  for (const RowLayout::Stack& stack : layout_.stacks) {
    frames_per_row_ = std::max(frames_per_row_, stack.frames.frames());
  }
  frames_.resize(static_cast<size_t>(frames_per_row_));
  // The first and the last block may each hold as little as one valid row.
  const int64_t most_blocks = (capacity_rows >> block_shift_) + 2;
  int64_t table_size = 2;
  while (table_size <= most_blocks) table_size *= 2;
  block_mask_ = table_size - 1;
  blocks_.resize(static_cast<size_t>(table_size));
  slots_in_block_.resize(static_cast<size_t>(table_size));
  epochs_.emplace_back();
}

absl::StatusOr<std::unique_ptr<RowStore>> RowStore::Create(SpecPtr rows, int obs_fields,
                                                           const RowCapacity& capacity) {
  DING_CHECK(obs_fields >= 0 && obs_fields <= rows->size())
      << obs_fields << " observation fields of " << rows->size();
  DING_ASSIGN_OR_RETURN(const int64_t capacity_rows, RowsOfCapacity(*rows, obs_fields, capacity));
  return std::unique_ptr<RowStore>(new RowStore(std::move(rows), obs_fields, capacity_rows));
}

template <typename F>
void RowStore::ForEachPiece(int64_t begin, int64_t end, F f) const {
  while (begin < end) {
    const int64_t piece_end = std::min(end, (BlockOf(begin) + 1) << block_shift_);
    f(begin, piece_end - begin);
    begin = piece_end;
  }
}

absl::Status RowStore::CheckLayout(const SegmentBatch& data, absl::string_view where) const {
  // Collectors use one spec for all their pushes.
  if (data.rows.spec_ptr() != spec_) {
    DING_RETURN_IF_ERROR(CheckSameLayout(*spec_, data.rows.spec(), where));
  }
  // Its fields are the first of the rows' (ValidateSegments), which are right.
  if (data.final_obs.spec().size() == obs_fields_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": final_obs has ", data.final_obs.spec().size(), " fields, expected ", obs_fields_));
}

absl::Status RowStore::Append(const SegmentBatch& data) {
  const int64_t rows = data.size();
  // Of a push larger than the store, the last capacity_rows_ rows go in.
  const int64_t skipped = std::max<int64_t>(0, rows - capacity_rows_);
  const int64_t first_id = end_ + skipped;
  const int64_t first_kept = std::clamp(end_ + rows - capacity_rows_, begin_, end_);
  Reclaim();
  PlanStacks(data, skipped, first_kept);
  DING_RETURN_IF_ERROR(
      Reserve(first_id, rows - skipped,
              static_cast<int64_t>(data.segments.size() + cut_rows_.size() + whole_rows_.size())));
  // From here on nothing fails.
  EvictBefore(first_kept);
  if (skipped > 0) {
    begin_ = end_ = kept_begin_ = first_id;
    ReleaseBlocksBefore(BlockOf(first_id));
  }
  end_ = first_id + rows - skipped;
  AddBlocks(end_);
  const ColumnsView view = data.rows.view();
  CopyColumns(view.Slice(skipped, rows - skipped), first_id);
  const ColumnsView final_obs = data.final_obs.view();
  for (size_t i = 0; i < data.segments.size(); ++i) {
    const Segment segment = WithoutFirstRows(data.segments[i], skipped);
    if (segment.length < 1) continue;
    LinkSegment(segment, first_id + segment.begin - skipped, final_obs, static_cast<int64_t>(i));
  }
  for (const int64_t row : whole_rows_) KeepOlderFrames(view, row, first_id + row - skipped);
  TrimSpareBlocks();
  return absl::OkStatus();
}

// Which rows need slots for the older frames of their stacks, when `data` without its first
// `skipped` rows is appended to what is left from `begin` on.
void RowStore::PlanStacks(const SegmentBatch& data, int64_t skipped, int64_t begin) {
  if (frames_per_row_ == 0) return;
  cut_rows_.clear();
  whole_rows_.clear();
  segments_of_push_.clear();
  if (BlockOf(begin) > first_block_) {
    for (int64_t id = kept_begin_; id < begin; ++id) {
      const int64_t next = Next(id).id;
      if (next >= begin && PreviousOf(next) > 0) cut_rows_.push_back(next);
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

// Whether a segment's first row has a predecessor, in the push or the store, and its stacks go on
// with those of it.
bool RowStore::SegmentGoesOn(const SegmentBatch& data, int segment, const Segment& kept,
                             int64_t begin) {
  const auto [newest, first_of_stream] = segments_of_push_.try_emplace(kept.stream, segment);
  if (!first_of_stream) {
    const Segment& before = data.segments[std::exchange(newest->second, segment)];
    return before.end == SegmentEnd::kCut && before.first_step + before.length == kept.first_step &&
           GoesOn(data.rows.view(), before.begin + before.length - 1, kept.begin);
  }
  const auto tail = open_tails_.find(kept.stream);
  return tail != open_tails_.end() && tail->second.row >= begin &&
         tail->second.next_step == kept.first_step &&
         GoesOnAfter(tail->second.row, data.rows.view(), kept.begin);
}

bool RowStore::GoesOn(const ColumnsView& rows, int64_t before, int64_t row) const {
  return std::all_of(layout_.stacks.begin(), layout_.stacks.end(), [&](const auto& stack) {
    const std::byte* const column = rows.raw_column(stack.field);
    return stack.frames.GoesOn(column + before * stack.bytes, column + row * stack.bytes);
  });
}

bool RowStore::GoesOnAfter(int64_t id, const ColumnsView& rows, int64_t row) {
  LocateFrames(id, absl::MakeSpan(frames_));
  return std::all_of(layout_.stacks.begin(), layout_.stacks.end(), [&](const auto& stack) {
    const std::byte* const next = rows.raw_column(stack.field) + row * stack.bytes;
    const int frames = stack.frames.frames();
    for (int age = 0; age + 1 < frames; ++age) {
      if (!stack.frames.Holds(next, frames - 2 - age, FrameAt(frames_[age], stack))) return false;
    }
    return true;
  });
}

// Allocates whatever appending `rows` rows at `first_id` will need beyond what evicting frees.
absl::Status RowStore::Reserve(int64_t first_id, int64_t rows, int64_t slots) {
  const int64_t first_kept = std::max(begin_, first_id + rows - capacity_rows_);
  const int64_t released = std::clamp(BlockOf(first_kept), first_block_, end_block_) - first_block_;
  const int64_t added =
      BlockOf(first_id + rows - 1) + 1 - std::max(end_block_, BlockOf(first_kept));
  const int64_t usable =
      static_cast<int64_t>(spare_blocks_.size()) + (NobodyReads() ? released : 0);
  for (int64_t i = usable; i < added; ++i) {
    Memory block = AllocateAligned(layout_.block_bytes);
    if (block == nullptr) return OutOfMemory(added - i, layout_.block_bytes, "blocks");
    spare_blocks_.push_back(std::move(block));
  }
  return ReserveSlots(slots);
}

absl::Status RowStore::ReserveSlots(int64_t slots) {
  while (static_cast<int64_t>(free_slots_.size()) < slots) {
    const auto first = static_cast<int64_t>(slot_stream_.size());
    // Links have room for as many slots as there can be rows; more exist only while readers hold
    // back the retired ones, or if most rows of the largest store have stacks that do not go on.
    if (first + slot_mask_ >= kMaxCapacityRows) {
      return OutOfMemory(1, layout_.side_block_bytes, "side blocks");
    }
    Memory block = AllocateAligned(layout_.side_block_bytes);
    if (block == nullptr) return OutOfMemory(1, layout_.side_block_bytes, "side blocks");
    side_blocks_.push_back(std::move(block));
    slot_stream_.resize(static_cast<size_t>(first + slot_mask_ + 1));
    for (int64_t slot = first + slot_mask_; slot >= first; --slot) {
      free_slots_.push_back(static_cast<int32_t>(slot));
    }
  }
  return absl::OkStatus();
}

// One of those reserved.
int32_t RowStore::TakeSlot() {
  DING_CHECK(!free_slots_.empty()) << "no side slot was reserved";
  const int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void RowStore::Clear() {
  cut_rows_.clear();
  EvictBefore(end_);
}

// Forgets the rows below `id`; cut_rows_ are those of PlanStacks() for it.
void RowStore::EvictBefore(int64_t id) {
  if (id <= begin_) return;
  if (frames_per_row_ > 0 && (BlockOf(id) > first_block_ || id == end_)) CutStacksBefore(id);
  ForEachPiece(begin_, id, [this](int64_t first, int64_t rows) {
    int64_t& slots = slots_in_block_[BlockOf(first) & block_mask_];
    for (int64_t row = first; slots > 0 && row < first + rows; ++row) {
      const int32_t code = ~LinkOf(row);
      if (code < 0) continue;
      ForgetTail(code, row);
      RetireSlot(code >> kEndBits);
      --slots;
    }
  });
  begin_ = id;
  ReleaseBlocksBefore(BlockOf(id));
}

// No row from `id` on needs the frames of one below any longer.
void RowStore::CutStacksBefore(int64_t id) {
  for (const int64_t row : cut_rows_) {
    LocateFrames(row, absl::MakeSpan(frames_));
    const int32_t slot = TakeSlot();
    for (const RowLayout::Stack& stack : layout_.stacks) {
      std::byte* to = StackAt(LocateSlot(slot), stack);
      for (int age = stack.frames.frames() - 1; age > 0; --age) {
        std::memcpy(to, FrameAt(frames_[age], stack),
                    static_cast<size_t>(stack.frames.frame_bytes()));
        to += stack.frames.frame_bytes();
      }
    }
    PreviousOf(row) = ~slot;
  }
  for (; kept_begin_ < id; ++kept_begin_) {
    const int32_t previous = PreviousOf(kept_begin_);
    if (previous < 0) RetireSlot(~previous);
  }
}

// The row with this link is evicted: if its stream waits for more, it waits no longer.
void RowStore::ForgetTail(int32_t code, int64_t row) {
  if (static_cast<SegmentEnd>(code & kEndMask) != SegmentEnd::kCut) return;
  const auto tail = open_tails_.find(slot_stream_[code >> kEndBits]);
  if (tail != open_tails_.end() && tail->second.row == row) open_tails_.erase(tail);
}

void RowStore::ReleaseBlocksBefore(int64_t block) {
  for (; first_block_ < std::min(block, end_block_); ++first_block_) {
    RetireBlock(std::move(blocks_[first_block_ & block_mask_]));
  }
  first_block_ = std::max(first_block_, block);
  end_block_ = std::max(end_block_, block);
}

// Blocks for the rows up to `end`, from the spare ones.
void RowStore::AddBlocks(int64_t end) {
  for (; end_block_ <= BlockOf(end - 1); ++end_block_) {
    DING_CHECK(!spare_blocks_.empty()) << "no block was reserved for rows up to " << end;
    blocks_[end_block_ & block_mask_] = std::move(spare_blocks_.back());
    spare_blocks_.pop_back();
  }
}

void RowStore::CopyColumns(const ColumnsView& from, int64_t first_id) {
  ForEachPiece(first_id, first_id + from.rows(), [&](int64_t piece_id, int64_t rows) {
    const RowLocation to = Locate(piece_id);
    for (int field = 0; field < spec_->size(); ++field) {
      if (IsStack(field)) continue;
      const int64_t bytes = spec_->row_bytes(field);
      std::memcpy(const_cast<std::byte*>(At(to, field)),
                  from.raw_column(field) + (piece_id - first_id) * bytes,
                  static_cast<size_t>(rows * bytes));
    }
    std::fill_n(&LinkOf(piece_id), rows, 0);
    if (frames_per_row_ > 0) std::fill_n(&PreviousOf(piece_id), rows, 1);
  });
  if (frames_per_row_ > 0) CopyNewestFrames(from, first_id);
}

void RowStore::CopyNewestFrames(const ColumnsView& from, int64_t first_id) {
  for (const RowLayout::Stack& stack : layout_.stacks) {
    const std::byte* row = from.raw_column(stack.field);
    for (int64_t i = 0; i < from.rows(); ++i, row += stack.bytes) {
      stack.frames.CopyOut(row, stack.frames.frames() - 1,
                           const_cast<std::byte*>(At(Locate(first_id + i), stack.field)));
    }
  }
}

// Links the row before the segment to it, and its last row to its final observation.
void RowStore::LinkSegment(const Segment& segment, int64_t first_id, const ColumnsView& final_obs,
                           int64_t final_row) {
  const int64_t last = first_id + segment.length - 1;
  const auto [tail, inserted] = open_tails_.try_emplace(segment.stream);
  if (!inserted && tail->second.next_step == segment.first_step) {
    int32_t& link = LinkOf(tail->second.row);
    RetireSlot(~link >> kEndBits);
    link = static_cast<int32_t>(first_id - tail->second.row - 1);
    --slots_in_block_[BlockOf(tail->second.row) & block_mask_];
    // Unless it is to be whole.
    if (frames_per_row_ > 0) PreviousOf(first_id) = link + 1;
  }
  const int32_t slot = TakeSlot();
  KeepFinalObs(final_obs, final_row, slot);
  slot_stream_[slot] = segment.stream;
  ++slots_in_block_[BlockOf(last) & block_mask_];
  LinkOf(last) = ~(slot << kEndBits | static_cast<int32_t>(segment.end));
  if (segment.end == SegmentEnd::kCut) {
    tail->second = {last, segment.first_step + segment.length};
  } else {
    open_tails_.erase(tail);
  }
}

void RowStore::KeepFinalObs(const ColumnsView& final_obs, int64_t final_row, int32_t slot) {
  const RowLocation at = LocateSlot(slot);
  for (int field = 0; field < obs_fields_; ++field) {
    if (IsStack(field)) continue;
    const int64_t bytes = spec_->row_bytes(field);
    std::memcpy(const_cast<std::byte*>(At(at, field)),
                final_obs.raw_column(field) + final_row * bytes, static_cast<size_t>(bytes));
  }
  for (const RowLayout::Stack& stack : layout_.stacks) {
    const std::byte* const from = final_obs.raw_column(stack.field) + final_row * stack.bytes;
    std::byte* const to = StackAt(at, stack);
    for (int i = 0; i < stack.frames.frames(); ++i) {
      stack.frames.CopyOut(from, i, to + i * stack.frames.frame_bytes());
    }
  }
}

// Gives row `id` its older frames in a slot of its own, from row `row` of the push.
void RowStore::KeepOlderFrames(const ColumnsView& rows, int64_t row, int64_t id) {
  const int32_t slot = TakeSlot();
  for (const RowLayout::Stack& stack : layout_.stacks) {
    const std::byte* const from = rows.raw_column(stack.field) + row * stack.bytes;
    std::byte* const to = StackAt(LocateSlot(slot), stack);
    for (int i = 0; i + 1 < stack.frames.frames(); ++i) {
      stack.frames.CopyOut(from, i, to + i * stack.frames.frame_bytes());
    }
  }
  PreviousOf(id) = ~slot;
}

void RowStore::LocateFrames(int64_t id, absl::Span<FrameLocation> frames) const {
  for (size_t i = 0; i < frames.size();) {
    frames[i++] = {Locate(id), FrameLocation::kNewestOfRow};
    if (i == frames.size()) return;
    const int32_t previous = PreviousOf(id);
    if (previous < 0) {
      const RowLocation slot = LocateSlot(~previous);
      for (int age = 1; i < frames.size(); ++age) frames[i++] = {slot, age};
      return;
    }
    id -= previous;
  }
}

void RowStore::LocateFrames(const Successor& next, absl::Span<FrameLocation> frames) const {
  if (next.id >= 0) return LocateFrames(next.id, frames);
  for (size_t i = 0; i < frames.size(); ++i) frames[i] = {next.obs, static_cast<int>(i)};
}

void RowStore::Gather(int field, absl::Span<const RowLocation> rows, std::byte* to) const {
  const int64_t offset = layout_.offsets[field];
  switch (spec_->row_bytes(field)) {
    case 1:
      return CopyFixed<1>(rows, offset, to);
    case 4:
      return CopyFixed<4>(rows, offset, to);
    case 8:
      return CopyFixed<8>(rows, offset, to);
    case 16:
      return CopyFixed<16>(rows, offset, to);
    default:
      return CopyAny(rows, offset, spec_->row_bytes(field), to);
  }
}

void RowStore::GatherStacks(int field, absl::Span<const FrameLocation> frames,
                            std::byte* to) const {
  const auto stack = std::find_if(layout_.stacks.begin(), layout_.stacks.end(),
                                  [field](const auto& found) { return found.field == field; });
  DING_CHECK(stack != layout_.stacks.end()) << "field " << field << " is no stack";
  const int count = stack->frames.frames();
  for (size_t row = 0; row < frames.size(); row += static_cast<size_t>(frames_per_row_)) {
    for (int age = count - 1; age >= 0; --age) {
      stack->frames.CopyIn(FrameAt(frames[row + static_cast<size_t>(age)], *stack), count - 1 - age,
                           to);
    }
    to += stack->bytes;
  }
}

RowPin RowStore::Pin() {
  // What is retired from now on must wait for this reader, what was retired before must not.
  Epoch& newest = epochs_.back();
  if (!newest.blocks.empty() || !newest.slots.empty()) epochs_.emplace_back();
  return RowPin(&epochs_.back().readers);
}

bool RowStore::NobodyReads() const {
  return epochs_.size() == 1 && epochs_.back().readers.load(std::memory_order_acquire) == 0;
}

// Makes usable again what no reader can see any more.
void RowStore::Reclaim() {
  while (epochs_.front().readers.load(std::memory_order_acquire) == 0) {
    Epoch& epoch = epochs_.front();
    for (Memory& block : epoch.blocks) spare_blocks_.push_back(std::move(block));
    free_slots_.insert(free_slots_.end(), epoch.slots.begin(), epoch.slots.end());
    epoch.blocks.clear();
    epoch.slots.clear();
    if (epochs_.size() == 1) break;
    epochs_.pop_front();
  }
  TrimSpareBlocks();
}

void RowStore::RetireBlock(Memory block) {
  (NobodyReads() ? spare_blocks_ : epochs_.back().blocks).push_back(std::move(block));
}

void RowStore::RetireSlot(int32_t slot) {
  (NobodyReads() ? free_slots_ : epochs_.back().slots).push_back(slot);
}

void RowStore::TrimSpareBlocks() {
  if (spare_blocks_.size() > kMaxSpareBlocks) spare_blocks_.resize(kMaxSpareBlocks);
}

// The store at one moment: columns stay where they are, pinned, and so do links to other rows. Other
// links change when their row's successor comes, and `previous` when a block goes; they are copied.
struct RowStore::SavedRows {
  struct Column {
    std::string name;
    DType dtype;
    Shape shape;
    std::vector<absl::string_view> parts;
  };

  RowPin pin;
  SpecPtr spec;
  int64_t obs_fields = 0;
  int64_t begin_id = 0;
  int64_t rows = 0;
  std::vector<absl::string_view> links;
  std::vector<int32_t> copied_links;
  bool has_stacks = false;
  std::vector<int32_t> previous;  // with stacks
  // Of the streams that go on: newest row, by its distance from begin_id, and more.
  std::vector<int64_t> tails;
  std::vector<int64_t> streams;
  std::vector<int64_t> next_steps;
  std::vector<Column> columns;

  absl::Status Write(StateWriter* writer) const {
    DING_RETURN_IF_ERROR(SaveSpec(spec, "spec", writer));
    DING_RETURN_IF_ERROR(writer->WriteInt("obs_fields", obs_fields));
    DING_RETURN_IF_ERROR(writer->WriteInt("begin_id", begin_id));
    DING_RETURN_IF_ERROR(writer->Write("links", DType::kInt32, {rows}, links));
    if (has_stacks) DING_RETURN_IF_ERROR(writer->WriteSpan<int32_t>("previous", previous));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("open_tails", tails));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("open_streams", streams));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("open_next_steps", next_steps));
    for (const Column& column : columns) {
      DING_RETURN_IF_ERROR(writer->Write(column.name, column.dtype, column.shape, column.parts));
    }
    return absl::OkStatus();
  }
};

StateSnapshot RowStore::Snapshot() {
  const auto saved = std::make_shared<SavedRows>();
  saved->pin = Pin();
  saved->spec = spec_;
  saved->obs_fields = obs_fields_;
  saved->begin_id = begin_;
  saved->rows = size();
  std::vector<RowLocation> final_obs;
  SaveLinks(saved.get(), &final_obs);
  SaveColumns(saved.get());
  SaveFinalObs(final_obs, saved.get());
  if (frames_per_row_ > 0) SaveStacks(saved.get());
  return [saved](StateWriter* writer) { return saved->Write(writer); };
}

// Slots are numbered anew in the order of their rows, so that what was evicted leaves no trace.
int32_t RowStore::SaveLink(int64_t id, SavedRows* saved,
                           std::vector<RowLocation>* final_obs) const {
  const int32_t link = LinkOf(id);
  if (link >= 0) return link;
  const int32_t slot = ~link >> kEndBits;
  const auto number = static_cast<int32_t>(final_obs->size());
  final_obs->push_back(LocateSlot(slot));
  const auto tail = open_tails_.find(slot_stream_[slot]);
  if (tail != open_tails_.end() && tail->second.row == id) {
    saved->tails.push_back(id - begin_);
    saved->streams.push_back(tail->first);
    saved->next_steps.push_back(tail->second.next_step);
  }
  return ~(number << kEndBits | (~link & kEndMask));
}

void RowStore::SaveLinks(SavedRows* saved, std::vector<RowLocation>* final_obs) const {
  // A part costs as much as four links.
  const auto is_sparse = [this](int64_t first, int64_t rows) {
    return slots_in_block_[BlockOf(first) & block_mask_] * 8 <= rows;
  };
  int64_t copied = 0;
  ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
    copied += is_sparse(first, rows) ? slots_in_block_[BlockOf(first) & block_mask_] : rows;
  });
  saved->copied_links.reserve(static_cast<size_t>(copied));  // Parts refer to it.
  const auto copy = [&](int64_t first, int64_t rows) {
    const int32_t* const to = saved->copied_links.data() + saved->copied_links.size();
    for (int64_t id = first; id < first + rows; ++id) {
      saved->copied_links.push_back(SaveLink(id, saved, final_obs));
    }
    saved->links.push_back(BytesAt(reinterpret_cast<const std::byte*>(to), rows * kLinkBytes));
  };
  ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
    if (!is_sparse(first, rows)) return copy(first, rows);
    const int32_t* const links = &LinkOf(first);
    int64_t left = slots_in_block_[BlockOf(first) & block_mask_];
    for (int64_t at = 0; at < rows; ++at) {
      const int64_t end =
          left == 0 ? rows : std::find_if(links + at, links + rows, IsNoRow) - links;
      if (end > at) {
        saved->links.push_back(
            BytesAt(reinterpret_cast<const std::byte*>(links + at), (end - at) * kLinkBytes));
      }
      at = end;
      if (at == rows) break;
      copy(first + at, 1);
      --left;
    }
  });
}

void RowStore::SaveColumns(SavedRows* saved) const {
  for (int field = 0; field < spec_->size(); ++field) {
    std::vector<absl::string_view> parts;
    ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
      parts.push_back(BytesAt(At(Locate(first), field), rows * layout_.stored_bytes[field]));
    });
    const FieldSpec& column = spec_->field(field);
    saved->columns.push_back(
        {absl::StrCat("rows/", column.name), column.dtype,
         ColumnShape(size(), IsStack(field) ? FrameShape(column) : column.shape),
         std::move(parts)});
  }
}

void RowStore::SaveFinalObs(absl::Span<const RowLocation> final_obs, SavedRows* saved) const {
  const auto rows = static_cast<int64_t>(final_obs.size());
  const auto save = [&](int field, const Shape& shape, const auto& at_slot) {
    std::vector<absl::string_view> parts;
    parts.reserve(final_obs.size());
    for (const RowLocation& slot : final_obs) {
      parts.push_back(BytesAt(at_slot(slot), spec_->row_bytes(field)));
    }
    const FieldSpec& column = spec_->field(field);
    saved->columns.push_back(
        {absl::StrCat("final_obs/", column.name), column.dtype, shape, std::move(parts)});
  };
  for (int field = 0; field < obs_fields_; ++field) {
    if (IsStack(field)) continue;
    save(field, ColumnShape(rows, spec_->field(field).shape),
         [&](const RowLocation& slot) { return At(slot, field); });
  }
  for (const RowLayout::Stack& stack : layout_.stacks) {
    save(stack.field, StacksShape(rows, stack.frames.frames(), spec_->field(stack.field)),
         [&](const RowLocation& slot) { return StackAt(slot, stack); });
  }
}

void RowStore::SaveStacks(SavedRows* saved) const {
  // What is saved depends on the valid rows alone: not on whether the frames of an evicted
  // predecessor are still there, or were copied before its block went.
  saved->has_stacks = true;
  saved->previous.reserve(static_cast<size_t>(size()));
  std::vector<FrameLocation> frames;  // of the rows with slots
  int32_t slots = 0;
  for (int64_t id = begin_; id < end_; ++id) {
    const int32_t previous = PreviousOf(id);
    if (previous > 0 && id - previous >= begin_) {
      saved->previous.push_back(previous);
      continue;
    }
    saved->previous.push_back(~slots++);
    frames.resize(frames.size() + static_cast<size_t>(frames_per_row_));
    LocateFrames(id, absl::MakeSpan(frames).last(static_cast<size_t>(frames_per_row_)));
  }
  for (const RowLayout::Stack& stack : layout_.stacks) {
    std::vector<absl::string_view> parts;
    for (size_t row = 0; row < frames.size(); row += static_cast<size_t>(frames_per_row_)) {
      for (int age = stack.frames.frames() - 1; age > 0; --age) {
        parts.push_back(BytesAt(FrameAt(frames[row + static_cast<size_t>(age)], stack),
                                stack.frames.frame_bytes()));
      }
    }
    const FieldSpec& column = spec_->field(stack.field);
    saved->columns.push_back({absl::StrCat("older_frames/", column.name), column.dtype,
                              StacksShape(slots, stack.frames.frames() - 1, column),
                              std::move(parts)});
  }
}

absl::StatusOr<std::unique_ptr<RowStore>> RowStore::Load(StateReader* reader,
                                                         const RowCapacity& capacity) {
  DING_ASSIGN_OR_RETURN(SpecPtr spec, LoadSpec("spec", reader));
  DING_ASSIGN_OR_RETURN(const int64_t obs_fields, reader->ReadInt("obs_fields"));
  if (obs_fields < 0 || obs_fields > spec->size()) {
    return Damaged("obs_fields", obs_fields, 0, spec->size());
  }
  DING_ASSIGN_OR_RETURN(const TensorInfo links, reader->Info("links"));
  const int64_t rows = NumElements(links.shape);
  DING_ASSIGN_OR_RETURN(const int64_t begin, reader->ReadInt("begin_id"));
  if (begin < 0 || begin > kMaxId) return Damaged("begin_id", begin, 0, kMaxId);
  DING_ASSIGN_OR_RETURN(std::unique_ptr<RowStore> store,
                        Create(std::move(spec), static_cast<int>(obs_fields), capacity));
  if (rows > store->capacity_rows()) {
    return Damaged("number of rows", rows, 0, store->capacity_rows());
  }
  store->first_block_ = store->end_block_ = store->BlockOf(begin);
  store->begin_ = store->end_ = store->kept_begin_ = begin;
  DING_RETURN_IF_ERROR(store->LoadRows(reader, rows));
  return store;
}

absl::Status RowStore::LoadRows(StateReader* reader, int64_t rows) {
  // Before memory is taken for rows as long as the spec says.
  DING_RETURN_IF_ERROR(CheckSavedRows(*reader, rows));
  if (rows > 0) DING_RETURN_IF_ERROR(Reserve(begin_, rows, /*slots=*/0));
  end_ = begin_ + rows;
  if (rows > 0) AddBlocks(end_);
  DING_ASSIGN_OR_RETURN(const int32_t slots, LoadLinks(reader));
  int32_t all_slots = slots;
  if (frames_per_row_ > 0) {
    DING_ASSIGN_OR_RETURN(all_slots, LoadPrevious(reader, slots));
  }
  DING_RETURN_IF_ERROR(CheckSavedSlots(*reader, slots, all_slots - slots));
  DING_RETURN_IF_ERROR(ReserveSlots(all_slots));
  free_slots_.erase(std::remove_if(free_slots_.begin(), free_slots_.end(),
                                   [all_slots](int32_t slot) { return slot < all_slots; }),
                    free_slots_.end());
  DING_RETURN_IF_ERROR(LoadColumns(reader));
  DING_RETURN_IF_ERROR(LoadFinalObs(reader, slots));
  DING_RETURN_IF_ERROR(LoadOlderFrames(reader, slots, all_slots));
  return LoadOpenTails(reader);
}

absl::Status RowStore::CheckSavedRows(const StateReader& reader, int64_t rows) const {
  DING_RETURN_IF_ERROR(CheckSavedColumn(reader, "", Scalar("links", DType::kInt32), {rows}));
  if (frames_per_row_ > 0) {
    DING_RETURN_IF_ERROR(CheckSavedColumn(reader, "", Scalar("previous", DType::kInt32), {rows}));
  }
  for (int field = 0; field < spec_->size(); ++field) {
    const FieldSpec& column = spec_->field(field);
    const Shape shape = ColumnShape(rows, IsStack(field) ? FrameShape(column) : column.shape);
    DING_RETURN_IF_ERROR(CheckSavedColumn(reader, "rows/", column, shape));
  }
  return absl::OkStatus();
}

absl::Status RowStore::CheckSavedSlots(const StateReader& reader, int64_t final_obs,
                                       int64_t older_frames) const {
  for (int field = 0; field < obs_fields_; ++field) {
    if (IsStack(field)) continue;
    const FieldSpec& column = spec_->field(field);
    DING_RETURN_IF_ERROR(
        CheckSavedColumn(reader, "final_obs/", column, ColumnShape(final_obs, column.shape)));
  }
  for (const RowLayout::Stack& stack : layout_.stacks) {
    const FieldSpec& column = spec_->field(stack.field);
    const int frames = stack.frames.frames();
    DING_RETURN_IF_ERROR(
        CheckSavedColumn(reader, "final_obs/", column, StacksShape(final_obs, frames, column)));
    DING_RETURN_IF_ERROR(CheckSavedColumn(reader, "older_frames/", column,
                                          StacksShape(older_frames, frames - 1, column)));
  }
  return absl::OkStatus();
}

// One number of each row, read to where it belongs.
absl::Status RowStore::ReadPerRow(StateReader* reader, absl::string_view name,
                                  int32_t& (RowStore::*of_row)(int64_t) const) {
  std::vector<absl::Span<char>> parts;
  ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
    parts.push_back(
        WritableAt(reinterpret_cast<const std::byte*>(&(this->*of_row)(first)), rows * kLinkBytes));
  });
  return reader->Read(name, parts);
}

// Returns the number of slots that they lead to.
absl::StatusOr<int32_t> RowStore::LoadLinks(StateReader* reader) {
  DING_RETURN_IF_ERROR(ReadPerRow(reader, "links", &RowStore::LinkOf));
  int32_t slots = 0;
  for (int64_t id = begin_; id < end_; ++id) {
    const int32_t link = LinkOf(id);
    const int32_t code = ~link;
    if (link >= 0 ? link < end_ - id - 1
                  : code >> kEndBits == slots && (code & kEndMask) <= kLastEnd) {
      if (link >= 0) continue;
      ++slots;
      ++slots_in_block_[BlockOf(id) & block_mask_];
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("saved link ", link, " of row ", id - begin_,
                                                   " of ", size(), " leads nowhere"));
  }
  return slots;
}

// Numbers the slots from `slots` on, those of the final observations being before. Returns the
// number of all slots.
absl::StatusOr<int32_t> RowStore::LoadPrevious(StateReader* reader, int32_t slots) {
  DING_RETURN_IF_ERROR(ReadPerRow(reader, "previous", &RowStore::PreviousOf));
  const int32_t first_slot = slots;
  for (int64_t id = begin_; id < end_; ++id) {
    int32_t& previous = PreviousOf(id);
    // Frames are looked for along `previous`, and who looks for them along the links.
    const int64_t before = id - previous;
    if (previous > 0 ? before >= begin_ && LinkOf(before) == previous - 1
                     : ~previous == slots - first_slot) {
      if (previous < 0) previous = ~slots++;
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("saved previous ", previous, " of row ", id - begin_, " leads nowhere"));
  }
  return slots;
}

absl::Status RowStore::LoadColumns(StateReader* reader) {
  for (int field = 0; field < spec_->size(); ++field) {
    std::vector<absl::Span<char>> parts;
    ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
      parts.push_back(WritableAt(At(Locate(first), field), rows * layout_.stored_bytes[field]));
    });
    DING_RETURN_IF_ERROR(reader->Read(absl::StrCat("rows/", spec_->field(field).name), parts));
  }
  return absl::OkStatus();
}

absl::Status RowStore::LoadFinalObs(StateReader* reader, int32_t slots) {
  const auto load = [&](int field, const auto& at_slot) {
    std::vector<absl::Span<char>> parts;
    parts.reserve(static_cast<size_t>(slots));
    for (int32_t slot = 0; slot < slots; ++slot) {
      parts.push_back(WritableAt(at_slot(LocateSlot(slot)), spec_->row_bytes(field)));
    }
    return reader->Read(absl::StrCat("final_obs/", spec_->field(field).name), parts);
  };
  for (int field = 0; field < obs_fields_; ++field) {
    if (IsStack(field)) continue;
    DING_RETURN_IF_ERROR(load(field, [&](const RowLocation& slot) { return At(slot, field); }));
  }
  for (const RowLayout::Stack& stack : layout_.stacks) {
    DING_RETURN_IF_ERROR(
        load(stack.field, [&](const RowLocation& slot) { return StackAt(slot, stack); }));
  }
  return absl::OkStatus();
}

absl::Status RowStore::LoadOlderFrames(StateReader* reader, int32_t first_slot, int32_t end_slot) {
  for (const RowLayout::Stack& stack : layout_.stacks) {
    const int64_t bytes = (stack.frames.frames() - 1) * stack.frames.frame_bytes();
    std::vector<absl::Span<char>> parts;
    for (int32_t slot = first_slot; slot < end_slot; ++slot) {
      parts.push_back(WritableAt(StackAt(LocateSlot(slot), stack), bytes));
    }
    DING_RETURN_IF_ERROR(
        reader->Read(absl::StrCat("older_frames/", spec_->field(stack.field).name), parts));
  }
  return absl::OkStatus();
}

absl::Status RowStore::LoadOpenTails(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const auto tails, ReadVector<int64_t>(reader, "open_tails"));
  std::vector<int64_t> streams(tails.size());
  std::vector<int64_t> next_steps(tails.size());
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("open_streams", absl::MakeSpan(streams)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("open_next_steps", absl::MakeSpan(next_steps)));
  for (size_t i = 0; i < tails.size(); ++i) {
    if (tails[i] < 0 || tails[i] >= size()) return Damaged("open tail", tails[i], 0, size() - 1);
    const int64_t id = begin_ + tails[i];
    const int32_t code = ~LinkOf(id);
    // Each waits for one stream.
    if ((i > 0 && tails[i] <= tails[i - 1]) || code < 0 ||
        static_cast<SegmentEnd>(code & kEndMask) != SegmentEnd::kCut ||
        !open_tails_.try_emplace(streams[i], OpenTail{id, next_steps[i]}).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("saved row ", tails[i], " cannot be the newest of stream ", streams[i]));
    }
    slot_stream_[code >> kEndBits] = streams[i];
  }
  return absl::OkStatus();
}

int64_t RowStore::allocated_bytes() const {
  int64_t blocks = end_block_ - first_block_ + static_cast<int64_t>(spare_blocks_.size());
  for (const Epoch& epoch : epochs_) blocks += static_cast<int64_t>(epoch.blocks.size());
  return blocks * layout_.block_bytes +
         static_cast<int64_t>(side_blocks_.size()) * layout_.side_block_bytes;
}

}  // namespace ding
