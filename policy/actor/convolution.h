// One convolution of one picture, as a product of its windows with the weights.
//
// Pictures lie pixel by pixel, [rows, columns, padded channels], between the layers, so that a window is a few
// runs of memory and the product (row_products.h) writes the next picture in place.
//
// Ownership: owns packed weights and working memory.
// Threads:   thread-compatible.
#ifndef DING_WORKER_POLICY_ACTOR_CONVOLUTION_H_
#define DING_WORKER_POLICY_ACTOR_CONVOLUTION_H_

#include <cstdint>

#include "ding_worker/policy/actor/actor_model.h"
#include "ding_worker/policy/actor/row_products.h"

namespace ding::internal_actor {

class Convolution {
 public:
  // `in_stride` is the distance of two pixels of the input.
  Convolution(const ModelConvolution& model, int64_t in_stride);

  // The distance of two pixels of the output.
  int64_t out_stride() const { return weight_.padded_out(); }
  const ConvLayer& layer() const { return layer_; }
  // Returns the picture after the product, without the activation unless `relu`; valid until the next call.
  float* Run(const RowKernels& kernels, const float* picture, bool relu);
  // The floats of a picture after the product.
  int64_t out_size() const { return output_.size(); }

 private:
  void LoadWindow(const float* picture, int64_t row, int64_t column, float* window) const;

  const ConvLayer layer_;
  const int64_t in_stride_;
  PackedMatrix weight_;  // inputs in the order of a window: kernel row, kernel column, channel
  AlignedFloats bias_;
  AlignedFloats windows_;
  AlignedFloats output_;
};

}  // namespace ding::internal_actor

#endif  // DING_WORKER_POLICY_ACTOR_CONVOLUTION_H_
