#include "ding_worker/replay_buffer/storage/row_layout.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/storage/row_files.h"

namespace ding {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kTargetBlockBytes = int64_t{1} << 20;
// A file for each megabyte would be too many files and mappings.
constexpr int64_t kTargetFileBytes = int64_t{64} << 20;
// A store of this many blocks wastes at most an eighth of its memory on partly filled blocks at its
// ends.
constexpr int64_t kMinBlocks = 8;
constexpr int64_t kLinkBytes = sizeof(int32_t);

int64_t AlignUp(int64_t size, int64_t alignment = kAlignment) {
  return (size + alignment - 1) / alignment * alignment;
}

// The largest shift with 1 << shift <= value; value >= 1.
int FloorLog2(int64_t value) {
  int shift = 0;
  while (value >> (shift + 1) != 0) ++shift;
  return shift;
}

// log2 of the rows of the largest block of about `target_bytes`; a block has at least one row.
int LargestShift(int64_t row_bytes, int64_t target_bytes = kTargetBlockBytes) {
  return FloorLog2(std::max<int64_t>(target_bytes / std::max<int64_t>(row_bytes, 1), 1));
}

bool IsStack(const FieldSpec& field) {
  return field.frame_stack_axis >= 0 &&
         field.shape[static_cast<size_t>(field.frame_stack_axis)] > 1;
}

// The bytes that a row takes in a block.
int64_t StoredRowBytes(const Spec& rows, int obs_fields) {
  int64_t bytes = rows.row_bytes() + kLinkBytes;
  bool has_stacks = false;
  for (int field = 0; field < obs_fields; ++field) {
    if (!IsStack(rows.field(field))) continue;
    bytes -= rows.row_bytes(field) - FrameStack(rows.field(field)).frame_bytes();
    has_stacks = true;
  }
  return bytes + (has_stacks ? kLinkBytes : 0);
}

int LargestBlockShift(const Spec& rows, int obs_fields, bool on_disk) {
  return LargestShift(StoredRowBytes(rows, obs_fields),
                      on_disk ? kTargetFileBytes : kTargetBlockBytes);
}

RowLayout LayOut(const Spec& rows, int obs_fields, int block_shift, bool on_disk) {
  RowLayout layout;
  layout.offsets.resize(static_cast<size_t>(rows.size()));
  int64_t at = 0;
  const auto place = [&layout, &at](int field) {
    layout.offsets[field] = at;
    at += layout.stored_bytes[field];
  };
  for (int field = 0; field < rows.size(); ++field) {
    layout.stored_bytes.push_back(rows.row_bytes(field));
    if (field >= obs_fields) continue;
    if (IsStack(rows.field(field))) {
      const FrameStack frames(rows.field(field));
      layout.stored_bytes[field] = frames.frame_bytes();
      layout.stacks.push_back({field, frames, 0, rows.row_bytes(field)});
    } else {
      place(field);
    }
  }
  layout.slot_bytes = at;
  for (RowLayout::Stack& stack : layout.stacks) {
    stack.side_offset = layout.slot_bytes;
    layout.slot_bytes += stack.bytes;
    place(stack.field);
  }
  for (int field = obs_fields; field < rows.size(); ++field) place(field);
  layout.row_bytes = at;
  layout.block_shift = block_shift;
  layout.slot_shift = std::min(block_shift, LargestShift(layout.slot_bytes));
  layout.side_block_bytes = layout.slot_bytes << layout.slot_shift;
  layout.links_offset =
      on_disk ? AlignUp(std::max<int64_t>(layout.row_bytes << block_shift, 1), RowFiles::kAlignment)
              : AlignUp(layout.row_bytes << block_shift);
  layout.previous_offset = layout.links_offset + AlignUp(kLinkBytes << block_shift);
  layout.block_bytes =
      layout.previous_offset + (layout.stacks.empty() ? 0 : AlignUp(kLinkBytes << block_shift));
  return layout;
}

// The most blocks that a store has as long as no reader holds any back.
int64_t BlocksFor(int64_t capacity_rows, int block_shift) {
  // The first and the last block may each hold as little as one valid row.
  return ((capacity_rows + (int64_t{1} << block_shift) - 2) >> block_shift) + 1 + kMaxSpareBlocks;
}

absl::Status CheckCapacity(int64_t capacity_rows, int64_t row_bytes, bool on_disk) {
  if (capacity_rows < 1 || capacity_rows > kMaxCapacityRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("capacity of ", capacity_rows, " rows, expected 1 to ", kMaxCapacityRows));
  }
  const double bytes = static_cast<double>(capacity_rows) * static_cast<double>(row_bytes);
  if (on_disk || bytes < 1 << 20) return absl::OkStatus();  // It is not worth reading files.
  const auto memory = static_cast<double>(ReadProcessResources().memory_bytes);
  if (bytes <= memory) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "capacity of %d rows x %d bytes = %.1f GB is more than the memory of %.1f GB that this "
      "process may use, which the machine or its cgroup limits",
      capacity_rows, row_bytes, bytes * 1e-9, memory * 1e-9));
}

// The largest capacity that needs no more than capacity.bytes.
absl::StatusOr<int64_t> RowsWithin(const Spec& rows, int obs_fields, const RowCapacity& capacity) {
  const int64_t memory = ReadProcessResources().memory_bytes;
  if (capacity.files == nullptr && *capacity.bytes > memory) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "capacity of %d bytes = %.1f GB is more than the memory of %.1f GB that this "
        "process may use, which the machine or its cgroup limits",
        *capacity.bytes, static_cast<double>(*capacity.bytes) * 1e-9,
        static_cast<double>(memory) * 1e-9));
  }
  // Blocks grow with the capacity up to a limit, so each block size is tried, the largest first,
  // with the capacities that use it.
  const bool on_disk = capacity.files != nullptr;
  const int largest = LargestBlockShift(rows, obs_fields, on_disk);
  for (int shift = largest; shift >= 0; --shift) {
    const int64_t block_bytes = LayOut(rows, obs_fields, shift, on_disk).block_bytes;
    const auto fits = [&](int64_t capacity_rows) {
      const int64_t owner_bytes = capacity_rows * capacity.owner_row_bytes;
      return BlocksFor(capacity_rows, shift) <= (*capacity.bytes - owner_bytes) / block_bytes;
    };
    int64_t low = shift == 0 ? 1 : kMinBlocks << shift;
    int64_t high = shift == largest ? kMaxCapacityRows : (kMinBlocks << (shift + 1)) - 1;
    if (!fits(low)) continue;
    while (low < high) {
      const int64_t middle = low + (high - low + 1) / 2;
      if (fits(middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
  const int64_t block_bytes = LayOut(rows, obs_fields, 0, on_disk).block_bytes;
  return absl::InvalidArgumentError(absl::StrCat(
      "capacity of ", *capacity.bytes, " bytes holds no row: one takes ", BlocksFor(1, 0),
      " blocks (", kMaxSpareBlocks, " of them spare) of ", block_bytes, " bytes + ",
      capacity.owner_row_bytes,
      " bytes = ", BlocksFor(1, 0) * block_bytes + capacity.owner_row_bytes, " bytes"));
}

// A `bytes` that is a constant makes each copy a single move.
inline void CopyPieces(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
                       int64_t bytes, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(bytes));
  }
}

}  // namespace

RowLayout LayOutRows(const Spec& rows, int obs_fields, int64_t capacity_rows, bool on_disk) {
  const int shift = FloorLog2(std::max<int64_t>(capacity_rows / kMinBlocks, 1));
  const int largest = LargestBlockShift(rows, obs_fields, on_disk);
  return LayOut(rows, obs_fields, std::min(shift, largest), on_disk);
}

absl::StatusOr<int64_t> RowsOfCapacity(const Spec& rows, int obs_fields,
                                       const RowCapacity& capacity) {
  if (capacity.bytes.has_value()) return RowsWithin(rows, obs_fields, capacity);
  DING_RETURN_IF_ERROR(
      CheckCapacity(capacity.rows, StoredRowBytes(rows, obs_fields), capacity.files != nullptr));
  return capacity.rows;
}

void CopyStrided(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
                 int64_t bytes, int64_t count) {
  switch (bytes) {
    case 1:
      return CopyPieces(from, from_stride, to, to_stride, 1, count);
    case 4:
      return CopyPieces(from, from_stride, to, to_stride, 4, count);
    case 8:
      return CopyPieces(from, from_stride, to, to_stride, 8, count);
    case 16:
      return CopyPieces(from, from_stride, to, to_stride, 16, count);
    default:
      return CopyPieces(from, from_stride, to, to_stride, bytes, count);
  }
}

FrameStack::FrameStack(const FieldSpec& field) {
  DING_CHECK(field.frame_stack_axis >= 0) << "field '" << field.name << "' stacks no frames";
  const auto axis = static_cast<size_t>(field.frame_stack_axis);
  inner_bytes_ = SizeOf(field.dtype);
  for (size_t i = 0; i < field.shape.size(); ++i) {
    if (i < axis) outer_ *= field.shape[i];
    if (i > axis) inner_bytes_ *= field.shape[i];
  }
  frames_ = static_cast<int>(field.shape[axis]);
}

void FrameStack::CopyOut(const std::byte* stack, int index, std::byte* frame) const {
  CopyStrided(stack + index * inner_bytes_, frames_ * inner_bytes_, frame, inner_bytes_,
              inner_bytes_, outer_);
}

void FrameStack::CopyIn(const std::byte* frame, int index, std::byte* stack) const {
  CopyStrided(frame, inner_bytes_, stack + index * inner_bytes_, frames_ * inner_bytes_,
              inner_bytes_, outer_);
}

bool FrameStack::Holds(const std::byte* stack, int index, const std::byte* frame) const {
  stack += index * inner_bytes_;
  for (int64_t i = 0; i < outer_; ++i) {
    if (std::memcmp(stack + i * frames_ * inner_bytes_, frame + i * inner_bytes_,
                    static_cast<size_t>(inner_bytes_)) != 0) {
      return false;
    }
  }
  return true;
}

bool FrameStack::GoesOn(const std::byte* stack, const std::byte* next) const {
  const int64_t bytes = frames_ * inner_bytes_;
  for (int64_t i = 0; i < outer_; ++i) {
    if (std::memcmp(stack + i * bytes + inner_bytes_, next + i * bytes,
                    static_cast<size_t>(bytes - inner_bytes_)) != 0) {
      return false;
    }
  }
  return true;
}

Shape FrameShape(const FieldSpec& field) {
  Shape shape = field.shape;
  shape.erase(shape.begin() + field.frame_stack_axis);
  return shape;
}

}  // namespace ding
