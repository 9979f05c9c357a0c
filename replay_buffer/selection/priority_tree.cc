#include "ding_worker/replay_buffer/selection/priority_tree.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/compiled_loops.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/data/tensor.h"

namespace ding {
namespace {

constexpr int64_t kFanOut = 16;
constexpr int64_t kHalf = kFanOut / 2;
constexpr float kNone = std::numeric_limits<float>::infinity();

int64_t Nodes(int64_t entries) { return (entries + kFanOut - 1) / kFanOut; }

using Doubles __attribute__((vector_size(64))) = double;
using Integers __attribute__((vector_size(64))) = int64_t;
using UnalignedDoubles __attribute__((aligned(8), may_alias)) = Doubles;
using Floats __attribute__((vector_size(32))) = float;
using UnalignedFloats __attribute__((aligned(4), may_alias)) = Floats;

// Loads half a node.
DING_INLINE void Load(const double* entry, Doubles& half) {
  half = *reinterpret_cast<const UnalignedDoubles*>(entry);
}
DING_INLINE void Load(const float* entry, Doubles& half) {
  half = __builtin_convertvector(*reinterpret_cast<const UnalignedFloats*>(entry), Doubles);
}

// Adds to each number those before it.
DING_INLINE void AddUp(Doubles& x) {
  const Doubles zero = {};
  x += __builtin_shufflevector(zero, x, 0, 8, 9, 10, 11, 12, 13, 14);
  x += __builtin_shufflevector(zero, x, 0, 1, 8, 9, 10, 11, 12, 13);
  x += __builtin_shufflevector(zero, x, 0, 1, 2, 3, 8, 9, 10, 11);
}

// Returns which of the sixteen entries of a node has the interval that contains x. Then x becomes
// the distance from the beginning of that interval.
template <typename T>
DING_INLINE int64_t FindOfSixteen(const T* entry, double* x) {
  Doubles low;
  Doubles high;
  Load(entry, low);
  Load(entry + kHalf, high);
  AddUp(low);
  AddUp(high);
  high += low[kHalf - 1];
  Integers reached = (low <= *x) + (high <= *x);  // -1 for each sum that is
  reached += __builtin_shufflevector(reached, reached, 4, 5, 6, 7, 0, 1, 2, 3);
  reached += __builtin_shufflevector(reached, reached, 2, 3, 0, 1, 6, 7, 4, 5);
  int64_t found = -(reached[0] + reached[1]);
  // These happen only if rounding has put x beyond the sum.
  if (ABSL_PREDICT_FALSE(found == kFanOut)) --found;
  while (ABSL_PREDICT_FALSE(!(entry[found] > 0)) && found > 0) --found;
  alignas(64) double sums[kHalf + kFanOut];
  sums[kHalf - 1] = 0;
  *reinterpret_cast<Doubles*>(sums + kHalf) = low;
  *reinterpret_cast<Doubles*>(sums + kFanOut) = high;
  *x -= sums[kHalf - 1 + found];
  return found;
}

template <typename T>
DING_INLINE double SumOfSixteen(const T* entry) {
  Doubles sum;
  Doubles high;
  Load(entry, sum);
  Load(entry + kHalf, high);
  sum += high;
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

DING_INLINE float MinOf(const Floats& low, const Floats& high) {
  const Floats of_8 = low < high ? low : high;
  const Floats other_4 = __builtin_shufflevector(of_8, of_8, 4, 5, 6, 7, 0, 1, 2, 3);
  const Floats of_4 = of_8 < other_4 ? of_8 : other_4;
  return std::min(std::min(of_4[0], of_4[1]), std::min(of_4[2], of_4[3]));
}

DING_INLINE float MinOfSixteen(const float* entry) {
  const Floats low = *reinterpret_cast<const UnalignedFloats*>(entry);
  const Floats high = *reinterpret_cast<const UnalignedFloats*>(entry + kHalf);
  return MinOf(low, high);
}

// Returns the least of sixteen weights that is above 0; kNone if there is none.
DING_INLINE float MinPresentOfSixteen(const float* weights) {
  const Floats none = Floats{} + kNone;
  const Floats low = *reinterpret_cast<const UnalignedFloats*>(weights);
  const Floats high = *reinterpret_cast<const UnalignedFloats*>(weights + kHalf);
  const Floats present_low = low > 0 ? low : none;
  const Floats present_high = high > 0 ? high : none;
  return MinOf(present_low, present_high);
}

// Goes down to this level: replaces each entry of the level above by that of its children in which
// x[i] lies. Then prefetches the children of the new entry, which have `bytes_below` bytes each.
template <typename T>
DING_INLINE void FindLoop(const T* level, const std::byte* below, size_t bytes_below, size_t size,
                          double* x, int64_t* entries) {
  for (size_t i = 0; i < size; ++i) {
    const int64_t first = kFanOut * entries[i];
    entries[i] = first + FindOfSixteen(level + first, &x[i]);
    const std::byte* const next = below + kFanOut * bytes_below * static_cast<size_t>(entries[i]);
    __builtin_prefetch(next);
    __builtin_prefetch(next + kFanOut * bytes_below / 2);
  }
}

DING_INLINE void RecomputeFirstLoop(const float* weights, const int64_t* entries, size_t size,
                                    double* sum, float* min) {
  for (size_t i = 0; i < size; ++i) {
    const int64_t entry = entries[i];
    sum[entry] = SumOfSixteen(weights + kFanOut * entry);
    min[entry] = MinPresentOfSixteen(weights + kFanOut * entry);
  }
}

DING_INLINE void RecomputeLoop(const double* sum_below, const float* min_below,
                               const int64_t* entries, size_t size, double* sum, float* min) {
  for (size_t i = 0; i < size; ++i) {
    const int64_t entry = entries[i];
    sum[entry] = SumOfSixteen(sum_below + kFanOut * entry);
    min[entry] = MinOfSixteen(min_below + kFanOut * entry);
  }
}

struct TreeLoops {
  decltype(&FindLoop<double>) find;
  decltype(&FindLoop<float>) find_leaf;
  decltype(&RecomputeLoop) recompute;
  decltype(&RecomputeFirstLoop) recompute_first;
};

// All of them give the same bits: they only add and compare, in one order.
struct Compiled {
  template <InstructionSet kSet>
  static constexpr TreeLoops kLoops = {
      Compile<kSet, FindLoop<double>>(), Compile<kSet, FindLoop<float>>(),
      Compile<kSet, RecomputeLoop>(), Compile<kSet, RecomputeFirstLoop>()};
};

const TreeLoops& Loops() {
  static const TreeLoops& loops = LoopsFor<Compiled>(BestInstructionSet());
  return loops;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PriorityTree>> PriorityTree::Create(int64_t leaves) {
  DING_CHECK(leaves >= 1 && leaves <= int64_t{1} << 32) << leaves << " leaves";
  std::vector<int64_t> sizes = {leaves};
  do {
    sizes.push_back(Nodes(sizes.back()));
  } while (sizes.back() > 1);
  int64_t bytes = Nodes(leaves) * kFanOut * static_cast<int64_t>(sizeof(float));
  for (size_t level = 1; level < sizes.size(); ++level) {
    bytes += Nodes(sizes[level]) * kFanOut * static_cast<int64_t>(sizeof(double) + sizeof(float));
  }
  std::shared_ptr<std::byte> memory = AllocateAligned(bytes);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory: ", bytes, " bytes for the priorities of ", leaves, " rows"));
  }
  std::memset(memory.get(), 0, static_cast<size_t>(bytes));
  return std::unique_ptr<PriorityTree>(new PriorityTree(std::move(sizes), std::move(memory)));
}

PriorityTree::PriorityTree(std::vector<int64_t> sizes, std::shared_ptr<std::byte> memory)
    : sizes_(std::move(sizes)), memory_(std::move(memory)) {
  std::byte* at = memory_.get();
  weights_ = reinterpret_cast<float*>(at);
  at += Nodes(sizes_[0]) * kFanOut * static_cast<int64_t>(sizeof(float));
  for (size_t level = 1; level < sizes_.size(); ++level) {
    const int64_t entries = Nodes(sizes_[level]) * kFanOut;
    auto* const sum = reinterpret_cast<double*>(at);
    auto* const min = reinterpret_cast<float*>(at + entries * static_cast<int64_t>(sizeof(double)));
    std::fill_n(min, entries, kNone);
    levels_.push_back({sum, min});
    at += entries * static_cast<int64_t>(sizeof(double) + sizeof(float));
  }
}

double PriorityTree::RangeSum(int64_t begin, int64_t end) const {
  double sum = 0;
  for (int level = 0; begin < end; ++level, begin /= kFanOut, end /= kFanOut) {
    for (; begin < end && begin % kFanOut != 0; ++begin) sum += SumAt(level, begin);
    for (; begin < end && end % kFanOut != 0; --end) sum += SumAt(level, end - 1);
  }
  return sum;
}

void PriorityTree::Recompute(int level, absl::Span<const int64_t> entries) {
  const Level& to = levels_[level - 1];
  if (level > 1) {
    const Level& from = levels_[level - 2];
    Loops().recompute(from.sum, from.min, entries.data(), entries.size(), to.sum, to.min);
  } else {
    Loops().recompute_first(weights_, entries.data(), entries.size(), to.sum, to.min);
  }
}

void PriorityTree::Set(absl::Span<const int64_t> leaves, absl::Span<const float> weights) {
  dirty_.clear();
  for (const int64_t leaf : leaves) __builtin_prefetch(weights_ + leaf, /*rw=*/1);
  for (size_t i = 0; i < leaves.size(); ++i) {
    weights_[leaves[i]] = weights[i];
    dirty_.push_back(leaves[i]);
  }
  for (int level = 1; level <= top(); ++level) {
    // Leaves mostly come in order, so those that share an entry above follow each other.
    size_t kept = 0;
    for (const int64_t below : dirty_) {
      const int64_t entry = below / kFanOut;
      if (kept > 0 && dirty_[kept - 1] == entry) continue;
      dirty_[kept++] = entry;
    }
    dirty_.resize(kept);
    Recompute(level, dirty_);
  }
}

void PriorityTree::Fill(int64_t begin, int64_t end, float weight) {
  std::fill(weights_ + begin, weights_ + end, weight);
  RecomputeRange(begin, end);
}

void PriorityTree::Assign(int64_t begin, absl::Span<const float> weights) {
  std::copy(weights.begin(), weights.end(), weights_ + begin);
  RecomputeRange(begin, begin + static_cast<int64_t>(weights.size()));
}

void PriorityTree::RecomputeRange(int64_t begin, int64_t end) {
  if (begin >= end) return;
  for (int level = 1; level <= top(); ++level) {
    begin /= kFanOut;
    end = Nodes(end);
    dirty_.resize(static_cast<size_t>(end - begin));
    std::iota(dirty_.begin(), dirty_.end(), begin);
    Recompute(level, dirty_);
  }
}

void PriorityTree::Find(absl::Span<double> x, absl::Span<int64_t> leaves) const {
  DING_CHECK(total() > 0) << "no leaf has a weight";
  std::fill(leaves.begin(), leaves.end(), 0);
  for (int level = top() - 1; level > 0; --level) {
    const bool leaves_below = level == 1;
    const auto* const below = leaves_below
                                  ? reinterpret_cast<const std::byte*>(weights_)
                                  : reinterpret_cast<const std::byte*>(levels_[level - 2].sum);
    Loops().find(levels_[level - 1].sum, below, leaves_below ? sizeof(float) : sizeof(double),
                 x.size(), x.data(), leaves.data());
  }
  Loops().find_leaf(weights_, nullptr, 0, x.size(), x.data(), leaves.data());
}

int64_t PriorityTree::Descend(int level, int64_t entry, double x) const {
  for (; level > 0; --level) {
    const int64_t first = kFanOut * entry;
    entry = first + (level > 1 ? FindOfSixteen(levels_[level - 2].sum + first, &x)
                               : FindOfSixteen(weights_ + first, &x));
  }
  return entry;
}

int64_t PriorityTree::FindFrom(int64_t begin, double x) const {
  int64_t entry = begin;
  for (int level = 0; entry < sizes_[level];) {
    if (entry % kFanOut == 0 && level < top()) {
      entry /= kFanOut;
      ++level;
      continue;
    }
    const double sum = SumAt(level, entry);
    if (x < sum) return Descend(level, entry, x);
    x -= sum;
    ++entry;
  }
  return size();
}

}  // namespace ding
