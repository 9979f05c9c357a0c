// The inner loops of layer normalization and dropout, on panels (panel_kernels.h), compiled for
// several instruction sets.
//
// A mask of dropout is a function of a key for each row and of the feature, so that no mask is
// stored: the backward pass computes it again. With 32-bit integers that wrap around:
//
//   x = key + feature * 0x9E3779B9
//   x = (x ^ x >> 16) * 0x7FEB352D;  x = (x ^ x >> 15) * 0x846CA68B;  x = x ^ x >> 16
//   the element is dropped if x < threshold
//
// These are the rounds of "lowbias32" by C. Wellons ("Prospecting for hash functions", 2018), in
// which every bit of the input changes every bit of the output.
//
// Every row is computed by itself: its results do not depend on the other rows of its panel.
//
// Threads: thread-safe; the functions use their arguments only.
#ifndef DING_WORKER_POLICY_MLP_NORMALIZATION_KERNELS_H_
#define DING_WORKER_POLICY_MLP_NORMALIZATION_KERNELS_H_

#include <cstdint>

#include "ding_worker/base/cpu.h"
#include "ding_worker/policy/mlp/panel_kernels.h"

namespace ding::internal_mlp {

// The number added to a variance (as in torch's LayerNorm).
inline constexpr float kVarianceEpsilon = 1e-5f;

struct DropoutMask {
  uint32_t keys[kPanelRows] = {};  // of the rows
  uint32_t threshold = 0;          // the probability of an element to be dropped, times 2^32
  float scale = 1;                 // the factor for the other elements
};

// Layer normalization (Ba, Kiros and Hinton 2016, eq. 4) of the features of a row:
//   normalized = (x - mean(x)) / sqrt(variance(x) + kVarianceEpsilon)     y = weight * normalized +
//                                                                         bias
struct LayerNorm {
  int64_t width = 0;              // number of features
  const float* weight = nullptr;  // [width]
  const float* bias = nullptr;    // [width]
  bool relu = false;              // y = max(y, 0) at the end; NaN stays NaN
};

// A panel is [width][kPanelRows].
struct NormalizationKernels {
  // Multiplies each element of `panel` by mask.scale, or sets it to 0 if it is dropped. The
  // gradient of this function is the function itself.
  void (*drop)(const DropoutMask& mask, int64_t width, float* panel);
  // Replaces x by y, and writes `normalized` (a panel) and `inverse_std` [kPanelRows], which is 1 /
  // sqrt(...). Both may be null.
  void (*normalize)(const LayerNorm& norm, float* panel, float* normalized, float* inverse_std);
  // Replaces d / d (weight * normalized + bias) by d / d x.
  void (*normalize_gradient)(const LayerNorm& norm, const float* normalized,
                             const float* inverse_std, float* gradients);
  // sums[f] = sum over the `rows` rows of feature f of a[f] * b[f], two planes
  // [panels][width][kPanelRows].
  void (*sum_products)(const float* a, const float* b, int64_t width, int64_t rows, float* sums);
};

// This processor must support `set`.
const NormalizationKernels& NormalizationKernelsFor(InstructionSet set);

// The key of a row for the mask of layer `layer`.
uint32_t DropoutKey(uint64_t row_key, int64_t layer);

}  // namespace ding::internal_mlp

#endif  // DING_WORKER_POLICY_MLP_NORMALIZATION_KERNELS_H_
