// The memory of a RowStore: blocks of rows, and side blocks whose slots hold one observation each.
// Retired memory is used again only when no reader can see it any more.
//
//     TakeBlock ──► in use ──► RetireBlock ──► held back by pins ── Reclaim ──► spare
//     TakeSlot  ──► in use ──► RetireSlot  ──► held back by pins ── Reclaim ──► free
//
// A reader takes a RowPin under the owner's lock and reads after releasing the lock. All memory
// that was in use when the pin was taken keeps its bytes until the pin is released. A reader that
// holds its pin for long makes the owner allocate more.
//
// With a disk tier the rows of a block lie in a file (RowFiles). It is written once: a block that is
// reclaimed is dropped instead of being used again. Side blocks are memory.
//
// Memory is reserved before it is taken: an owner first reserves all that a change needs, so that
// the change itself cannot fail.
//
// Ownership: owns all blocks. A pin must not outlive the RowMemory.
// Threads:   the caller holds the owner's lock for every call. Any thread may release a pin, also
//            without the lock.
// Errors:    the functions that reserve return kResourceExhausted when memory runs out.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_MEMORY_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/check.h"
#include "ding_worker/replay_buffer/storage/row_files.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"

namespace ding {

// Where a row or a side slot lies. It is valid while its block is pinned.
struct RowLocation {
  const std::byte* at;
};

// Protects all memory that was in use when the pin was taken from being overwritten.
class RowPin {
 public:
  RowPin() = default;
  explicit RowPin(std::atomic<int64_t>* readers) : readers_(readers) {
    readers_->fetch_add(1, std::memory_order_relaxed);
  }
  RowPin(RowPin&& other) noexcept : readers_(std::exchange(other.readers_, nullptr)) {}
  RowPin& operator=(RowPin&& other) noexcept {
    std::swap(readers_, other.readers_);
    return *this;
  }
  ~RowPin() {
    if (readers_ != nullptr) readers_->fetch_sub(1, std::memory_order_release);
  }

 private:
  std::atomic<int64_t>* readers_ = nullptr;
};

class RowMemory {
 public:
  using Block = std::shared_ptr<std::byte>;

  // `files` is null without a disk tier.
  RowMemory(const RowLayout& layout, std::shared_ptr<RowFiles> files);

  RowMemory(const RowMemory&) = delete;
  RowMemory& operator=(const RowMemory&) = delete;

  // Allocates what `added` calls of TakeBlock() need after `released` calls of RetireBlock().
  absl::Status ReserveBlocks(int64_t added, int64_t released) {
    const int64_t usable = static_cast<int64_t>(spare_blocks_.size()) +
                           (files_ == nullptr && NobodyReads() ? released : 0);
    return added <= usable ? absl::OkStatus() : AllocateBlocks(added - usable);
  }
  // Returns a reserved block.
  Block TakeBlock();
  // Adds blocks, made by files(), that the next calls of TakeBlock() return in this order.
  void AddLoaded(std::vector<Block> blocks);
  void RetireBlock(Block block);
  // Frees the spare blocks beyond kMaxSpareBlocks.
  void TrimSpareBlocks() {
    if (spare_blocks_.size() > kMaxSpareBlocks) spare_blocks_.resize(kMaxSpareBlocks);
  }

  // Allocates what `count` calls of TakeSlot() need.
  absl::Status ReserveSlots(int64_t count) {
    return count <= static_cast<int64_t>(free_slots_.size()) ? absl::OkStatus()
                                                             : AllocateSlots(count);
  }
  // Reserves and takes the slots 0 ... count - 1 of a memory whose slots were never taken.
  absl::Status TakeFirstSlots(int32_t count);
  // Returns a reserved slot.
  int32_t TakeSlot() {
    DING_CHECK(!free_slots_.empty()) << "no side slot was reserved";
    const int32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  void RetireSlot(int32_t slot) {
    (NobodyReads() ? free_slots_ : epochs_.back().slots).push_back(slot);
  }
  RowLocation LocateSlot(int32_t slot) const {
    return {side_blocks_[slot >> slot_shift_].get() + (slot & slot_mask_) * slot_bytes_};
  }
  // Slots are numbered from 0 to slots() - 1.
  int64_t slots() const { return static_cast<int64_t>(side_blocks_.size()) << slot_shift_; }

  // Null without a disk tier.
  RowFiles* files() const { return files_.get(); }
  // What a block needs of files().
  RowFiles::Sizes file_sizes() const { return {file_bytes_, block_bytes_}; }

  RowPin Pin();
  // Makes retired blocks and slots usable again if no reader can see them any more.
  void Reclaim();

  // The size of all blocks and side blocks: in use, spare, and held back by pins.
  int64_t allocated_bytes() const;

 private:
  // The blocks and slots that were retired while these readers, or earlier ones, could see them.
  struct Epoch {
    std::atomic<int64_t> readers{0};
    std::vector<Block> blocks;
    std::vector<int32_t> slots;
  };

  absl::Status AllocateBlocks(int64_t count);
  void FreeBlock(Block block) {
    if (files_ == nullptr) spare_blocks_.push_back(std::move(block));
  }
  absl::Status AllocateSlots(int64_t count);
  bool NobodyReads() const {
    return epochs_.size() == 1 && epochs_.back().readers.load(std::memory_order_acquire) == 0;
  }

  const std::shared_ptr<RowFiles> files_;
  const int64_t file_bytes_;
  const int64_t block_bytes_;
  const int64_t side_block_bytes_;
  const int slot_shift_;
  const int64_t slot_mask_;
  const int64_t slot_bytes_;
  int64_t blocks_in_use_ = 0;
  std::vector<Block> spare_blocks_;
  std::vector<Block> side_blocks_;
  std::vector<int32_t> free_slots_;
  std::deque<Epoch> epochs_;  // oldest first, never empty
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_MEMORY_H_
