#include "ding_worker/policy/mlp/panel_kernels.h"

#include <type_traits>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "ding_worker/base/compiled_loops.h"
#include "ding_worker/policy/mlp/vector_types.h"

namespace ding::internal_mlp {
namespace {

// Returns the address of vector v in row m of c. Each panel has kVectors vectors.
template <typename Vector, int kVectors>
DING_INLINE float* VectorOfC(const PanelProduct& p, int64_t m, int v) {
  return p.c + v / kVectors * p.c_panel + m * p.c_row + v % kVectors * kLanesOf<Vector>;
}

// Computes kTileM x (kVectors * lanes of Vector) elements of c for each of kPanels panels. They stay
// in registers during the whole sum.
template <typename Vector, int kTileM, int kVectors, int kPanels>
DING_INLINE void MultiplyTile(const PanelProduct& p, int64_t m0, int64_t a_inner) {
  constexpr int kLanes = kLanesOf<Vector>;
  constexpr int kSums = kPanels * kVectors;
  constexpr int kGroups = (kTileM + 2) / 3;
  Vector sum[kTileM][kSums];
#pragma GCC unroll 16
  for (int m = 0; m < kTileM; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < kSums; ++v) {
      sum[m][v] = Vector{};
      if (p.start == PanelProduct::Start::kBias) {
        sum[m][v] += p.bias[m0 + m];
      } else if (p.start == PanelProduct::Start::kAdd) {
        Load(VectorOfC<Vector, kVectors>(p, m0 + m, v), sum[m][v]);
      }
    }
  }
  for (int64_t j = 0; j < p.outer_size; ++j) {
    // Rows of a in groups of three, which one register for each group and one for the distance of
    // rows address: left alone, the compiler keeps a distance for each row in memory.
    const float* a[kGroups];
#pragma GCC unroll 4
    for (int group = 0; group < kGroups; ++group) {
      a[group] = p.a + (m0 + 3 * group) * p.a_row + j * p.a_outer;
      asm("" : "+r"(a[group]));
    }
    const float* b = p.b + j * p.b_outer;
#pragma GCC unroll 2
    for (const float* const end = b + p.inner_size * kPanelRows; b != end; b += kPanelRows) {
      Vector rows[kSums];
#pragma GCC unroll 4
      for (int v = 0; v < kSums; ++v) {
        Load(b + v / kVectors * p.b_panel + v % kVectors * kLanes, rows[v]);
      }
#pragma GCC unroll 16
      for (int m = 0; m < kTileM; ++m) {
        const float factor = a[m / 3][m % 3 * p.a_row];
#pragma GCC unroll 4
        for (int v = 0; v < kSums; ++v) sum[m][v] += factor * rows[v];
      }
#pragma GCC unroll 4
      for (int group = 0; group < kGroups; ++group) a[group] += a_inner;
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < kTileM; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < kSums; ++v) {
      Vector result = sum[m][v];
      if (p.relu) result = result < 0.0f ? Vector{} : result;
      Store(result, VectorOfC<Vector, kVectors>(p, m0 + m, v));
    }
  }
}

// The rows of c from m on.
template <typename Vector, int kTileM, int kVectors, int kPanels>
DING_INLINE void MultiplyRows(const PanelProduct& p, int64_t m, int64_t a_inner) {
  for (; m + kTileM <= p.m_size; m += kTileM) {
    MultiplyTile<Vector, kTileM, kVectors, kPanels>(p, m, a_inner);
  }
  // The rest has at most one tile of each of these sizes.
  if (kTileM > 8 && m + 8 <= p.m_size) {
    MultiplyTile<Vector, 8, kVectors, kPanels>(p, m, a_inner);
    m += 8;
  }
  if (kTileM > 4 && m + 4 <= p.m_size) {
    MultiplyTile<Vector, 4, kVectors, kPanels>(p, m, a_inner);
    m += 4;
  }
  if (m + 2 <= p.m_size) {
    MultiplyTile<Vector, 2, kVectors, kPanels>(p, m, a_inner);
    m += 2;
  }
  if (m < p.m_size) MultiplyTile<Vector, 1, kVectors, kPanels>(p, m, a_inner);
}

// A constant stride of 1 saves address arithmetic in the forward pass.
template <typename Vector, int kTileM, int kVectors, int kPanels>
DING_INLINE void MultiplyStrides(const PanelProduct& p, int64_t m) {
  if (p.a_inner == 1) {
    MultiplyRows<Vector, kTileM, kVectors, kPanels>(p, m, 1);
  } else {
    MultiplyRows<Vector, kTileM, kVectors, kPanels>(p, m, p.a_inner);
  }
}

// Transposes the four elements of four vectors, or both halves of eight: columns[k] = rows[0][k],
// rows[1][k] ...
DING_INLINE void TransposeQuarters(const Vector4 (&rows)[4], Vector4 (&columns)[4]) {
  const Vector4 low01 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const Vector4 high01 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const Vector4 low23 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const Vector4 high23 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  columns[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  columns[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  columns[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  columns[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}
DING_INLINE void TransposeQuarters(const Vector8 (&rows)[4], Vector8 (&columns)[4]) {
  const Vector8 low01 = __builtin_shufflevector(rows[0], rows[1], 0, 8, 1, 9, 4, 12, 5, 13);
  const Vector8 high01 = __builtin_shufflevector(rows[0], rows[1], 2, 10, 3, 11, 6, 14, 7, 15);
  const Vector8 low23 = __builtin_shufflevector(rows[2], rows[3], 0, 8, 1, 9, 4, 12, 5, 13);
  const Vector8 high23 = __builtin_shufflevector(rows[2], rows[3], 2, 10, 3, 11, 6, 14, 7, 15);
  columns[0] = __builtin_shufflevector(low01, low23, 0, 1, 8, 9, 4, 5, 12, 13);
  columns[1] = __builtin_shufflevector(low01, low23, 2, 3, 10, 11, 6, 7, 14, 15);
  columns[2] = __builtin_shufflevector(high01, high23, 0, 1, 8, 9, 4, 5, 12, 13);
  columns[3] = __builtin_shufflevector(high01, high23, 2, 3, 10, 11, 6, 7, 14, 15);
}

// rows[j] = the four floats at a + j * a_row; behind them, in a vector of eight, those at
// a + (j + 4) * a_row.
DING_INLINE void LoadRows(const float* a, int64_t a_row, Vector4 (&rows)[4]) {
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) Load(a + j * a_row, rows[j]);
}
DING_INLINE void LoadRows(const float* a, int64_t a_row, Vector8 (&rows)[4]) {
  Vector4 low[4];
  Vector4 high[4];
  LoadRows(a, a_row, low);
  LoadRows(a + 4 * a_row, a_row, high);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    rows[j] = __builtin_shufflevector(low[j], high[j], 0, 1, 2, 3, 4, 5, 6, 7);
  }
}

// Two vectors hide the latency of an addition.
constexpr int kFewBlocks = 2;

// Computes the outputs from m0 on that fill kFewBlocks vectors, for kFew lanes. A vector has
// outputs, not lanes: a tile would copy each weight to a vector of which few lanes are used.
template <typename Vector, int kFew>
DING_INLINE void MultiplyFewLanes(const PanelProduct& p, int64_t m0) {
  constexpr int kLanes = kLanesOf<Vector>;
  Vector sum[kFewBlocks][kFew];
#pragma GCC unroll 2
  for (int block = 0; block < kFewBlocks; ++block) {
#pragma GCC unroll 4
    for (int lane = 0; lane < kFew; ++lane) {
      sum[block][lane] = Vector{};
      if (p.start == PanelProduct::Start::kBias) {
        Vector bias;
        Load(p.bias + m0 + block * kLanes, bias);
        sum[block][lane] += bias;  // 0 + -0 is 0, as in a tile
      }
    }
  }
  for (int64_t k = 0; k < p.inner_size; k += 4) {
    const float* const b = p.b + k * kPanelRows;
#pragma GCC unroll 2
    for (int block = 0; block < kFewBlocks; ++block) {
      Vector rows[4];
      Vector weights[4];
      LoadRows(p.a + (m0 + block * kLanes) * p.a_row + k, p.a_row, rows);
      TransposeQuarters(rows, weights);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
        for (int lane = 0; lane < kFew; ++lane) {
          sum[block][lane] += b[i * kPanelRows + lane] * weights[i];
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int block = 0; block < kFewBlocks; ++block) {
#pragma GCC unroll 4
    for (int lane = 0; lane < kFew; ++lane) {
      Vector& result = sum[block][lane];
      if (p.relu) result = result < 0.0f ? Vector{} : result;
      float* const c = p.c + (m0 + block * kLanes) * p.c_row + lane;
#pragma GCC unroll 8
      for (int m = 0; m < kLanes; ++m) c[m * p.c_row] = result[m];
    }
  }
}

// Computes as many outputs as it can, if tiles would take longer, and returns their number.
template <typename Vector>
DING_INLINE int64_t MultiplyFew(const PanelProduct& p) {
  if (p.lanes > 4 || p.outer_size != 1 || p.a_inner != 1 || p.inner_size % 4 != 0 ||
      p.start == PanelProduct::Start::kAdd) {
    return 0;
  }
  constexpr int kRows = kFewBlocks * kLanesOf<Vector>;
  int64_t m = 0;
  for (; m + kRows <= p.m_size; m += kRows) {
    if (p.lanes <= 1) {
      MultiplyFewLanes<Vector, 1>(p, m);
    } else if (p.lanes == 2) {
      MultiplyFewLanes<Vector, 2>(p, m);
    } else {
      MultiplyFewLanes<Vector, 4>(p, m);
    }
  }
  return m;
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

DING_INLINE void SkipPanels(int64_t panels, PanelProduct* p) {
  p->panels -= panels;
  p->b += panels * p->b_panel;
  p->c += panels * p->c_panel;
}

// The tiles fill the registers of an instruction set: 12 sums in 16 registers, and 24 in the 32 of
// AVX-512, for two panels at a time.
template <typename Vector>
DING_INLINE void MultiplyLoop(const PanelProduct& product) {
  constexpr int kSums = 12;
  constexpr int kVectors = kPanelRows / kLanesOf<Vector>;
  PanelProduct p = product;
  const int64_t half_panels = p.lanes <= kHalfPanelRows ? 1 : 0;
  if constexpr (kVectors == 1) {
    for (; p.panels - half_panels >= 2; SkipPanels(2, &p)) {
      MultiplyStrides<Vector, kSums, 1, 2>(p, 0);
    }
  }
  for (; p.panels > half_panels; SkipPanels(1, &p)) {
    MultiplyStrides<Vector, kSums / kVectors, kVectors, 1>(p, 0);
  }
  if (p.panels < 1) return;
  using HalfVector = std::conditional_t<kLanesOf<Vector> <= kHalfPanelRows, Vector, Vector8>;
  constexpr int kHalfVectors = kHalfPanelRows / kLanesOf<HalfVector>;
  MultiplyStrides<HalfVector, kSums / kHalfVectors, kHalfVectors, 1>(p, MultiplyFew<HalfVector>(p));
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
