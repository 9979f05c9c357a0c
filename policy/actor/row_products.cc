#include "ding_worker/policy/actor/row_products.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "ding_worker/base/check.h"
#include "ding_worker/base/compiled_loops.h"
#include "ding_worker/policy/mlp/vector_types.h"

namespace ding::internal_actor {
namespace {

using internal_mlp::kLanesOf;
using internal_mlp::Load;
using internal_mlp::Store;
using internal_mlp::VectorOf;

constexpr std::align_val_t kCacheLine{64};

// Computes kRows x (kBlocks * kBlock) elements of y, which stay in registers during the whole sum.
template <typename Vector, int kRows, int kBlocks>
DING_INLINE void MultiplyTile(const RowProduct& p, int64_t row, int64_t block) {
  constexpr int kLanes = kLanesOf<Vector>;
  constexpr int kPerBlock = kBlock / kLanes;
  constexpr int kVectors = kBlocks * kPerBlock;
  const int64_t in = p.weight->in();
  const float* const x = p.x + row * p.x_row;
  const float* const weight = p.weight->data() + block * in * kBlock;
  float* const y = p.y + row * p.y_row + block * kBlock;
  const float* const bias = p.bias == nullptr ? nullptr : p.bias + block * kBlock;
  Vector sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const float* const start = bias == nullptr ? y + r * p.y_row : bias;
      Load(start + v * kLanes, sum[r][v]);
      if (bias != nullptr) sum[r][v] += Vector{};  // -0 becomes 0, as in an Mlp
    }
  }
  for (int64_t i = 0; i < in; ++i) {
    Vector column[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      Load(weight + (v / kPerBlock * in + i) * kBlock + v % kPerBlock * kLanes, column[v]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float factor = x[r * p.x_row + i];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sum[r][v] += factor * column[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      Vector result = sum[r][v];
      if (p.relu) result = result < 0.0f ? Vector{} : result;
      Store(result, y + r * p.y_row + v * kLanes);
    }
  }
}

template <typename Vector, int kRows, int kBlocks>
DING_INLINE void MultiplyRows(const RowProduct& p, int64_t block) {
  int64_t row = 0;
  for (; row + kRows <= p.rows; row += kRows) MultiplyTile<Vector, kRows, kBlocks>(p, row, block);
  // The rest has at most one tile of each of these sizes.
  if (kRows > 4 && row + 4 <= p.rows) {
    MultiplyTile<Vector, 4, kBlocks>(p, row, block);
    row += 4;
  }
  if (kRows > 2 && row + 2 <= p.rows) {
    MultiplyTile<Vector, 2, kBlocks>(p, row, block);
    row += 2;
  }
  if (row < p.rows) MultiplyTile<Vector, 1, kBlocks>(p, row, block);
}

template <typename Vector, int kRows, int kBlocks>
DING_INLINE void MultiplyBlocks(const RowProduct& p) {
  const int64_t blocks = p.weight->padded_out() / kBlock;
  int64_t block = 0;
  for (; block + kBlocks <= blocks; block += kBlocks)
    MultiplyRows<Vector, kRows, kBlocks>(p, block);
  if (kBlocks > 4 && block + 4 <= blocks) {
    MultiplyRows<Vector, kRows, 4>(p, block);
    block += 4;
  }
  if (kBlocks > 2 && block + 2 <= blocks) {
    MultiplyRows<Vector, kRows, 2>(p, block);
    block += 2;
  }
  if (block < blocks) MultiplyRows<Vector, kRows, 1>(p, block);
}

// The tiles fill the registers of an instruction set, and have at least 8 sums, which hide the
// latency of an addition.
template <typename Vector>
DING_INLINE void MultiplyLoop(const RowProduct& p) {
  constexpr int kLanes = kLanesOf<Vector>;
  if (p.rows == 1) {
    MultiplyBlocks<Vector, 1, kLanes / 2>(p);
  } else {
    constexpr int kRows = kLanes == 4 ? 2 : kLanes == 8 ? 6 : 4;
    constexpr int kBlocks = kLanes == 16 ? 4 : 1;
    MultiplyBlocks<Vector, kRows, kBlocks>(p);
  }
}

struct Compiled {
  template <InstructionSet kSet>
  static constexpr RowKernels kLoops = {Compile<kSet, MultiplyLoop<VectorOf<kSet>>>()};
};

}  // namespace

void AlignedFloats::Free::operator()(float* data) const { ::operator delete[](data, kCacheLine); }

AlignedFloats::AlignedFloats(int64_t size)
    : data_(static_cast<float*>(
          ::operator new[](static_cast<size_t>(size) * sizeof(float), kCacheLine))),
      size_(size) {
  std::fill_n(data_.get(), size, 0.0f);
}

PackedMatrix::PackedMatrix(int64_t out, int64_t in)
    : in_(in), padded_out_(RoundUpToBlock(out)), values_(padded_out_ * in) {}

void PackedMatrix::SetRow(int64_t out, const float* row) {
  DING_CHECK(out >= 0 && out < padded_out_) << "row " << out << " of " << padded_out_;
  float* const to = values_.data() + out / kBlock * in_ * kBlock + out % kBlock;
  for (int64_t i = 0; i < in_; ++i) to[i * kBlock] = row[i];
}

const RowKernels& RowKernelsFor(InstructionSet set) { return LoopsFor<Compiled>(set); }

}  // namespace ding::internal_actor
