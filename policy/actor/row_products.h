// Products of a matrix with few rows of features, compiled for several instruction sets.
//
// The matrix is packed in blocks of kBlock outputs, input by input, so that a vector instruction
// handles the same input of several outputs and the weights are read in order:
//
//     weight [out, in]            packed: [out / kBlock][in][kBlock]
//
// Every element of a result is summed in the order of the inputs by one accumulator, for any number
// of rows.
//
// Threads: thread-safe; the functions use their arguments only.
#ifndef DING_WORKER_POLICY_ACTOR_ROW_PRODUCTS_H_
#define DING_WORKER_POLICY_ACTOR_ROW_PRODUCTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ding_worker/base/cpu.h"

namespace ding::internal_actor {

inline constexpr int64_t kBlock = 16;
inline int64_t RoundUpToBlock(int64_t width) { return (width + kBlock - 1) / kBlock * kBlock; }

// Floats that begin at a cache line; 0 at first. A value that owns its memory and can only be
// moved.
class AlignedFloats {
 public:
  AlignedFloats() = default;
  explicit AlignedFloats(int64_t size);
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(float* data) const;
  };
  std::unique_ptr<float[], Free> data_;
  int64_t size_ = 0;
};

// A matrix [out, in] in blocks; rows are 0 until SetRow() sets them.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  PackedMatrix(int64_t out, int64_t in);
  // Copies `row` [in] to row `out`.
  void SetRow(int64_t out, const float* row);
  int64_t in() const { return in_; }
  // The number of outputs, rounded up to a multiple of kBlock.
  int64_t padded_out() const { return padded_out_; }
  const float* data() const { return values_.data(); }

 private:
  int64_t in_ = 0;
  int64_t padded_out_ = 0;
  AlignedFloats values_;
};

// y[r, o] = start(o) + sum over i of weight[o, i] * x[r, i] for the padded outputs.
struct RowProduct {
  const PackedMatrix* weight = nullptr;
  int64_t rows = 0;
  const float* x = nullptr;
  int64_t x_row = 0;  // floats from a row to the next one
  float* y = nullptr;
  int64_t y_row = 0;
  const float* bias = nullptr;  // [padded outputs]; null: start(o) is the current y[r, o]
  bool relu = false;            // y = max(y, 0) at the end; NaN stays NaN
};

struct RowKernels {
  void (*multiply)(const RowProduct& product);
};

// This processor must support `set`.
const RowKernels& RowKernelsFor(InstructionSet set);

}  // namespace ding::internal_actor

#endif  // DING_WORKER_POLICY_ACTOR_ROW_PRODUCTS_H_
