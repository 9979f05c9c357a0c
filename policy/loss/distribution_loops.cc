#include "ding_worker/policy/loss/distribution_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ding_worker/base/check.h"
#include "ding_worker/policy/mlp/vector_types.h"

namespace ding::internal_loss {
namespace {

using internal_mlp::ApplyExp;
using internal_mlp::UnalignedVector;
using internal_mlp::Vector16;
using internal_mlp::Vector4;
using internal_mlp::Vector8;

template <typename Vector>
constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);

// Loads the first `count` lanes; the others are `rest`.
template <typename Vector>
DING_INLINE void Load(const float* from, int64_t count, float rest, Vector& vector) {
  if (count >= kLanes<Vector>) {
    vector = *reinterpret_cast<const UnalignedVector<Vector>*>(from);
    return;
  }
  float lanes[kLanes<Vector>];
  for (int64_t i = 0; i < kLanes<Vector>; ++i) lanes[i] = i < count ? from[i] : rest;
  std::memcpy(&vector, lanes, sizeof(vector));
}

// Stores the first `count` lanes.
template <typename Vector>
DING_INLINE void Store(const Vector& vector, int64_t count, float* to) {
  if (count >= kLanes<Vector>) {
    *reinterpret_cast<UnalignedVector<Vector>*>(to) = vector;
    return;
  }
  float lanes[kLanes<Vector>];
  std::memcpy(lanes, &vector, sizeof(vector));
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// Sums the lanes in a fixed order.
template <typename Vector>
DING_INLINE double SumOfLanes(const Vector& vector) {
  float lanes[kLanes<Vector>];
  std::memcpy(lanes, &vector, sizeof(vector));
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

template <typename Vector>
DING_INLINE float MaxOf(const float* values, int64_t size) {
  Vector max = Vector{} + values[0];
  for (int64_t i = 0; i < size; i += kLanes<Vector>) {
    Vector x;
    Load(values + i, size - i, values[0], x);
    max = x > max ? x : max;
  }
  float lanes[kLanes<Vector>];
  std::memcpy(lanes, &max, sizeof(max));
  float result = lanes[0];
  for (const float lane : lanes) result = lane > result ? lane : result;
  return result;
}

template <typename Vector>
DING_INLINE double SoftmaxLoop(const float* logit, int64_t size, float* probability) {
  const float max = MaxOf<Vector>(logit, size);
  Vector sum = {};
  for (int64_t i = 0; i < size; i += kLanes<Vector>) {
    const int64_t count = std::min(kLanes<Vector>, size - i);
    Vector x;
    // exp(-87) is nothing beside the largest exponential, which is 1.
    Load(logit + i, count, max - 100, x);
    x -= max;
    ApplyExp(x);
    sum += x;
    Store(x, count, probability + i);
  }
  const double total = SumOfLanes(sum);
  const auto scale = static_cast<float>(1 / total);
  for (int64_t i = 0; i < size; ++i) probability[i] *= scale;
  return max + std::log(total);
}

template <typename Vector>
DING_INLINE float SoftmaxMeanLoop(const float* logit, int64_t size, float low, float step) {
  const float max = MaxOf<Vector>(logit, size);
  Vector index;
  for (int64_t lane = 0; lane < kLanes<Vector>; ++lane) index[lane] = static_cast<float>(lane);
  Vector sum = {};
  Vector weighted = {};
  for (int64_t i = 0; i < size; i += kLanes<Vector>) {
    Vector x;
    Load(logit + i, std::min(kLanes<Vector>, size - i), max - 100, x);
    x -= max;
    ApplyExp(x);
    sum += x;
    weighted += x * (index + static_cast<float>(i));
  }
  return low + step * static_cast<float>(SumOfLanes(weighted) / SumOfLanes(sum));
}

template <typename Vector>
DING_INLINE double SumLoop(const float* values, int64_t size) {
  Vector sum = {};
  for (int64_t i = 0; i < size; i += kLanes<Vector>) {
    Vector x;
    Load(values + i, size - i, 0, x);
    sum += x;
  }
  return SumOfLanes(sum);
}

// The lanes are quantiles, and the sums over the targets stay in registers. With c = clip(u,
// -kappa, kappa), which is huber'(u), huber(u) is c (u - c / 2), and the terms with u < 0 are those
// of min(c, 0).
template <typename Vector, int kVectors>
DING_INLINE double QuantileTile(const QuantileRow& row, int64_t begin, float* d_quantile) {
  Vector quantile[kVectors];
  Vector fraction[kVectors];
  Vector slope[kVectors] = {};
  Vector negative_slope[kVectors] = {};
  Vector value[kVectors] = {};
  Vector negative_value[kVectors] = {};
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = begin + v * kLanes<Vector>;
    const int64_t count = std::clamp<int64_t>(row.size - at, 0, kLanes<Vector>);
    Load(row.quantile + at, count, 0, quantile[v]);
    Load(row.fraction + at, count, 0, fraction[v]);
  }
  const Vector high = Vector{} + row.kappa;
  const Vector low = -high;
  const Vector zero = {};
  for (int64_t j = 0; j < row.target_size; ++j) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const Vector u = row.target[j] - quantile[v];
      Vector c = u > high ? high : u;
      c = c < low ? low : c;
      const Vector negative = c < zero ? c : zero;
      const Vector factor = u - 0.5f * c;
      slope[v] += c;
      negative_slope[v] += negative;
      value[v] += c * factor;
      negative_value[v] += negative * factor;
    }
  }
  double sum = 0;
  const float scale = 1 / row.kappa;
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = begin + v * kLanes<Vector>;
    const int64_t count = std::clamp<int64_t>(row.size - at, 0, kLanes<Vector>);
    const Vector one_minus_fraction = 1.0f - fraction[v];
    const Vector gradient =
        (fraction[v] * (slope[v] - negative_slope[v]) + one_minus_fraction * negative_slope[v]) *
        -scale;
    const Vector loss =
        (fraction[v] * (value[v] - negative_value[v]) + one_minus_fraction * negative_value[v]) *
        scale;
    Store(gradient, count, d_quantile + at);
    float lanes[kLanes<Vector>];
    std::memcpy(lanes, &loss, sizeof(loss));
    for (int64_t lane = 0; lane < count; ++lane) sum += lanes[lane];
  }
  return sum;
}

template <typename Vector>
DING_INLINE double QuantileHuberLoop(const QuantileRow& row, float* d_quantile) {
  double sum = 0;
  int64_t i = 0;
  for (; i + kLanes<Vector> < row.size; i += 2 * kLanes<Vector>) {
    sum += QuantileTile<Vector, 2>(row, i, d_quantile);
  }
  if (i < row.size) sum += QuantileTile<Vector, 1>(row, i, d_quantile);
  return sum;
}

// The loops above for one instruction set.
#define DING_DEFINE_LOOPS(name, target, Vector)                                             \
  target double Softmax##name(const float* logit, int64_t size, float* probability) {       \
    return SoftmaxLoop<Vector>(logit, size, probability);                                   \
  }                                                                                         \
  target float SoftmaxMean##name(const float* logit, int64_t size, float low, float step) { \
    return SoftmaxMeanLoop<Vector>(logit, size, low, step);                                 \
  }                                                                                         \
  target double Sum##name(const float* values, int64_t size) {                              \
    return SumLoop<Vector>(values, size);                                                   \
  }                                                                                         \
  target double QuantileHuber##name(const QuantileRow& row, float* d_quantile) {            \
    return QuantileHuberLoop<Vector>(row, d_quantile);                                      \
  }                                                                                         \
  constexpr DistributionLoops k##name = {Softmax##name, SoftmaxMean##name, Sum##name,       \
                                         QuantileHuber##name};

DING_DEFINE_LOOPS(Baseline, , Vector4)
#if defined(__x86_64__)
DING_DEFINE_LOOPS(Avx2, DING_TARGET_AVX2, Vector8)
DING_DEFINE_LOOPS(Avx512, DING_TARGET_AVX512, Vector16)
#endif

}  // namespace

const DistributionLoops& DistributionLoopsFor(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return kAvx512;
  if (set == InstructionSet::kAvx2) return kAvx2;
#endif
  DING_CHECK(set == InstructionSet::kBaseline) << InstructionSetName(set);
  return kBaseline;
}

}  // namespace ding::internal_loss
