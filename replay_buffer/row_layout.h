// Where the columns of a RowStore lie in its blocks and side blocks, and how many rows fit in a
// number of bytes.
//
//   block       | obs fields | ... one frame of each stack | other fields | links | previous |
//   side block  | obs fields | ... whole stacks  |
//                 same offsets   slots of their own width
//
// An observation field with a frame_stack_axis of two or more frames is a stack: its rows hold the
// newest frame only. Whole stacks lie in side blocks, frame after frame, whatever the axis. Without
// stacks there is no `previous`, and a side block has as many slots as a block has rows.
//
// Threads: thread-safe.
#ifndef DING_WORKER_REPLAY_BUFFER_ROW_LAYOUT_H_
#define DING_WORKER_REPLAY_BUFFER_ROW_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/frame_stack.h"

namespace ding {

// Links are 32 bits wide.
constexpr int64_t kMaxCapacityRows = int64_t{1} << 29;
// Blocks that a store keeps for the next rows.
constexpr int64_t kMaxSpareBlocks = 2;

// What bounds a store: a number of rows, or a number of bytes. Those are for blocks, spare ones
// included, and for what the owner of the store keeps for each row of the capacity; side blocks,
// which depend on how many streams and episodes come, are beyond them.
struct RowCapacity {
  int64_t rows = 0;
  std::optional<int64_t> bytes = std::nullopt;  // set: as many rows as fit in, whatever `rows` is
  int64_t owner_row_bytes = 0;
};

struct RowLayout {
  struct Stack {
    int field;
    FrameStack frames;
    int64_t side_offset;  // of the column of whole stacks in a side block
    int64_t bytes;        // of a whole stack
  };

  int block_shift = 0;  // log2 of the rows of a block
  int slot_shift = 0;   // log2 of the slots of a side block
  int64_t block_bytes = 0;
  int64_t side_block_bytes = 0;
  std::vector<int64_t> offsets;       // of the fields' columns in a block
  std::vector<int64_t> stored_bytes;  // of a row in these columns
  std::vector<Stack> stacks;
  int64_t links_offset = 0;
  int64_t previous_offset = 0;
};

// Of rows whose first `obs_fields` fields are the observation, for a store of `capacity_rows`.
RowLayout LayOutRows(const Spec& rows, int obs_fields, int64_t capacity_rows);

// The rows that a store may hold.
//   kInvalidArgument    they are not 1 ... kMaxCapacityRows, or not one fits in the bytes
//   kResourceExhausted  more than this machine's memory, with the sum
absl::StatusOr<int64_t> RowsOfCapacity(const Spec& rows, int obs_fields,
                                       const RowCapacity& capacity);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_ROW_LAYOUT_H_
