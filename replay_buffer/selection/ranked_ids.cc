#include "ding_worker/replay_buffer/selection/ranked_ids.h"

#include "ding_worker/base/check.h"

namespace ding {

RankedIds::RankedIds(int64_t capacity, int64_t begin) : begin_(begin) {
  DING_CHECK(capacity >= 1 && capacity <= int64_t{1} << 29) << "capacity of " << capacity << " ids";
  int64_t slots = 1;
  while (slots < capacity) slots *= 2;
  mask_ = slots - 1;
  tree_.resize(static_cast<size_t>(slots + 1));
}

void RankedIds::Add(int64_t slot, int32_t count) {
  size_ += count;
  for (int64_t node = slot + 1; node <= mask_ + 1; node += node & -node) tree_[node] += count;
}

int64_t RankedIds::CountBelow(int64_t slot) const {
  int64_t count = 0;
  for (int64_t node = slot; node > 0; node -= node & -node) count += tree_[node];
  return count;
}

void RankedIds::Insert(int64_t id) {
  DING_CHECK(id >= begin_ && id <= begin_ + mask_) << "id " << id << " of a range from " << begin_;
  Add(SlotOf(id), 1);
}

void RankedIds::EvictBefore(int64_t begin) {
  while (size_ > 0) {
    const int64_t smallest = Select(0);
    if (smallest >= begin) break;
    Add(SlotOf(smallest), -1);
  }
  begin_ = begin;
}

int64_t RankedIds::Select(int64_t rank) const {
  DING_CHECK(rank >= 0 && rank < size_) << "rank " << rank << " of " << size_;
  // In the order of ids, slots run from that of begin_ to the last, and then from 0 on.
  int64_t left = rank + CountBelow(SlotOf(begin_));
  if (left >= size_) left -= size_;
  int64_t slot = 0;
  for (int64_t step = mask_ + 1; step > 0; step /= 2) {
    if (slot + step > mask_ + 1 || tree_[slot + step] > left) continue;
    slot += step;
    left -= tree_[slot];
  }
  return begin_ + ((slot - SlotOf(begin_)) & mask_);
}

}  // namespace ding
