#include "ding_worker/policy/mlp/panel_kernels.h"

#include <type_traits>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "ding_worker/base/compiled_loops.h"
#include "ding_worker/policy/mlp/vector_types.h"

namespace ding::internal_mlp {
namespace {

// Computes kTileM x (kVectors * lanes of Vector) elements of c, which stay in registers during the
// whole sum.
template <typename Vector, int kTileM, int kVectors>
DING_INLINE void MultiplyTile(const PanelProduct& p, int64_t m0, int64_t a_inner) {
  constexpr int kLanes = kLanesOf<Vector>;
  float* const c = p.c + m0 * p.c_row;
  Vector sum[kTileM][kVectors];
#pragma GCC unroll 16
  for (int m = 0; m < kTileM; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[m][v] = Vector{};
      if (p.start == PanelProduct::Start::kBias) {
        sum[m][v] += p.bias[m0 + m];
      } else if (p.start == PanelProduct::Start::kAdd) {
        Load(c + m * p.c_row + v * kLanes, sum[m][v]);
      }
    }
  }
  for (int64_t j = 0; j < p.outer_size; ++j) {
    const float* const a = p.a + m0 * p.a_row + j * p.a_outer;
    const float* const b = p.b + j * p.b_outer;
    for (int64_t k = 0; k < p.inner_size; ++k) {
      Vector rows[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) Load(b + k * kPanelRows + v * kLanes, rows[v]);
#pragma GCC unroll 16
      for (int m = 0; m < kTileM; ++m) {
        const float factor = a[m * p.a_row + k * a_inner];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[m][v] += factor * rows[v];
      }
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < kTileM; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Vector result = sum[m][v];
      if (p.relu) result = result < 0.0f ? Vector{} : result;
      Store(result, c + m * p.c_row + v * kLanes);
    }
  }
}

template <typename Vector, int kTileM, int kVectors>
DING_INLINE void MultiplyRows(const PanelProduct& p, int64_t a_inner) {
  int64_t m = 0;
  for (; m + kTileM <= p.m_size; m += kTileM) {
    MultiplyTile<Vector, kTileM, kVectors>(p, m, a_inner);
  }
  // The rest has at most one tile of each of these sizes.
  if (kTileM > 8 && m + 8 <= p.m_size) {
    MultiplyTile<Vector, 8, kVectors>(p, m, a_inner);
    m += 8;
  }
  if (kTileM > 4 && m + 4 <= p.m_size) {
    MultiplyTile<Vector, 4, kVectors>(p, m, a_inner);
    m += 4;
  }
  if (m + 2 <= p.m_size) {
    MultiplyTile<Vector, 2, kVectors>(p, m, a_inner);
    m += 2;
  }
  if (m < p.m_size) MultiplyTile<Vector, 1, kVectors>(p, m, a_inner);
}

// A constant stride of 1 saves address arithmetic in the forward pass.
template <typename Vector, int kTileM, int kVectors>
DING_INLINE void MultiplyStrides(const PanelProduct& p) {
  if (p.a_inner == 1) {
    MultiplyRows<Vector, kTileM, kVectors>(p, 1);
  } else {
    MultiplyRows<Vector, kTileM, kVectors>(p, p.a_inner);
  }
}

template <typename Vector>
DING_INLINE void TanhLoop(float* values, int64_t size) {
  constexpr int kLanes = kLanesOf<Vector>;
  for (int64_t i = 0; i < size; i += kLanes) {
    Vector x;
    Load(values + i, x);
    ApplyTanh(x);
    Store(x, values + i);
  }
}

template <typename Vector>
DING_INLINE void ReluGradientLoop(const float* outputs, float* gradients, int64_t size) {
  constexpr int kLanes = kLanesOf<Vector>;
  for (int64_t i = 0; i < size; i += kLanes) {
    const Vector y = *reinterpret_cast<const UnalignedVector<Vector>*>(outputs + i);
    auto& d = *reinterpret_cast<UnalignedVector<Vector>*>(gradients + i);
    d = y <= 0.0f ? Vector{} : d;
  }
}

template <typename Vector>
DING_INLINE void TanhGradientLoop(const float* outputs, float* gradients, int64_t size) {
  constexpr int kLanes = kLanesOf<Vector>;
  for (int64_t i = 0; i < size; i += kLanes) {
    const Vector y = *reinterpret_cast<const UnalignedVector<Vector>*>(outputs + i);
    auto& d = *reinterpret_cast<UnalignedVector<Vector>*>(gradients + i);
    d = d * (1.0f - y * y);
  }
}

template <typename Vector>
DING_INLINE void SumRowsLoop(const float* plane, int64_t width, int64_t rows, float* sums) {
  constexpr int kLanes = kLanesOf<Vector>;
  constexpr int kVectors = kPanelRows / kLanes;
  const int64_t full_panels = rows / kPanelRows;
  for (int64_t f = 0; f < width; ++f) {
    Vector sum[kVectors] = {};
    for (int64_t panel = 0; panel < full_panels; ++panel) {
      const float* const row = plane + (panel * width + f) * kPanelRows;
      for (int v = 0; v < kVectors; ++v) {
        sum[v] += *reinterpret_cast<const UnalignedVector<Vector>*>(row + v * kLanes);
      }
    }
    float lanes[kPanelRows];
    __builtin_memcpy(lanes, sum, sizeof(lanes));
    const float* const rest = plane + (full_panels * width + f) * kPanelRows;
    for (int64_t lane = 0; lane < rows % kPanelRows; ++lane) lanes[lane] += rest[lane];
#pragma GCC unroll 4
    for (int64_t half = kPanelRows / 2; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    sums[f] = lanes[0];
  }
}

// The tiles fill the registers of an instruction set: 12 sums in 16 registers, or in 32 with
// AVX-512.
template <typename Vector>
DING_INLINE void MultiplyLoop(const PanelProduct& p) {
  constexpr int kSums = 12;
  if (p.lanes <= kHalfPanelRows) {
    using HalfVector = std::conditional_t<kLanesOf<Vector> <= kHalfPanelRows, Vector, Vector8>;
    constexpr int kVectors = kHalfPanelRows / kLanesOf<HalfVector>;
    MultiplyStrides<HalfVector, kSums / kVectors, kVectors>(p);
  } else {
    constexpr int kVectors = kPanelRows / kLanesOf<Vector>;
    MultiplyStrides<Vector, kSums / kVectors, kVectors>(p);
  }
}

struct Compiled {
  template <InstructionSet kSet, typename Vector = VectorOf<kSet>>
  static constexpr PanelKernels kLoops = {
      Compile<kSet, MultiplyLoop<Vector>>(), Compile<kSet, TanhLoop<Vector>>(),
      Compile<kSet, ReluGradientLoop<Vector>>(), Compile<kSet, TanhGradientLoop<Vector>>(),
      Compile<kSet, SumRowsLoop<Vector>>()};
};

void TransposeScalar(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                     int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * to_row + r] = from[r * from_row + c];
  }
}

// Transposes 4 x 4 elements on every instruction set.
DING_INLINE void TransposeBlock(const float* from, int64_t from_row, float* to, int64_t to_row) {
#if defined(__SSE__)
  __m128 r0 = _mm_loadu_ps(from);
  __m128 r1 = _mm_loadu_ps(from + from_row);
  __m128 r2 = _mm_loadu_ps(from + 2 * from_row);
  __m128 r3 = _mm_loadu_ps(from + 3 * from_row);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(to, r0);
  _mm_storeu_ps(to + to_row, r1);
  _mm_storeu_ps(to + 2 * to_row, r2);
  _mm_storeu_ps(to + 3 * to_row, r3);
#else
  TransposeScalar(from, from_row, 4, 4, to, to_row);
#endif
}

}  // namespace

void Transpose(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
               int64_t to_row) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      TransposeBlock(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
    }
    TransposeScalar(from + r * from_row + c, from_row, 4, columns - c, to + c * to_row + r, to_row);
  }
  TransposeScalar(from + r * from_row, from_row, rows - r, columns, to + r, to_row);
}

const PanelKernels& PanelKernelsFor(InstructionSet set) { return LoopsFor<Compiled>(set); }

}  // namespace ding::internal_mlp
