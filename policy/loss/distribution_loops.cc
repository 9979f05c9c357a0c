#include "ding_worker/policy/loss/distribution_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ding_worker/base/compiled_loops.h"
#include "ding_worker/policy/mlp/vector_types.h"

namespace ding::internal_loss {
namespace {

using internal_mlp::ApplyExp;
using internal_mlp::kLanesOf;
using internal_mlp::VectorOf;

// Loads the first `count` lanes; the others are `rest`.
template <typename Vector>
DING_INLINE void Load(const float* from, int64_t count, float rest, Vector& vector) {
  if (count >= kLanesOf<Vector>) {
    internal_mlp::Load(from, vector);
    return;
  }
  float lanes[kLanesOf<Vector>];
  for (int64_t i = 0; i < kLanesOf<Vector>; ++i) lanes[i] = i < count ? from[i] : rest;
  std::memcpy(&vector, lanes, sizeof(vector));
}

// Stores the first `count` lanes.
template <typename Vector>
DING_INLINE void Store(const Vector& vector, int64_t count, float* to) {
  if (count >= kLanesOf<Vector>) {
    internal_mlp::Store(vector, to);
    return;
  }
  float lanes[kLanesOf<Vector>];
  std::memcpy(lanes, &vector, sizeof(vector));
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// Sums the lanes in a fixed order.
template <typename Vector>
DING_INLINE double SumOfLanes(const Vector& vector) {
  float lanes[kLanesOf<Vector>];
  std::memcpy(lanes, &vector, sizeof(vector));
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

template <typename Vector>
DING_INLINE float MaxOf(const float* values, int64_t size) {
  Vector max = Vector{} + values[0];
  for (int64_t i = 0; i < size; i += kLanesOf<Vector>) {
    Vector x;
    Load(values + i, size - i, values[0], x);
    max = x > max ? x : max;
  }
  float lanes[kLanesOf<Vector>];
  std::memcpy(lanes, &max, sizeof(max));
  float result = lanes[0];
  for (const float lane : lanes) result = lane > result ? lane : result;
  return result;
}

template <typename Vector>
DING_INLINE double SoftmaxLoop(const float* logit, int64_t size, float* probability) {
  const float max = MaxOf<Vector>(logit, size);
  Vector sum = {};
  for (int64_t i = 0; i < size; i += kLanesOf<Vector>) {
    const int64_t count = std::min(kLanesOf<Vector>, size - i);
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
  for (int64_t lane = 0; lane < kLanesOf<Vector>; ++lane) index[lane] = static_cast<float>(lane);
  Vector sum = {};
  Vector weighted = {};
  for (int64_t i = 0; i < size; i += kLanesOf<Vector>) {
    Vector x;
    Load(logit + i, std::min(kLanesOf<Vector>, size - i), max - 100, x);
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
  for (int64_t i = 0; i < size; i += kLanesOf<Vector>) {
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
    const int64_t at = begin + v * kLanesOf<Vector>;
    const int64_t count = std::clamp<int64_t>(row.size - at, 0, kLanesOf<Vector>);
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
    const int64_t at = begin + v * kLanesOf<Vector>;
    const int64_t count = std::clamp<int64_t>(row.size - at, 0, kLanesOf<Vector>);
    const Vector one_minus_fraction = 1.0f - fraction[v];
    const Vector gradient =
        (fraction[v] * (slope[v] - negative_slope[v]) + one_minus_fraction * negative_slope[v]) *
        -scale;
    const Vector loss =
        (fraction[v] * (value[v] - negative_value[v]) + one_minus_fraction * negative_value[v]) *
        scale;
    Store(gradient, count, d_quantile + at);
    float lanes[kLanesOf<Vector>];
    std::memcpy(lanes, &loss, sizeof(loss));
    for (int64_t lane = 0; lane < count; ++lane) sum += lanes[lane];
  }
  return sum;
}

template <typename Vector>
DING_INLINE double QuantileHuberLoop(const QuantileRow& row, float* d_quantile) {
  double sum = 0;
  int64_t i = 0;
  for (; i + kLanesOf<Vector> < row.size; i += 2 * kLanesOf<Vector>) {
    sum += QuantileTile<Vector, 2>(row, i, d_quantile);
  }
  if (i < row.size) sum += QuantileTile<Vector, 1>(row, i, d_quantile);
  return sum;
}

struct Compiled {
  template <InstructionSet kSet, typename Vector = VectorOf<kSet>>
  static constexpr DistributionLoops kLoops = {
      Compile<kSet, SoftmaxLoop<Vector>>(), Compile<kSet, SoftmaxMeanLoop<Vector>>(),
      Compile<kSet, SumLoop<Vector>>(), Compile<kSet, QuantileHuberLoop<Vector>>()};
};

}  // namespace

const DistributionLoops& DistributionLoopsFor(InstructionSet set) {
  return LoopsFor<Compiled>(set);
}

}  // namespace ding::internal_loss
