// The memory layout of a RowStore: where each field lies in a row and in a side slot, and how many
// rows fit into a number of bytes.
//
//   block       | row | row | ...  | links | previous |      a disk tier has the rows in a file
//   row         | obs fields | one frame of each stack | other fields |
//   side block  | slot | slot | ...
//   slot        | obs fields | whole stacks |
//
// The fields of a row lie side by side, so that a draw of narrow fields touches one or two cache
// lines, without padding.
//
// An observation field whose frame_stack_axis has two or more frames is a stack: a row holds only
// its newest frame. Side slots hold whole stacks, one frame after the other, whichever axis the
// field is stacked along. A layout without stacks has no `previous` column.
//
// Threads: thread-safe.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_LAYOUT_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"

namespace ding {

class RowFiles;

// Copies and compares single frames of a stack. The stack is a row of a field with a
// FieldSpec::frame_stack_axis; a frame is a dense array:
//
//     shape [3, K, 84], axis 1         stack  [ a0 b0 c0 | a1 b1 c1 | a2 b2 c2 ]    K = 3: a, b, c
//                                      frame  [ a0 a1 a2 ]                          a is the oldest
//
// Frames are numbered from 0, the oldest, to frames() - 1.
//
// A value.
class FrameStack {
 public:
  // `field` has a frame_stack_axis.
  explicit FrameStack(const FieldSpec& field);

  int frames() const { return frames_; }
  int64_t frame_bytes() const { return outer_ * inner_bytes_; }

  // Copies frame `index` out of, or into, `stack`.
  void CopyOut(const std::byte* stack, int index, std::byte* frame) const;
  void CopyIn(const std::byte* frame, int index, std::byte* stack) const;
  // Whether frame `index` of `stack` equals `frame` byte for byte.
  bool Holds(const std::byte* stack, int index, const std::byte* frame) const;
  // Whether `next` is `stack` shifted by one frame: it begins with all frames of `stack` except the
  // oldest. Its newest frame may be anything.
  bool GoesOn(const std::byte* stack, const std::byte* next) const;

 private:
  int64_t outer_ = 1;        // elements before the axis
  int64_t inner_bytes_ = 1;  // bytes of the elements after it
  int frames_ = 1;
};

// Copies `count` pieces of `bytes` bytes. The strides are the bytes from one piece to the next.
void CopyStrided(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
                 int64_t bytes, int64_t count);

// Returns the shape of one frame: the field's shape without the axis.
Shape FrameShape(const FieldSpec& field);

// The largest capacity of a store; links are 32 bits wide.
constexpr int64_t kMaxCapacityRows = int64_t{1} << 29;
// The most spare blocks that a store keeps for the next rows.
constexpr int64_t kMaxSpareBlocks = 2;

// The capacity of a store, in rows or in bytes. The bytes include all blocks, spare ones too, and
// what the owner of the store keeps for each row of the capacity. They do not include side blocks,
// whose number depends on the streams and episodes that are pushed.
struct RowCapacity {
  int64_t rows = 0;
  std::optional<int64_t> bytes = std::nullopt;  // if set, as many rows as fit; `rows` is ignored
  int64_t owner_row_bytes = 0;
  std::shared_ptr<RowFiles> files = nullptr;  // where the rows lie; null: in memory
};

struct RowLayout {
  struct Stack {
    int field;
    FrameStack frames;
    int64_t side_offset;  // where the whole stack lies in a side slot
    int64_t bytes;        // size of a whole stack
  };

  int block_shift = 0;  // log2 of the rows of a block
  int slot_shift = 0;   // log2 of the slots of a side block
  int64_t row_bytes = 0;
  int64_t slot_bytes = 0;
  int64_t block_bytes = 0;
  int64_t side_block_bytes = 0;
  std::vector<int64_t> offsets;       // where each field lies in a row, and in a slot
  std::vector<int64_t> stored_bytes;  // what a row has of each field
  std::vector<Stack> stacks;
  int64_t links_offset = 0;
  int64_t previous_offset = 0;
};

// Lays out rows whose first `obs_fields` fields are the observation, for a store of
// `capacity_rows`. Blocks on disk are larger, and their rows are padded to RowFiles::kAlignment.
RowLayout LayOutRows(const Spec& rows, int obs_fields, int64_t capacity_rows, bool on_disk);

// Returns how many rows a store may hold.
//   kInvalidArgument    the capacity is not 1 ... kMaxCapacityRows rows, or its bytes hold no row
//   kResourceExhausted  the capacity exceeds this machine's memory, without a disk tier; the message
//                       shows the sum
absl::StatusOr<int64_t> RowsOfCapacity(const Spec& rows, int obs_fields,
                                       const RowCapacity& capacity);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_LAYOUT_H_
