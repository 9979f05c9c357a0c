// A differentiable function with flat parameters: from observation columns to named output columns.
//
// It separates algorithms from networks. An algorithm (policy/dqn, ...) computes a loss and its gradient
// by the outputs, independent of the network; policy/mlp computes forward and backward passes by hand,
// policy/torch by autograd for any module.
//
//     Forward(input) -> outputs          loss(outputs, batch) -> d loss / d outputs
//     Backward(d outputs) -> gradients() optimizer: parameters() -= f(gradients())
//
// Parameters are one flat float32 vector, and so are their gradients: an optimizer, a target
// network or an all-reduce is one loop over memory.
//
// Ownership: spans and specs live as long as the network, and their addresses do not change.
// Threads:   thread-compatible: Infer() and Forward() use working memory of the network.
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

class ThreadTeam;  // base/thread_team.h

// The place of one weight or bias in the flat parameters.
struct ParameterInfo {
  std::string name;  // "encoder/0/weight"
  Shape shape;
  int64_t offset = 0;  // in elements
};

class Network {
 public:
  virtual ~Network() = default;

  // The fields that Forward() and Infer() read; they must be the first fields of the input.
  virtual const SpecPtr& input_spec() const = 0;
  // The float32 fields that they write: "q" [A], or "logit" [A] and "value" [], ...
  virtual const SpecPtr& output_spec() const = 0;

  virtual absl::Span<const ParameterInfo> parameter_info() const = 0;
  virtual absl::Span<float> parameters() = 0;
  virtual absl::Span<const float> parameters() const = 0;
  virtual absl::Span<float> gradients() = 0;

  // Writes the outputs for `input` [B, ...] to rows [0, B) of `output`; keeps nothing for Backward().
  virtual absl::Status Infer(const ColumnsView& input, const MutableColumnsView& output) = 0;
  // Likewise, and keeps what Backward() needs. The memory of `input` must not change until Backward(),
  // because a network may read it again instead of copying it.
  virtual absl::Status Forward(const ColumnsView& input, const MutableColumnsView& output) = 0;
  // Computes d loss / d parameters from `d_output`, d loss / d outputs [B, ...] of the last Forward() in
  // the layout of output_spec(), and overwrites gradients(). Each Forward() allows one Backward().
  // kFailedPrecondition without a Forward() of as many rows since the last Backward().
  virtual absl::Status Backward(const ColumnsView& d_output) = 0;

  // The next passes may use the threads of `team` beside the caller's, where that is faster; it changes no byte of
  // their results. Null, as at first: they do not. The team must outlive the last of these passes. A network may ignore it.
  virtual void set_thread_team(ThreadTeam* /*team*/) {}

  // Returns a network of the same structure with its own copy of the parameters: a target network.
  virtual absl::StatusOr<std::unique_ptr<Network>> Clone() const = 0;
  // Describes the network for the log: "mlp 4-128-128-64, dueling 2: 33,923 parameters".
  virtual std::string info() const = 0;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_NETWORK_H_
