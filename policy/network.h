// A differentiable function with flat parameters: from observation columns to named output columns.
//
// It is the border between algorithms and networks. An algorithm (policy/dqn, ...) computes a loss
// and its gradient by the outputs, without knowing what the network is made of; policy/mlp computes
// forward and backward by hand, and policy/torch does it for any module by autograd.
//
//     Forward(input) -> outputs          loss(outputs, batch) -> d loss / d outputs
//     Backward(d outputs) -> gradients() optimizer: parameters() -= f(gradients())
//
// Parameters are one flat float32 vector, and so are their gradients: an optimizer, a target
// network or an all-reduce is one loop over memory.
//
// Ownership: spans and specs live as long as the network, and their addresses do not change.
// Threads:   thread-compatible: Infer() and Forward() have working space of their own in the
//            network.
// Errors:    kInvalidArgument if input or output columns do not have the layout of input_spec() and
//            output_spec().
#ifndef DING_WORKER_POLICY_NETWORK_H_
#define DING_WORKER_POLICY_NETWORK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"

namespace ding {

// Where one weight or bias lies in the flat parameters.
struct ParameterInfo {
  std::string name;  // "encoder/0/weight"
  Shape shape;
  int64_t offset = 0;  // in elements
};

class Network {
 public:
  virtual ~Network() = default;

  // The fields that Forward() and Infer() read; their inputs' first fields must be these.
  virtual const SpecPtr& input_spec() const = 0;
  // The fields that they write, float32: "q" [A], or "logit" [A] and "value" [], ...
  virtual const SpecPtr& output_spec() const = 0;

  virtual absl::Span<const ParameterInfo> parameter_info() const = 0;
  virtual absl::Span<float> parameters() = 0;
  virtual absl::Span<const float> parameters() const = 0;
  virtual absl::Span<float> gradients() = 0;

  // Outputs for input [B, ...] into rows [0, B) of `output`; keeps nothing.
  virtual absl::Status Infer(const ColumnsView& input, const MutableColumnsView& output) = 0;
  // The same, keeping what Backward() needs. The memory of `input` must stay as it is until
  // Backward(): a network may look at it again instead of copying it.
  virtual absl::Status Forward(const ColumnsView& input, const MutableColumnsView& output) = 0;
  // d loss / d outputs [B, ...] of the last Forward(), in the layout of output_spec(), to d loss /
  // d parameters: overwrites gradients(). Each Forward() serves one Backward().
  // kFailedPrecondition without a Forward() of that many rows since the last Backward().
  virtual absl::Status Backward(const ColumnsView& d_output) = 0;

  // A network of the same structure with storage and the same values of its own: a target network.
  virtual absl::StatusOr<std::unique_ptr<Network>> Clone() const = 0;
  // For the log: "mlp 4-128-128-64, dueling 2: 33,923 parameters".
  virtual std::string info() const = 0;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_NETWORK_H_
