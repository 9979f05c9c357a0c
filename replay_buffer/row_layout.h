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

// The limit of a store: a number of rows, or a number of bytes. The bytes are for blocks, spare ones
// included, and for what the owner of the store keeps for each row of the capacity. Side blocks are
// not counted: how many there are depends on the streams and episodes that come.
struct RowCapacity {
  int64_t rows = 0;
  std::optional<int64_t> bytes = std::nullopt;  // if set, as many rows as fit; `rows` is ignored
  int64_t owner_row_bytes = 0;
};

struct RowLayout {
  struct Stack {
    int field;
    FrameStack frames;
    int64_t side_offset;  // where the column of whole stacks begins in a side block
    int64_t bytes;        // size of a whole stack
  };

  int block_shift = 0;  // log2 of the rows of a block
  int slot_shift = 0;   // log2 of the slots of a side block
  int64_t block_bytes = 0;
  int64_t side_block_bytes = 0;
  std::vector<int64_t> offsets;       // where each field's column begins in a block
  std::vector<int64_t> stored_bytes;  // size of a row in each of these columns
  std::vector<Stack> stacks;
  int64_t links_offset = 0;
  int64_t previous_offset = 0;
};

// Lays out rows whose first `obs_fields` fields are the observation, for a store of `capacity_rows`.
RowLayout LayOutRows(const Spec& rows, int obs_fields, int64_t capacity_rows);

// Returns how many rows a store may hold.
//   kInvalidArgument    the number is not 1 ... kMaxCapacityRows, or no row fits in the bytes
//   kResourceExhausted  they are more than this machine's memory; the message has the sum
absl::StatusOr<int64_t> RowsOfCapacity(const Spec& rows, int obs_fields,
                                       const RowCapacity& capacity);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_ROW_LAYOUT_H_
