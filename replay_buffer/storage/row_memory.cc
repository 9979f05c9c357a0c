#include "ding_worker/replay_buffer/storage/row_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/tensor.h"

namespace ding {
namespace {

absl::Status OutOfMemory(int64_t blocks, int64_t bytes, absl::string_view what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("out of memory: ", blocks, " more ", what, " of ", bytes, " bytes"));
}

}  // namespace

RowMemory::RowMemory(const RowLayout& layout, std::shared_ptr<RowFiles> files)
    : files_(std::move(files)),
      file_bytes_(layout.links_offset),
      block_bytes_(layout.block_bytes),
      side_block_bytes_(layout.side_block_bytes),
      slot_shift_(layout.slot_shift),
      slot_mask_((int64_t{1} << layout.slot_shift) - 1),
      slot_bytes_(layout.slot_bytes) {
  epochs_.emplace_back();
}

absl::Status RowMemory::AllocateBlocks(int64_t count) {
  for (; count > 0; --count) {
    Block block;
    if (files_ != nullptr) {
      DING_ASSIGN_OR_RETURN(block, files_->New(file_sizes()));
    } else {
      block = AllocateAligned(block_bytes_);
    }
    if (block == nullptr) return OutOfMemory(count, block_bytes_, "blocks");
    spare_blocks_.push_back(std::move(block));
  }
  return absl::OkStatus();
}

RowMemory::Block RowMemory::TakeBlock() {
  DING_CHECK(!spare_blocks_.empty()) << "no block was reserved";
  Block block = std::move(spare_blocks_.back());
  spare_blocks_.pop_back();
  ++blocks_in_use_;
  return block;
}

void RowMemory::AddLoaded(std::vector<Block> blocks) {
  for (; !blocks.empty(); blocks.pop_back()) spare_blocks_.push_back(std::move(blocks.back()));
}

void RowMemory::RetireBlock(Block block) {
  if (NobodyReads()) {
    FreeBlock(std::move(block));
  } else {
    epochs_.back().blocks.push_back(std::move(block));
  }
  --blocks_in_use_;
}

// Allocates side blocks until `count` slots are free.
absl::Status RowMemory::AllocateSlots(int64_t count) {
  while (static_cast<int64_t>(free_slots_.size()) < count) {
    const int64_t first = slots();
    // A link can number as many slots as a store can have rows. More slots exist only while readers
    // hold back retired ones, or if most rows of the largest store need a slot for older frames.
    if (first + slot_mask_ >= kMaxCapacityRows) {
      return OutOfMemory(1, side_block_bytes_, "side blocks");
    }
    Block block = AllocateAligned(side_block_bytes_);
    if (block == nullptr) return OutOfMemory(1, side_block_bytes_, "side blocks");
    side_blocks_.push_back(std::move(block));
    for (int64_t slot = first + slot_mask_; slot >= first; --slot) {
      free_slots_.push_back(static_cast<int32_t>(slot));
    }
  }
  return absl::OkStatus();
}

absl::Status RowMemory::TakeFirstSlots(int32_t count) {
  DING_CHECK(static_cast<int64_t>(free_slots_.size()) == slots()) << "slots were taken before";
  DING_RETURN_IF_ERROR(ReserveSlots(count));
  free_slots_.erase(std::remove_if(free_slots_.begin(), free_slots_.end(),
                                   [count](int32_t slot) { return slot < count; }),
                    free_slots_.end());
  return absl::OkStatus();
}

RowPin RowMemory::Pin() {
  // Memory that is retired from now on must wait for this reader; memory retired before need not.
  const Epoch& newest = epochs_.back();
  if (!newest.blocks.empty() || !newest.slots.empty()) epochs_.emplace_back();
  return RowPin(&epochs_.back().readers);
}

void RowMemory::Reclaim() {
  while (epochs_.front().readers.load(std::memory_order_acquire) == 0) {
    Epoch& epoch = epochs_.front();
    for (Block& block : epoch.blocks) FreeBlock(std::move(block));
    free_slots_.insert(free_slots_.end(), epoch.slots.begin(), epoch.slots.end());
    epoch.blocks.clear();
    epoch.slots.clear();
    if (epochs_.size() == 1) break;
    epochs_.pop_front();
  }
  TrimSpareBlocks();
}

int64_t RowMemory::allocated_bytes() const {
  int64_t blocks = blocks_in_use_ + static_cast<int64_t>(spare_blocks_.size());
  for (const Epoch& epoch : epochs_) blocks += static_cast<int64_t>(epoch.blocks.size());
  return blocks * block_bytes_ + static_cast<int64_t>(side_blocks_.size()) * side_block_bytes_;
}

}  // namespace ding
