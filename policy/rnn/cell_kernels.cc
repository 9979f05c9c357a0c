#include "ding_worker/policy/rnn/cell_kernels.h"

#include "ding_worker/base/compiled_loops.h"
#include "ding_worker/policy/mlp/vector_types.h"

namespace ding::internal_rnn {
namespace {

using internal_mlp::ApplySigmoid;
using internal_mlp::ApplyTanh;
using internal_mlp::kLanesOf;
using internal_mlp::UnalignedVector;
using internal_mlp::VectorOf;

// The vector at element i of plane `plane` of planes of `size` floats.
template <typename Vector>
DING_INLINE const UnalignedVector<Vector>& At(const float* planes, int64_t plane, int64_t size,
                                              int64_t i) {
  return *reinterpret_cast<const UnalignedVector<Vector>*>(planes + plane * size + i);
}
template <typename Vector>
DING_INLINE UnalignedVector<Vector>& At(float* planes, int64_t plane, int64_t size, int64_t i) {
  return *reinterpret_cast<UnalignedVector<Vector>*>(planes + plane * size + i);
}

template <typename Vector>
DING_INLINE void LstmForwardLoop(const LstmForward& s) {
  for (int64_t k = 0; k < s.size; k += kLanesOf<Vector>) {
    Vector i = At<Vector>(s.gates, 0, s.size, k);
    Vector f = At<Vector>(s.gates, 1, s.size, k);
    Vector g = At<Vector>(s.gates, 2, s.size, k);
    Vector o = At<Vector>(s.gates, 3, s.size, k);
    ApplySigmoid(i);
    ApplySigmoid(f);
    ApplyTanh(g);
    ApplySigmoid(o);
    Vector cell = f * At<Vector>(s.cell_before, 0, s.size, k) + i * g;
    At<Vector>(s.cell, 0, s.size, k) = cell;
    ApplyTanh(cell);
    At<Vector>(s.tanh_cell, 0, s.size, k) = cell;
    At<Vector>(s.hidden, 0, s.size, k) = o * cell;
    At<Vector>(s.gates, 0, s.size, k) = i;
    At<Vector>(s.gates, 1, s.size, k) = f;
    At<Vector>(s.gates, 2, s.size, k) = g;
    At<Vector>(s.gates, 3, s.size, k) = o;
  }
}

template <typename Vector>
DING_INLINE void LstmBackwardLoop(const LstmBackward& s) {
  for (int64_t k = 0; k < s.size; k += kLanesOf<Vector>) {
    const Vector i = At<Vector>(s.gates, 0, s.size, k);
    const Vector f = At<Vector>(s.gates, 1, s.size, k);
    const Vector g = At<Vector>(s.gates, 2, s.size, k);
    const Vector o = At<Vector>(s.gates, 3, s.size, k);
    const Vector tanh_cell = At<Vector>(s.tanh_cell, 0, s.size, k);
    const Vector d_hidden =
        At<Vector>(s.d_output, 0, s.size, k) + At<Vector>(s.d_hidden, 0, s.size, k);
    const Vector d_cell =
        At<Vector>(s.d_cell, 0, s.size, k) + d_hidden * o * (1.0f - tanh_cell * tanh_cell);
    const Vector d_i = d_cell * g * i * (1.0f - i);
    const Vector d_f = d_cell * At<Vector>(s.cell_before, 0, s.size, k) * f * (1.0f - f);
    const Vector d_g = d_cell * i * (1.0f - g * g);
    const Vector d_o = d_hidden * tanh_cell * o * (1.0f - o);
    At<Vector>(s.d_cell, 0, s.size, k) = d_cell * f;
    At<Vector>(s.d_gates, 0, s.size, k) = d_i;
    At<Vector>(s.d_gates, 1, s.size, k) = d_f;
    At<Vector>(s.d_gates, 2, s.size, k) = d_g;
    At<Vector>(s.d_gates, 3, s.size, k) = d_o;
    At<Vector>(s.bias_sums, 0, s.size, k) += d_i;
    At<Vector>(s.bias_sums, 1, s.size, k) += d_f;
    At<Vector>(s.bias_sums, 2, s.size, k) += d_g;
    At<Vector>(s.bias_sums, 3, s.size, k) += d_o;
  }
}

template <typename Vector>
DING_INLINE void GruForwardLoop(const GruForward& s) {
  for (int64_t k = 0; k < s.size; k += kLanesOf<Vector>) {
    Vector r = At<Vector>(s.gates, 0, s.size, k) + At<Vector>(s.products, 0, s.size, k);
    Vector z = At<Vector>(s.gates, 1, s.size, k) + At<Vector>(s.products, 1, s.size, k);
    const Vector product = At<Vector>(s.products, 2, s.size, k);
    ApplySigmoid(r);
    ApplySigmoid(z);
    Vector n = At<Vector>(s.gates, 2, s.size, k) + r * product;
    ApplyTanh(n);
    At<Vector>(s.hidden, 0, s.size, k) = n + z * (At<Vector>(s.hidden_before, 0, s.size, k) - n);
    At<Vector>(s.gates, 0, s.size, k) = r;
    At<Vector>(s.gates, 1, s.size, k) = z;
    At<Vector>(s.gates, 2, s.size, k) = n;
    At<Vector>(s.gates, 3, s.size, k) = product;
  }
}

template <typename Vector>
DING_INLINE void GruBackwardLoop(const GruBackward& s) {
  for (int64_t k = 0; k < s.size; k += kLanesOf<Vector>) {
    const Vector r = At<Vector>(s.gates, 0, s.size, k);
    const Vector z = At<Vector>(s.gates, 1, s.size, k);
    const Vector n = At<Vector>(s.gates, 2, s.size, k);
    const Vector product = At<Vector>(s.gates, 3, s.size, k);
    const Vector d_hidden =
        At<Vector>(s.d_output, 0, s.size, k) + At<Vector>(s.d_hidden, 0, s.size, k);
    const Vector d_z = d_hidden * (At<Vector>(s.hidden_before, 0, s.size, k) - n) * z * (1.0f - z);
    const Vector d_n = d_hidden * (1.0f - z) * (1.0f - n * n);
    const Vector d_r = d_n * product * r * (1.0f - r);
    const Vector d_product = d_n * r;
    At<Vector>(s.d_hidden, 0, s.size, k) = d_hidden * z;
    At<Vector>(s.d_gates, 0, s.size, k) = d_r;
    At<Vector>(s.d_gates, 1, s.size, k) = d_z;
    At<Vector>(s.d_gates, 2, s.size, k) = d_n;
    At<Vector>(s.d_products, 0, s.size, k) = d_r;
    At<Vector>(s.d_products, 1, s.size, k) = d_z;
    At<Vector>(s.d_products, 2, s.size, k) = d_product;
    At<Vector>(s.bias_sums, 0, s.size, k) += d_r;
    At<Vector>(s.bias_sums, 1, s.size, k) += d_z;
    At<Vector>(s.bias_sums, 2, s.size, k) += d_n;
    At<Vector>(s.bias_sums, 3, s.size, k) += d_product;
  }
}

struct Compiled {
  template <InstructionSet kSet, typename Vector = VectorOf<kSet>>
  static constexpr CellKernels kLoops = {
      Compile<kSet, LstmForwardLoop<Vector>>(), Compile<kSet, LstmBackwardLoop<Vector>>(),
      Compile<kSet, GruForwardLoop<Vector>>(), Compile<kSet, GruBackwardLoop<Vector>>()};
};

}  // namespace

const CellKernels& CellKernelsFor(InstructionSet set) { return LoopsFor<Compiled>(set); }

}  // namespace ding::internal_rnn
