// The structure of a convolutional network: the shapes of the convolutions of each picture, and the
// MLP that reads their outputs.
//
//     picture [C, H, W] ── conv/0 ── conv/1 ── ... ──┐
//     picture ... (convolutions of its own)  ────────┼── encoder/0 ── ... ──┬── <head>/...
//     vector  ───────────────────────────────────────┘                      └── <head>/...
//
// A field with three extents is a picture: uint8, which the network divides by 255, or float32,
// which it reads unchanged. Any other float32 field is a vector and is flattened. The pictures have
// equal convolutions with separate parameters.
//
// This header does not include libtorch.
//
// Threads: immutable after creation, so thread-safe.
#ifndef DING_WORKER_POLICY_TORCH_CNN_STRUCTURE_H_
#define DING_WORKER_POLICY_TORCH_CNN_STRUCTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"

namespace ding {

struct ConvOptions {
  int64_t channels = 0;  // number of output channels
  int64_t kernel = 0;    // number of rows and of columns
  int64_t stride = 1;
  int64_t padding = 0;  // rows and columns of zeros around the picture, less than kernel
};

struct CnnOptions {
  std::vector<ConvOptions> conv;  // at least one, each followed by the activation
  MlpOptions mlp;                 // the MLP, and the activation of all layers
};

// One convolution of one picture: weight [out channels, in channels, kernel, kernel] and bias.
struct ConvLayer {
  std::string name;  // "conv/0", "obs/image/conv/0" if there are several pictures
  ConvOptions options;
  Shape in;   // [channels, rows, columns]
  Shape out;  // likewise
};

struct CnnStructure {
  // The convolutions of each input field; empty for a vector.
  std::vector<std::vector<ConvLayer>> conv;
  // The MLP, which reads the last outputs of the pictures and the vectors, in the order of the
  // fields.
  MlpStructure mlp;

  // "1x10x10-16x8x8-32x6x6, mlp 1152-64, logit 64-3".
  std::string Architecture() const;
};

//   kInvalidArgument  lists all problems of the convolutions, or else of the MLP; a problem with a
//                     shape names the field and its shape
absl::StatusOr<CnnStructure> MakeCnnStructure(const CnnOptions& options, const SpecPtr& input,
                                              const SpecPtr& output);

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_CNN_STRUCTURE_H_
