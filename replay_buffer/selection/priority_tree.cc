#include "ding_worker/replay_buffer/selection/priority_tree.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/tensor.h"

namespace ding {
namespace {

constexpr int64_t kFanOut = 16;
constexpr int kLanes = 4;
constexpr float kNone = std::numeric_limits<float>::infinity();

int64_t Nodes(int64_t entries) { return (entries + kFanOut - 1) / kFanOut; }

// Returns which of four entries has the interval that contains x. Then x becomes the distance from
// the beginning of that interval.
template <typename T>
inline int FindOfFour(const T* entry, double* x) {
  const double before[4] = {0.0, double{entry[0]}, double{entry[0]} + entry[1],
                            double{entry[0]} + entry[1] + entry[2]};
  int found = (*x >= before[1]) + (*x >= before[2]) + (*x >= before[3]);
  // This happens only if rounding has put x beyond the sum.
  while (ABSL_PREDICT_FALSE(!(entry[found] > 0)) && found > 0) --found;
  *x -= before[found];
  return found;
}

// Does the same for sixteen entries. It searches groups of four first, so that fewer additions wait
// for each other.
template <typename T>
inline int64_t FindOfSixteen(const T* entry, double* x) {
  double group[kLanes];
  for (int g = 0; g < kLanes; ++g) {
    const T* const four = entry + 4 * g;
    group[g] = (double{four[0]} + four[1]) + (double{four[2]} + four[3]);
  }
  const int g = FindOfFour(group, x);
  return 4 * g + FindOfFour(entry + 4 * g, x);
}

// Adds in lanes, so that the compiler can use vector instructions.
template <typename T>
inline double SumOfSixteen(const T* entry) {
  double sum[kLanes] = {};
  for (int i = 0; i < kFanOut; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sum[lane] += entry[i + lane];
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

inline float MinOfSixteen(const float* entry) {
  float min[kLanes] = {kNone, kNone, kNone, kNone};
  for (int i = 0; i < kFanOut; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      min[lane] = entry[i + lane] < min[lane] ? entry[i + lane] : min[lane];
    }
  }
  return std::min(std::min(min[0], min[1]), std::min(min[2], min[3]));
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

inline void PriorityTree::Recompute(int level, int64_t entry) {
  const Level& to = levels_[level - 1];
  if (level > 1) {
    const Level& from = levels_[level - 2];
    to.sum[entry] = SumOfSixteen(from.sum + kFanOut * entry);
    to.min[entry] = MinOfSixteen(from.min + kFanOut * entry);
    return;
  }
  const float* const weights = weights_ + kFanOut * entry;
  to.sum[entry] = SumOfSixteen(weights);
  float present[kFanOut];
  for (int i = 0; i < kFanOut; ++i) present[i] = weights[i] > 0 ? weights[i] : kNone;
  to.min[entry] = MinOfSixteen(present);
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
    for (const int64_t entry : dirty_) Recompute(level, entry);
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
    for (int64_t entry = begin; entry < end; ++entry) Recompute(level, entry);
  }
}

void PriorityTree::Find(absl::Span<double> x, absl::Span<int64_t> leaves) const {
  DING_CHECK(total() > 0) << "no leaf has a weight";
  std::fill(leaves.begin(), leaves.end(), 0);
  for (int level = top() - 1; level > 0; --level) {
    const double* const sum = levels_[level - 1].sum;
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t first = kFanOut * leaves[i];
      leaves[i] = first + FindOfSixteen(sum + first, &x[i]);
      const int64_t below = kFanOut * leaves[i];
      if (level > 1) {
        const double* const next = levels_[level - 2].sum + below;
        __builtin_prefetch(next);
        __builtin_prefetch(next + kFanOut / 2);
      } else {
        __builtin_prefetch(weights_ + below);
      }
    }
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t first = kFanOut * leaves[i];
    leaves[i] = first + FindOfSixteen(weights_ + first, &x[i]);
  }
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
