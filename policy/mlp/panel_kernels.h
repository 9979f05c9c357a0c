// The inner loops of an Mlp, compiled for several instruction sets.
//
// Activations are stored in panels: a panel has kPanelRows rows of a batch, feature by feature, so
// that one vector instruction handles the same feature of several rows:
//
//     row-major [B, F]              panel p: [F][kPanelRows]
//     r0: a0 a1 a2 ...              feature 0: r0 r1 r2 ... r15
//     r1: b0 b1 b2 ...       -->    feature 1: r0 r1 r2 ... r15
//
// A weight is then a scalar that multiplies a vector of rows. If a forward product has at most four
// rows, and inputs in multiples of four, vectors of weights, transposed on the way, are multiplied
// by the rows. Weights are read in place, in torch's [out, in] layout, without the packing of a
// general GEMM, which takes half of the GEMM's time at 8 or 64 rows.
//
// Every element of a product is summed in the order of k by one accumulator, for any number of
// rows: the outputs for a row have the same bytes in a batch of 1 and of 1000.
//
// Threads: thread-safe; the functions use their arguments only.
#ifndef DING_WORKER_POLICY_MLP_PANEL_KERNELS_H_
#define DING_WORKER_POLICY_MLP_PANEL_KERNELS_H_

#include <cstdint>

#include "ding_worker/base/cpu.h"

namespace ding::internal_mlp {

inline constexpr int64_t kPanelRows = 16;
// A panel of at most this many rows takes half the time; its other rows are not changed.
inline constexpr int64_t kHalfPanelRows = 8;

// c(m, lane) = start(m) + sum over (j, k) of a(m, j, k) * b[j * b_outer + k * kPanelRows + lane], for
// each of `panels` panels. The sum is over two indices, so that it can run over the rows of several
// panels.
struct PanelProduct {
  enum class Start {
    kZero,
    kBias,  // bias[m]
    kAdd,   // the current c
  };

  int64_t panels = 1;  // panel i has b + i * b_panel and c + i * c_panel
  int64_t m_size = 0;
  int64_t outer_size = 1;  // range of j
  int64_t inner_size = 0;  // range of k

  // a(m, j, k) = a[m * a_row + j * a_outer + k * a_inner].
  const float* a = nullptr;
  int64_t a_row = 0;
  int64_t a_outer = 0;
  int64_t a_inner = 1;

  const float* b = nullptr;
  int64_t b_outer = 0;
  int64_t b_panel = 0;

  // c(m, lane) = c[m * c_row + lane], of the last panel for the first `lanes` lanes only. The product
  // may write its other lanes, too: up to kHalfPanelRows if `lanes` is at most that, else all.
  float* c = nullptr;
  int64_t c_row = kPanelRows;
  int64_t c_panel = 0;
  int64_t lanes = kPanelRows;

  Start start = Start::kZero;
  const float* bias = nullptr;
  bool relu = false;  // c = max(c, 0) at the end; NaN stays NaN
};

struct PanelKernels {
  void (*multiply)(const PanelProduct& product);
  // In the next three functions `size` is a multiple of kPanelRows.
  // values[i] = tanh(values[i])
  void (*tanh)(float* values, int64_t size);
  // Converts in place d / d outputs to d / d inputs of an activation with these outputs.
  void (*relu_gradient)(const float* outputs, float* gradients, int64_t size);
  void (*tanh_gradient)(const float* outputs, float* gradients, int64_t size);
  // sums[f] = sum over the `rows` rows of feature f of a plane [panels][width][kPanelRows].
  void (*sum_rows)(const float* plane, int64_t width, int64_t rows, float* sums);
};

// This processor must support `set`.
const PanelKernels& PanelKernelsFor(InstructionSet set);

// to[c * to_row + r] = from[r * from_row + c] for r < rows, c < columns.
void Transpose(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
               int64_t to_row);

}  // namespace ding::internal_mlp

#endif  // DING_WORKER_POLICY_MLP_PANEL_KERNELS_H_
