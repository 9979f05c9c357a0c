#include "ding_worker/replay_buffer/storage/row_ring.h"

#include <cstring>
#include <utility>

#include "ding_worker/base/check.h"

namespace ding {

RowRing::RowRing(SpecPtr rows, int obs_fields, int64_t capacity_rows)
    : spec_(std::move(rows)),
      obs_fields_(obs_fields),
      capacity_rows_(capacity_rows),
      layout_(LayOutRows(*spec_, obs_fields, capacity_rows)),
      block_shift_(layout_.block_shift),
      row_mask_((int64_t{1} << layout_.block_shift) - 1),
      memory_(layout_.block_bytes, layout_.side_block_bytes, layout_.slot_shift) {
  // The first and the last block may each hold as little as one valid row.
  const int64_t most_blocks = (capacity_rows >> block_shift_) + 2;
  int64_t places = 2;
  while (places <= most_blocks) places *= 2;
  place_mask_ = places - 1;
  blocks_.resize(static_cast<size_t>(places));
}

absl::Status RowRing::Reserve(int64_t first_id, int64_t rows) {
  const int64_t first_kept = std::max(begin_, first_id + rows - capacity_rows_);
  const int64_t released = std::clamp(BlockOf(first_kept), first_block_, end_block_) - first_block_;
  const int64_t added =
      BlockOf(first_id + rows - 1) + 1 - std::max(end_block_, BlockOf(first_kept));
  return memory_.ReserveBlocks(added, released);
}

void RowRing::EvictBefore(int64_t id) {
  if (id <= begin_) return;
  begin_ = id;
  ReleaseBlocksBefore(BlockOf(id));
}

void RowRing::StartAt(int64_t id) {
  DING_CHECK(id >= end_) << "id " << id << " was used: the next is " << end_;
  begin_ = end_ = id;
  ReleaseBlocksBefore(BlockOf(id));
}

void RowRing::ReleaseBlocksBefore(int64_t block) {
  for (; first_block_ < std::min(block, end_block_); ++first_block_) {
    memory_.RetireBlock(std::move(blocks_[first_block_ & place_mask_]));
  }
  first_block_ = std::max(first_block_, block);
  end_block_ = std::max(end_block_, block);
}

void RowRing::Append(int64_t rows) {
  end_ += rows;
  for (; end_block_ <= BlockOf(end_ - 1); ++end_block_) {
    blocks_[end_block_ & place_mask_] = memory_.TakeBlock();
  }
}

void RowRing::CopyColumns(const ColumnsView& from, int64_t first_id) {
  ForEachPiece(first_id, first_id + from.rows(), [&](int64_t piece_id, int64_t rows) {
    const RowLocation to = Locate(piece_id);
    for (int field = 0; field < spec_->size(); ++field) {
      if (IsStack(field)) continue;
      const int64_t bytes = spec_->row_bytes(field);
      std::memcpy(MutableAt(to, field), from.raw_column(field) + (piece_id - first_id) * bytes,
                  static_cast<size_t>(rows * bytes));
    }
  });
}

}  // namespace ding
