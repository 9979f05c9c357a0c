// Weights in a tree, for the floors of prioritized replay.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_TOOLS_FLOORS_WEIGHT_TREE_H_
#define DING_WORKER_TOOLS_FLOORS_WEIGHT_TREE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace floors {

// A tree with 16 children at each node, which keeps sums and least weights. The numbers of a batch
// go through it together, level by level. Weights are above 0.
class WeightTree {
 public:
  explicit WeightTree(const std::vector<float>& weights);

  float total() const;
  float min() const;
  float weight(size_t leaf) const { return sums_.back().get()[leaf]; }

  // Finds the leaves that the points in [0, total()) fall on. Changes the points.
  void Find(std::vector<float>* points, std::vector<uint32_t>* leaves) const;
  void Set(const std::vector<uint32_t>& leaves, const std::vector<float>& weights);

 private:
  using Floats = std::shared_ptr<float>;

  static Floats Zeros(size_t size);
  // Computes the level above for these nodes.
  void Reduce(size_t level, const std::vector<uint32_t>& nodes);

  const size_t leaves_;
  std::vector<Floats> sums_;  // a level each, the top first
  std::vector<Floats> mins_;  // shares its last level with sums_
  std::vector<uint32_t> nodes_;
};

}  // namespace floors

#endif  // DING_WORKER_TOOLS_FLOORS_WEIGHT_TREE_H_
