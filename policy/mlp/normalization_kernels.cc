#include "ding_worker/policy/mlp/normalization_kernels.h"

#include <cmath>

#include "ding_worker/base/compiled_loops.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/mlp/vector_types.h"

namespace ding::internal_mlp {
namespace {

constexpr Rng::Purpose kPurpose("policy/dropout");

// Vectors in a row of a panel.
template <typename Vector>
constexpr int kVectorsOf = kPanelRows / kLanesOf<Vector>;

template <typename Vector>
DING_INLINE void DropLoop(const DropoutMask& mask, int64_t width, float* panel) {
  using Unsigned = UnsignedVector<Vector>;
  // Instruction sets compare signed integers: flipping the highest bit of both sides keeps the
  // order.
  constexpr uint32_t kSign = 0x80000000;
  const auto threshold =
      (IntegerVector<Vector>)(Unsigned{} + static_cast<unsigned>(mask.threshold ^ kSign));
  Unsigned counter[kVectorsOf<Vector>];
  __builtin_memcpy(counter, mask.keys, sizeof(counter));
  for (int64_t f = 0; f < width; ++f) {
    for (int v = 0; v < kVectorsOf<Vector>; ++v) {
      Unsigned x = counter[v];
      counter[v] += 0x9E3779B9u;
      x = (x ^ (x >> 16)) * 0x7FEB352Du;
      x = (x ^ (x >> 15)) * 0x846CA68Bu;
      x = (x ^ (x >> 16)) ^ kSign;
      float* const at = panel + f * kPanelRows + v * kLanesOf<Vector>;
      Vector value;
      Load(at, value);
      value = (IntegerVector<Vector>)x < threshold ? Vector{} : value * mask.scale;
      Store(value, at);
    }
  }
}

// The loops over features read a panel several times; it fits the first level of the cache.
template <typename Vector>
DING_INLINE void NormalizeLoop(const LayerNorm& norm, float* panel, float* normalized,
                               float* inverse_std) {
  constexpr int kVectors = kVectorsOf<Vector>;
  const float share = 1 / static_cast<float>(norm.width);
  Vector mean[kVectors] = {};
  Vector square[kVectors] = {};
  Vector x;
  for (int64_t f = 0; f < norm.width; ++f) {
    for (int v = 0; v < kVectors; ++v) {
      Load(panel + f * kPanelRows + v * kLanesOf<Vector>, x);
      mean[v] += x;
    }
  }
  for (int v = 0; v < kVectors; ++v) mean[v] *= share;
  for (int64_t f = 0; f < norm.width; ++f) {
    for (int v = 0; v < kVectors; ++v) {
      Load(panel + f * kPanelRows + v * kLanesOf<Vector>, x);
      x -= mean[v];
      square[v] += x * x;
    }
  }
  float inverse[kPanelRows];
  __builtin_memcpy(inverse, square, sizeof(inverse));
  for (float& lane : inverse) lane = 1 / std::sqrt(lane * share + kVarianceEpsilon);
  if (inverse_std != nullptr) __builtin_memcpy(inverse_std, inverse, sizeof(inverse));
  Vector scale[kVectors];
  __builtin_memcpy(scale, inverse, sizeof(inverse));
  for (int64_t f = 0; f < norm.width; ++f) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = f * kPanelRows + v * kLanesOf<Vector>;
      Load(panel + at, x);
      x = (x - mean[v]) * scale[v];
      if (normalized != nullptr) Store(x, normalized + at);
      x = x * norm.weight[f] + norm.bias[f];
      if (norm.relu) x = x < 0.0f ? Vector{} : x;
      Store(x, panel + at);
    }
  }
}

// With g = d / d normalized = weight * d / d y:
//   d / d x = inverse_std * (g - mean(g) - normalized * mean(g * normalized))
template <typename Vector>
DING_INLINE void NormalizeGradientLoop(const LayerNorm& norm, const float* normalized,
                                       const float* inverse_std, float* gradients) {
  constexpr int kVectors = kVectorsOf<Vector>;
  const float share = 1 / static_cast<float>(norm.width);
  Vector mean[kVectors] = {};
  Vector product[kVectors] = {};
  Vector g;
  Vector unit;
  for (int64_t f = 0; f < norm.width; ++f) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = f * kPanelRows + v * kLanesOf<Vector>;
      Load(gradients + at, g);
      Load(normalized + at, unit);
      g *= norm.weight[f];
      mean[v] += g;
      product[v] += g * unit;
    }
  }
  Vector scale[kVectors];
  __builtin_memcpy(scale, inverse_std, sizeof(scale));
  for (int v = 0; v < kVectors; ++v) {
    mean[v] *= share;
    product[v] *= share;
  }
  for (int64_t f = 0; f < norm.width; ++f) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = f * kPanelRows + v * kLanesOf<Vector>;
      Load(gradients + at, g);
      Load(normalized + at, unit);
      g = (g * norm.weight[f] - mean[v] - unit * product[v]) * scale[v];
      Store(g, gradients + at);
    }
  }
}

template <typename Vector>
DING_INLINE void SumProductsLoop(const float* a, const float* b, int64_t width, int64_t rows,
                                 float* sums) {
  constexpr int kVectors = kVectorsOf<Vector>;
  const int64_t full_panels = rows / kPanelRows;
  for (int64_t f = 0; f < width; ++f) {
    Vector sum[kVectors] = {};
    for (int64_t panel = 0; panel < full_panels; ++panel) {
      const int64_t row = (panel * width + f) * kPanelRows;
      for (int v = 0; v < kVectors; ++v) {
        Vector left;
        Vector right;
        Load(a + row + v * kLanesOf<Vector>, left);
        Load(b + row + v * kLanesOf<Vector>, right);
        sum[v] += left * right;
      }
    }
    float lanes[kPanelRows];
    __builtin_memcpy(lanes, sum, sizeof(lanes));
    const int64_t rest = (full_panels * width + f) * kPanelRows;
    for (int64_t lane = 0; lane < rows % kPanelRows; ++lane) {
      lanes[lane] += a[rest + lane] * b[rest + lane];
    }
    for (int64_t half = kPanelRows / 2; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    sums[f] = lanes[0];
  }
}

struct Compiled {
  template <InstructionSet kSet, typename Vector = VectorOf<kSet>>
  static constexpr NormalizationKernels kLoops = {
      Compile<kSet, DropLoop<Vector>>(), Compile<kSet, NormalizeLoop<Vector>>(),
      Compile<kSet, NormalizeGradientLoop<Vector>>(), Compile<kSet, SumProductsLoop<Vector>>()};
};

}  // namespace

const NormalizationKernels& NormalizationKernelsFor(InstructionSet set) {
  return LoopsFor<Compiled>(set);
}

uint32_t DropoutKey(uint64_t row_key, int64_t layer) {
  return static_cast<uint32_t>(Rng::DeriveSeed(row_key, kPurpose, static_cast<uint64_t>(layer)) >>
                               32);
}

}  // namespace ding::internal_mlp
