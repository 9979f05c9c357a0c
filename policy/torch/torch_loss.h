// Your own loss, written as a function of libtorch tensors. Autograd computes its gradients.
//
//     outputs ──from_blob──► leaves ──► your function ──► loss ──autograd──► d loss / d outputs
//
// The policy then runs the backward pass of its network with d loss / d outputs, so the network
// itself may be one without libtorch. Collecting, buffers, checkpoints, resuming and parallel runs
// work as with the built-in loss. policy/loss/loss_function.h lists the tensors of each policy.
// Every batch also has "weight" [B]: the importance weights, and 0 for padding.
//
// The function returns the loss to minimize, in one of two forms:
//
//   [B]     one term for each row. The loss is the mean of weight * term over the rows that are not
//           padding
//   scalar  the loss itself. The function must apply "weight"
//
// The tensors share the memory of the policy: the function must neither change nor keep them. It
// must not draw random numbers, because a resumed run would draw other ones. Tensors that it
// creates must be on the CPU.
//
// This header includes libtorch, which takes about 10 s to compile.
//
// Threads: thread-compatible. Like policy/torch/torch_network.h, it sets libtorch to one thread.
// Errors:  creating the policy calls the function once, with arbitrary values. kInvalidArgument if
//          the function reads a tensor that this policy does not have.
//          An iteration returns kInternal, with "loss 'NAME': " and the number of the iteration,
//          and changes nothing, if the function throws, if the loss has no gradient, has another
//          shape, is on another device or is not finite, or if a gradient is not finite.
//
// Example, for `policy { type: "dqn" loss { type: "log_cosh" } }`:
//   torch::Tensor LogCosh(const TorchBatch& batch, const Outputs& outputs, const Outputs& target) {
//     const auto q = outputs["q"].gather(1, batch["action"].unsqueeze(1)).squeeze(1);
//     const auto error = q - batch["reward"] - batch["discount"] * target["next_value"];
//     return torch::log(torch::cosh(error));
//   }
//   DING_REGISTER(LossRegistry(), "log_cosh", TorchLoss(LogCosh), "a smooth absolute error");
#ifndef DING_WORKER_POLICY_TORCH_TORCH_LOSS_H_
#define DING_WORKER_POLICY_TORCH_TORCH_LOSS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/module.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/policy/loss/loss_function.h"
#include "ding_worker/policy/policy.pb.h"
#include "torch/types.h"

namespace ding {

// Tensors by name.
class Outputs {
 public:
  // `name` is used in errors: "batch", "outputs" or "target", after the argument of the loss
  // function.
  explicit Outputs(std::string name = "outputs") : name_(std::move(name)) {}
  // Throws std::out_of_range, with a list of the names, if no tensor has this name.
  const torch::Tensor& operator[](const std::string& name) const;
  const std::map<std::string, torch::Tensor>& all() const { return tensors_; }
  void Set(const std::string& name, torch::Tensor tensor) { tensors_[name] = std::move(tensor); }

  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::map<std::string, torch::Tensor> tensors_;
};

// The columns and the settings of a batch. Keeps a reference to `numbers`.
class TorchBatch : public Outputs {
 public:
  explicit TorchBatch(const NamedValues& numbers) : Outputs("batch"), numbers_(numbers) {}
  // Returns a setting such as "clip_ratio". Throws like operator[].
  double number(const std::string& name) const;

 private:
  const NamedValues& numbers_;
};

// What a loss function returns. A tensor converts to it as the loss.
struct TorchLossValue {
  TorchLossValue(torch::Tensor loss) : loss(std::move(loss)) {}  // NOLINT: converts implicitly

  torch::Tensor loss;
  torch::Tensor td_error = {};                                 // [B], as in LossValue
  std::vector<std::pair<std::string, torch::Tensor>> scalars;  // to report
};

using TorchLossFunction = std::function<TorchLossValue(
    const TorchBatch& batch, const Outputs& outputs, const Outputs& target)>;

struct TorchLossOptions {
  bool reads_target_of_obs = false;  // as in LossFunction
};

// Makes a loss. It is for the factory of a loss with params; `name` begins its errors.
std::unique_ptr<LossFunction> MakeTorchLoss(absl::string_view name, TorchLossFunction function,
                                            const TorchLossOptions& options = {});

// Returns the factory of a loss without params, for DING_REGISTER().
inline auto TorchLoss(TorchLossFunction function, const TorchLossOptions& options = {}) {
  return [function = std::move(function), options](
             const LossConfig& config,
             const NoParams&) -> absl::StatusOr<std::unique_ptr<LossFunction>> {
    return MakeTorchLoss(config.type(), function, options);
  };
}

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_LOSS_H_
