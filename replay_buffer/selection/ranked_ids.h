// A set of row ids from a sliding range, which finds the k-th smallest id in O(log capacity). It is
// a Fenwick tree (Fenwick 1994) of counts over the ring of the last `capacity` ids. The tree does
// not depend on the order in which ids were inserted, so a set that was saved and loaded is the
// same.
//
// Memory:  4 bytes per id of the capacity, rounded up to a power of two.
// Threads: thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_RANKED_IDS_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_RANKED_IDS_H_

#include <cstdint>
#include <vector>

namespace ding {

class RankedIds {
 public:
  // Memory per id of the capacity, at most.
  static constexpr int64_t kBytesPerId = 8;

  // Creates an empty set for ids in [begin, begin + capacity), 1 <= capacity <= 2^29.
  explicit RankedIds(int64_t capacity, int64_t begin = 0);

  int64_t size() const { return size_; }
  // Inserts an id that is in the range and not in the set.
  void Insert(int64_t id);
  // Lets the range begin at `begin` and removes the ids below it.
  void EvictBefore(int64_t begin);
  // Returns the id that has `rank` smaller ids in the set, 0 <= rank < size().
  int64_t Select(int64_t rank) const;

 private:
  int64_t SlotOf(int64_t id) const { return id & mask_; }
  void Add(int64_t slot, int32_t count);
  // The number of ids in the slots below `slot`.
  int64_t CountBelow(int64_t slot) const;

  int64_t mask_;
  int64_t begin_;
  int64_t size_ = 0;
  std::vector<int32_t> tree_;  // node i, from 1 on: the slots [i - lowest bit of i, i)
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_RANKED_IDS_H_
