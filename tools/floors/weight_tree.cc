#include "ding_worker/tools/floors/weight_tree.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace floors {
namespace {

constexpr size_t kFan = 16;

// In one level of a tree, finds for each point the weight that it falls on among the kFan of its
// node, subtracts those before it, and makes the node that weight's number.
void FindInLevel(const float* level, size_t count, uint32_t* nodes, float* points) {
  for (size_t i = 0; i < count; ++i) {
    const float* const node = level + kFan * nodes[i];
    uint32_t child = 0;
    while (child < kFan - 1 && points[i] >= node[child]) points[i] -= node[child++];
    nodes[i] = kFan * nodes[i] + child;
  }
}

// Computes the sums of nodes, and the least weights above 0 (infinity without one).
void ReduceLevel(const float* sums, const float* mins, size_t count, const uint32_t* nodes,
                 float* up_sums, float* up_mins) {
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    float min = std::numeric_limits<float>::infinity();
    for (size_t at = kFan * nodes[i]; at < kFan * (nodes[i] + 1); ++at) {
      sum += sums[at];
      if (mins[at] > 0) min = std::min(min, mins[at]);
    }
    up_sums[nodes[i]] = sum;
    up_mins[nodes[i]] = min;
  }
}

#if defined(__x86_64__)
#define FLOOR_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl")))

FLOOR_AVX512 void FindInLevelAvx512(const float* level, size_t count, uint32_t* nodes,
                                    float* points) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i by_1 = _mm512_sub_epi32(lanes, _mm512_set1_epi32(1));
  const __m512i by_2 = _mm512_sub_epi32(lanes, _mm512_set1_epi32(2));
  const __m512i by_4 = _mm512_sub_epi32(lanes, _mm512_set1_epi32(4));
  const __m512i by_8 = _mm512_sub_epi32(lanes, _mm512_set1_epi32(8));
  for (size_t i = 0; i < count; ++i) {
    // The sums of the weights up to each, in four steps.
    __m512 sums = _mm512_load_ps(level + kFan * nodes[i]);
    sums = _mm512_mask_add_ps(sums, 0xfffe, sums, _mm512_permutexvar_ps(by_1, sums));
    sums = _mm512_mask_add_ps(sums, 0xfffc, sums, _mm512_permutexvar_ps(by_2, sums));
    sums = _mm512_mask_add_ps(sums, 0xfff0, sums, _mm512_permutexvar_ps(by_4, sums));
    sums = _mm512_mask_add_ps(sums, 0xff00, sums, _mm512_permutexvar_ps(by_8, sums));
    const __mmask16 passed = _mm512_cmp_ps_mask(sums, _mm512_set1_ps(points[i]), _CMP_LE_OQ);
    const int child = std::min(__builtin_popcount(passed), 15);
    const auto last = static_cast<__mmask16>((1u << child) >> 1);
    points[i] -= _mm512_cvtss_f32(_mm512_maskz_compress_ps(last, sums));
    nodes[i] = kFan * nodes[i] + static_cast<uint32_t>(child);
  }
}

FLOOR_AVX512 void ReduceLevelAvx512(const float* sums, const float* mins, size_t count,
                                    const uint32_t* nodes, float* up_sums, float* up_mins) {
  const __m512 infinity = _mm512_set1_ps(std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < count; ++i) {
    const __m512 min = _mm512_load_ps(mins + kFan * nodes[i]);
    const __mmask16 there = _mm512_cmp_ps_mask(min, _mm512_setzero_ps(), _CMP_GT_OQ);
    up_sums[nodes[i]] = _mm512_reduce_add_ps(_mm512_load_ps(sums + kFan * nodes[i]));
    up_mins[nodes[i]] = _mm512_reduce_min_ps(_mm512_mask_mov_ps(infinity, there, min));
  }
}
#endif

#if defined(__x86_64__)
const bool wide = __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
const auto find_in_level = wide ? FindInLevelAvx512 : FindInLevel;
const auto reduce_level = wide ? ReduceLevelAvx512 : ReduceLevel;
#else
const auto find_in_level = FindInLevel;
const auto reduce_level = ReduceLevel;
#endif

}  // namespace

WeightTree::WeightTree(const std::vector<float>& weights) : leaves_(weights.size()) {
  size_t size = kFan;
  for (;; size *= kFan) {
    sums_.push_back(Zeros(size));
    mins_.push_back(size < leaves_ ? Zeros(size) : sums_.back());
    if (size >= leaves_) break;
  }
  std::copy(weights.begin(), weights.end(), sums_.back().get());
  std::vector<uint32_t> nodes(size / kFan);
  std::iota(nodes.begin(), nodes.end(), 0);
  for (size_t level = sums_.size() - 1; level > 0; --level) {
    Reduce(level, nodes);
    nodes.resize(nodes.size() / kFan);
  }
}

float WeightTree::total() const {
  return std::accumulate(sums_[0].get(), sums_[0].get() + kFan, 0.0f);
}

float WeightTree::min() const {
  float min = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < kFan; ++i) {
    if (mins_[0].get()[i] > 0) min = std::min(min, mins_[0].get()[i]);
  }
  return min;
}

void WeightTree::Find(std::vector<float>* points, std::vector<uint32_t>* leaves) const {
  std::fill(leaves->begin(), leaves->end(), 0);
  for (const Floats& level : sums_) {
    find_in_level(level.get(), leaves->size(), leaves->data(), points->data());
  }
  // Sums of floats in different orders may differ in the last bit.
  for (uint32_t& leaf : *leaves) leaf = std::min(leaf, static_cast<uint32_t>(leaves_ - 1));
}

void WeightTree::Set(const std::vector<uint32_t>& leaves, const std::vector<float>& weights) {
  nodes_.resize(leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    sums_.back().get()[leaves[i]] = weights[i];
    nodes_[i] = leaves[i] / kFan;
  }
  for (size_t level = sums_.size() - 1; level > 0; --level) {
    Reduce(level, nodes_);
    for (uint32_t& node : nodes_) node /= kFan;
  }
}

WeightTree::Floats WeightTree::Zeros(size_t size) {
  auto* const floats = static_cast<float*>(std::aligned_alloc(64, size * sizeof(float)));
  std::fill_n(floats, size, 0.0f);
  return Floats(floats, std::free);
}

void WeightTree::Reduce(size_t level, const std::vector<uint32_t>& nodes) {
  reduce_level(sums_[level].get(), mins_[level].get(), nodes.size(), nodes.data(),
               sums_[level - 1].get(), mins_[level - 1].get());
}

}  // namespace floors
