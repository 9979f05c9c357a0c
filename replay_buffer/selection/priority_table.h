// The values that a prioritized buffer keeps for each row of its ring besides the columns: its
// priority, how often it was drawn, and whether it may be drawn at all. Draws rows in proportion to
// priority^alpha.
//
//   ids    ... [begin ............................ end)      rows that the RowStore holds
//   slots  id mod capacity: index in the arrays and leaf of the PriorityTree
//
// If the candidates are sequences, only rows that begin one are valid, from Insert() on.
//
// A row is valid from Append() until it is evicted or retired. A retired row stays in the ring,
// where it may be part of the n-step window of another row, but it is never drawn or counted, and
// never becomes valid again.
//
// Memory:  kRowBytes per row of capacity.
// Threads: thread-compatible: the owner's lock is held for every call.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITY_TABLE_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/selection/priority_tree.h"

namespace ding {

class PriorityTable {
 public:
  // Added to priorities that are given, so that a row of priority 0 can still be drawn.
  static constexpr float kPriorityOffset = 1e-5f;

  // Memory per row of the capacity: 8 here, 4.8 in the PriorityTree.
  static constexpr int64_t kRowBytes = 13;

  // Creates a table for rows with ids from `first_id` on. kResourceExhausted if there is not that
  // much memory.
  static absl::StatusOr<std::unique_ptr<PriorityTable>> Create(int64_t capacity_rows, double alpha,
                                                               int64_t first_id);

  // Must be called when the ring has become [begin, end): rows from the old end on are new, and
  // rows before `begin` were evicted. `given` has the priorities of the last rows, at least of all
  // new ones that are still in the ring. If it is empty, new rows get the largest priority that
  // Update() was ever given, at first 1.
  void Append(int64_t begin, int64_t end, absl::Span<const float> given);
  // Does the same, but new rows are not valid until Insert().
  void AppendAbsent(int64_t begin, int64_t end);
  // Makes rows of the ring valid that are not, with the largest priority that Update() was ever
  // given. Each id occurs once.
  void Insert(absl::Span<const int64_t> ids);
  // Drops all rows and sets the largest priority to 1 again.
  void Clear();
  // Retires the valid rows among [begin, end).
  void Retire(int64_t begin, int64_t end);

  bool IsValid(int64_t id) const;
  // The number of valid rows.
  int64_t count() const { return count_; }
  // The smallest weight of a valid row; see PriorityTree.
  float min_weight() const { return tree_->min_weight(); }
  float max_priority() const { return max_priority_; }

  // Draws slots.size() rows from the valid ones with the ranks [first_rank, end_rank), at least
  // one, where rank 0 is the oldest valid row: the sum of their weights is divided into
  // slots.size() equal strata, and one row is drawn from each. A row whose weight is more than a
  // stratum may be drawn more than once.
  void Draw(int64_t first_rank, int64_t end_rank, Rng* rng, absl::Span<int64_t> slots);
  int64_t IdOf(int64_t slot) const {
    return begin_ + slot - begin_slot_ + (slot < begin_slot_ ? capacity_ : 0);
  }
  int64_t SlotOf(int64_t id) const;
  // Returns the id of the valid row that has `rank` older valid rows.
  int64_t IdOfRank(int64_t rank) const { return FirstOfNewest(count_ - rank); }
  float weight(int64_t slot) const { return tree_->weight(slot); }
  float priority(int64_t slot) const { return rows_[slot].priority; }
  // Counts a draw of the row and returns the number of its draws, this one included.
  int64_t CountUse(int64_t slot);
  // Retires the rows of `slots` that were drawn `max_use` times or more; returns how many these
  // are.
  int64_t RetireUsedUp(absl::Span<const int64_t> slots, int64_t max_use);

  // Sets the priorities of the rows that are valid; returns how many are not. `info` must have
  // passed CheckPriorities(), and its columns must have the same length.
  int64_t Update(const PriorityInfo& info);

  // Load() must be called on a new table, instead of Append() of [begin, end). It returns
  // kInvalidArgument for anything that no Snapshot() can have written.
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
  int64_t MoveWindow(int64_t begin, int64_t end);
  bool Invalidate(int64_t slot);
  void Drop(int64_t begin, int64_t end);
  int64_t FirstOfNewest(int64_t part) const;
  template <typename F>
  void ForEachPiece(int64_t begin, int64_t end, F f) const;
  template <typename F>
  static void ForEachBlock(int64_t slot, int64_t slot_end, F f);
  // Adds `change` to the number of valid rows in the block of `slot`.
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
  std::vector<int32_t> valid_in_block_;  // by block of slots; finds the newest n rows in few steps
  std::vector<uint32_t> bits_;           // random numbers, two per point
  std::vector<double> points_;
  std::vector<int64_t> changed_;
  std::vector<float> weights_;
};

// Returns kInvalidArgument if a priority is negative, infinite or NaN; the message names the first
// such priority.
absl::Status CheckPriorities(absl::Span<const float> priorities);
// Does the same for an update. Also returns kInvalidArgument if its columns differ in length.
absl::Status CheckPriorityInfo(const PriorityInfo& info);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITY_TABLE_H_
