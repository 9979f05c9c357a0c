// Steps on flat parameters: Adam, clipping of gradients, and the update of a target network.
#ifndef DING_WORKER_POLICY_OPTIMIZER_H_
#define DING_WORKER_POLICY_OPTIMIZER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"

namespace ding {

struct AdamOptions {
  double lr = 1e-3;         // at least 0
  double beta1 = 0.9;       // in [0, 1)
  double beta2 = 0.999;     // in [0, 1)
  double eps = 1e-8;        // above 0
  double weight_decay = 0;  // at least 0
};

// Adam's moments in the memory of a device, beside the parameters of a network there
// (policy/device/device_network.h).
class DeviceAdam {
 public:
  virtual ~DeviceAdam() = default;
  // Takes step number `num_steps` by the gradients of the network, scaled to a norm of at most
  // `max_norm`; 0: not scaled. Unless `norm` is null, waits for the device and writes the norm
  // before scaling to it. Gradients that are not finite change nothing. The error kInternal then
  // comes from this call, or without `norm` from the next pass of the network.
  virtual absl::Status Step(const AdamOptions& options, int64_t num_steps, double max_norm,
                            double* norm) = 0;
  // Copy the moments from and to the device. Read() gives NaN if the device is lost.
  virtual void Read(absl::Span<float> first, absl::Span<float> second) = 0;
  virtual void Write(absl::Span<const float> first, absl::Span<const float> second) = 0;
};

// Adam (Kingma and Ba 2015, algorithm 1) as one loop over flat parameters, with the numerics of
// torch.optim.Adam: bias correction of both moments, eps outside the square root, weight decay as
// an L2 term of the gradient.
//
// The loop is compiled for SSE2, AVX2 and AVX-512; the CPU decides at run time. Results have the
// same bytes on the same type of CPU, and differ by a few units in the last place between types
// (fused multiply-add rounds once). Denormal moments become 0.
//
// Ownership: owns the two moments; parameters and gradients are used during the call only.
// Threads:   thread-compatible.
//
// Example:
//   AdamOptions options;
//   options.lr = 1e-3;
//   DING_ASSIGN_OR_RETURN(Adam adam, Adam::Create(options, network->parameters().size()));
//   DING_RETURN_IF_ERROR(network->Backward(d_output));
//   DING_RETURN_IF_ERROR(adam.Step(network->gradients(), network->parameters()));
class Adam {
 public:
  //   kInvalidArgument  lists all options that are out of range
  static absl::StatusOr<Adam> Create(const AdamOptions& options, int64_t num_parameters);
  Adam(Adam&&) = default;
  Adam& operator=(Adam&&) = default;

  // Takes one step. After an error parameters and moments are unchanged.
  //   kInvalidArgument  a span has another length than num_parameters, or a gradient is NaN or
  //                     infinite (the error names the first)
  absl::Status Step(absl::Span<const float> gradients, absl::Span<float> parameters);
  // Moves the moments to a device. From then on call StepOnDevice(), with the arguments of
  // DeviceAdam::Step(), instead of Step().
  void MoveTo(std::unique_ptr<DeviceAdam> device);
  absl::Status StepOnDevice(double max_norm, double* norm);

  // Copies moments, number of steps and options of `other`, which must have the same number of
  // parameters.
  void CopyFrom(const Adam& other);

  double lr() const { return options_.lr; }
  // Sets the learning rate, for schedules. kInvalidArgument if it is negative or not finite.
  absl::Status set_lr(double lr);
  int64_t num_steps() const { return num_steps_; }

  // Save and load moments, number of steps and learning rate.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);
  // Returns an optimizer like this one with the saved state.
  absl::StatusOr<Adam> Read(StateReader* reader) const;

 private:
  Adam(const AdamOptions& options, int64_t num_parameters);
  void Fetch() const;

  AdamOptions options_;
  int64_t num_steps_ = 0;
  std::unique_ptr<DeviceAdam> device_;  // null: none
  // With a device_, as of the last Fetch().
  mutable Tensor first_moment_;
  mutable Tensor second_moment_;
};

// Scales `gradients` by max_norm / (norm + 1e-6) if their Euclidean norm is above max_norm, as
// torch.nn.utils.clip_grad_norm_ does, and returns the norm before scaling.
//   kInvalidArgument  max_norm is not above 0, or a gradient is NaN or infinite; nothing is scaled
absl::StatusOr<double> ClipGradientNorm(absl::Span<float> gradients, double max_norm);
// Does the same for a gradient in several pieces of memory.
absl::StatusOr<double> ClipGradientNorm(absl::Span<const absl::Span<float>> pieces,
                                        double max_norm);

// Returns the Euclidean norm of the gradient; NaN or infinite if one of its values is.
double GradientNorm(absl::Span<const absl::Span<float>> pieces);

// The update of a target network after each training iteration:
//
//   hard  every `freq` iterations  target = online                             (Mnih et al. 2015)
//   soft  every iteration          target = (1 - theta) target + theta online  (Lillicrap et al. 2016)
//
// Exactly one of `freq` and `theta` must be above 0.
struct TargetUpdate {
  int64_t freq = 100;  // training iterations
  double theta = 0;    // in (0, 1]
};

// Returns kInvalidArgument unless exactly one is set and in its range.
absl::Status Validate(const TargetUpdate& update);

// `train_iter` is the number of complete iterations: 1 after the first. Both spans have the same
// length.
void UpdateTarget(const TargetUpdate& update, int64_t train_iter, absl::Span<const float> online,
                  absl::Span<float> target);

}  // namespace ding

#endif  // DING_WORKER_POLICY_OPTIMIZER_H_
