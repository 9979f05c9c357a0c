// Weights of many items, to draw an item with a probability proportional to its weight: sums,
// prefix-sum search and minimum in a tree of 16 children per node.
//
//   level 2   [ sum min ]                                    the total
//   level 1   [ sum min | sum min | ... 16 ... ]             of 16 leaves each
//   level 0   [ w w w w w w w w w w w w w w w w ][ w ... ]   a node is a cache line of floats
//
// An item of weight 0 counts as absent: it is never found and does not count for the minimum.
//
// Sums are doubles and are always recomputed from the entries below, never by adding a difference.
// So they depend only on the weights, not on the order in which these were set, and rounding errors
// do not accumulate. Every sum has at most 16 terms, all >= 0, so a sum over L levels (L <= 8) has
// a relative error of at most 15 L 2^-53 < 1.4e-14. The bounds of an item's interval have at most
// this error relative to the total.
//
// Memory:  4 bytes per leaf and 0.8 for the levels above.
// Cost:    a search or a change reads one node per level: 7 levels for 10 million leaves. A batch
//          of searches or changes is processed level by level, which hides the memory's latency.
// Threads: thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITY_TREE_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITY_TREE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace ding {

class PriorityTree {
 public:
  // Creates a tree whose weights are all 0; `leaves` >= 1. kResourceExhausted, with the number of
  // bytes, if there is not that much memory.
  static absl::StatusOr<std::unique_ptr<PriorityTree>> Create(int64_t leaves);

  int64_t size() const { return sizes_[0]; }
  float weight(int64_t leaf) const { return weights_[leaf]; }
  // The sum of all weights.
  double total() const { return levels_.back().sum[0]; }
  // The smallest weight above 0; +infinity if there is none.
  float min_weight() const { return levels_.back().min[0]; }
  // The sum of the weights of leaves [begin, end).
  double RangeSum(int64_t begin, int64_t end) const;

  // Sets weights, which must be finite and >= 0. A leaf that is listed twice gets the last of its
  // weights.
  void Set(absl::Span<const int64_t> leaves, absl::Span<const float> weights);
  // Set the weights of leaves [begin, end), or of the leaves from `begin` on.
  void Fill(int64_t begin, int64_t end, float weight);
  void Assign(int64_t begin, absl::Span<const float> weights);

  // Finds for each x[i] in [0, total()) the leaf with
  //   RangeSum(0, leaf) <= x[i] < RangeSum(0, leaf + 1).
  // Rounding never makes this a leaf of weight 0. At least one weight must be above 0. The values
  // of `x` are overwritten.
  void Find(absl::Span<double> x, absl::Span<int64_t> leaves) const;
  // Does the same for one x, counted from leaf `begin`. Returns size() if x is not below the sum of
  // the leaves from `begin` on.
  int64_t FindFrom(int64_t begin, double x) const;

 private:
  // Entry i stands for the entries [16 i, 16 i + 16) below.
  struct Level {
    double* sum;
    float* min;
  };

  PriorityTree(std::vector<int64_t> sizes, std::shared_ptr<std::byte> memory);

  int top() const { return static_cast<int>(levels_.size()); }
  double SumAt(int level, int64_t entry) const {
    return level == 0 ? weights_[entry] : levels_[level - 1].sum[entry];
  }
  void Recompute(int level, absl::Span<const int64_t> entries);
  void RecomputeRange(int64_t begin, int64_t end);
  int64_t Descend(int level, int64_t entry, double x) const;

  const std::vector<int64_t> sizes_;  // entries of each level; the last level has 1
  const std::shared_ptr<std::byte> memory_;
  float* weights_ = nullptr;   // level 0
  std::vector<Level> levels_;  // levels 1, 2, ...
  std::vector<int64_t> dirty_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITY_TREE_H_
