// What a prioritized buffer knows of each row of its ring beside the columns: priority, how often
// it was drawn, and whether it may be drawn at all. Draws rows in proportion to priority^alpha.
//
//   ids    ... [begin ............................ end)      rows that the RowStore holds
//   slots  id mod capacity: index in the arrays and leaf of the PriorityTree
//
// A row is valid from Append until it is evicted or retired. A retired row stays in the ring, where
// it may stand in the n-step window of another, but it is never drawn, counted or revived.
//
// Memory:  kRowBytes per row of capacity.
// Threads: thread-compatible: the owner's lock is held for every call.
#ifndef DING_WORKER_REPLAY_BUFFER_PRIORITY_TABLE_H_
#define DING_WORKER_REPLAY_BUFFER_PRIORITY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/priority_info.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/priority_tree.h"

namespace ding {

class PriorityTable {
 public:
  // Added to priorities that are given, so that a row of priority 0 can still be drawn.
  static constexpr float kPriorityOffset = 1e-5f;

  // Memory per row of the capacity: 8 here, 4.8 in the PriorityTree.
  static constexpr int64_t kRowBytes = 13;

  // For rows with ids from `first_id` on. kResourceExhausted if there is not that much memory.
  static absl::StatusOr<std::unique_ptr<PriorityTable>> Create(int64_t capacity_rows, double alpha,
                                                               int64_t first_id);

  // The ring is now [begin, end): rows from the old end on are new, those before `begin` are gone.
  // `given`: a priority for each of the last rows; empty: the largest that Update() was given, at
  // first 1.
  void Append(int64_t begin, int64_t end, absl::Span<const float> given);
  // All rows are gone, and the largest priority is 1 again.
  void Clear();
  void Retire(int64_t begin, int64_t end);

  bool IsValid(int64_t id) const;
  // Valid rows.
  int64_t count() const { return count_; }
  // Smallest of all; see PriorityTree.
  float min_weight() const { return tree_->min_weight(); }
  float max_priority() const { return max_priority_; }

  // Draws slots.size() rows of the newest `part` valid ones, 1 <= part <= count(): one in each of as
  // many equal strata of the sum of weights. A row of more than a stratum may come more than once.
  void Draw(int64_t part, Rng* rng, absl::Span<int64_t> slots);
  int64_t IdOf(int64_t slot) const {
    return begin_ + slot - begin_slot_ + (slot < begin_slot_ ? capacity_ : 0);
  }
  int64_t SlotOf(int64_t id) const;
  // The valid row of which `rank` valid ones are older.
  int64_t IdOfRank(int64_t rank) const { return FirstOfNewest(count_ - rank); }
  float weight(int64_t slot) const { return tree_->weight(slot); }
  float priority(int64_t slot) const { return rows_[slot].priority; }
  // Counts a draw of the row and returns how many there were, this one included.
  int64_t CountUse(int64_t slot);
  // Retires those of the drawn rows that were drawn `max_use` times; returns how many.
  int64_t RetireUsedUp(absl::Span<const int64_t> slots, int64_t max_use);

  // Sets the priorities of rows that are valid; returns how many were not. `info` has passed
  // CheckPriorities(), its columns are of one length.
  int64_t Update(const PriorityInfo& info);

  // State. Load is for a table to which [begin, end) was not appended yet; kInvalidArgument says what
  // no Snapshot() can have written.
  StateSnapshot Snapshot() const;
  absl::Status Load(StateReader* reader, int64_t begin, int64_t end);

 private:
  struct Row {
    float priority = 0;  // 0: not valid
    int32_t use = 0;
  };

  PriorityTable(std::unique_ptr<PriorityTree> tree, std::shared_ptr<std::byte> rows, double alpha,
                int64_t first_id);

  float WeightOf(float priority) const;
  void SetWindow(int64_t begin, int64_t end);
  bool Invalidate(int64_t slot);
  void Drop(int64_t begin, int64_t end);
  int64_t FirstOfNewest(int64_t part) const;
  int64_t NewestValid() const;
  template <typename F>
  void ForEachPiece(int64_t begin, int64_t end, F f) const;
  template <typename F>
  static void ForEachBlock(int64_t slot, int64_t slot_end, F f);
  // So many rows of the block of `slot` became valid.
  void CountValid(int64_t slot, int64_t change);

  const std::unique_ptr<PriorityTree> tree_;
  const int64_t capacity_;
  const float alpha_;
  int64_t begin_;
  int64_t end_;
  int64_t begin_slot_;
  int64_t count_ = 0;
  float max_priority_ = 1;
  const std::shared_ptr<std::byte> row_memory_;
  absl::Span<Row> rows_;                 // by slot
  std::vector<int32_t> valid_in_block_;  // of so many slots; finds the newest n in few steps
  std::vector<double> points_;
  std::vector<int64_t> changed_;
  std::vector<float> weights_;
};

// Priorities must be finite and not negative. kInvalidArgument names the first that is not.
absl::Status CheckPriorities(absl::Span<const float> priorities);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_PRIORITY_TABLE_H_
