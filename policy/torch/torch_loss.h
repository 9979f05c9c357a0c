// A loss as a function of tensors, whose gradients autograd computes.
//
//     outputs ──from_blob──► leaves ──► your function ──► loss ──autograd──► d loss / d outputs
//
// From there the network runs its backward pass as always, with or without libtorch. Autograd spans
// the loss alone, so that it changes nothing in the policy's collecting, buffers, checkpoints,
// resuming and parallel runs. policy/loss/loss_function.h lists the tensors of each policy. Every
// batch also has "weight" [B]: the importance weights, 0 for padding.
//
// The function returns the loss to be minimized:
//
//   [B]     one term for each row. Their mean over the rows that are not padding, weighted by
//           "weight", is the loss
//   scalar  the loss. The function applies "weight" itself
//
// The tensors share our memory. The function must not change or keep them, nor draw random numbers,
// because a resumed run would draw others. Tensors that it makes belong on the CPU.
//
// This header includes libtorch (some 10 s to compile).
//
// Threads: thread-compatible. As policy/torch/torch_network.h, it sets libtorch to one thread.
// Errors:  kInvalidArgument when the policy is made, if it does not have a tensor that the function
//          reads: so the function is called once with tensors whose values mean nothing.
//          kInternal, after "loss 'NAME': ", for an exception; a loss without a gradient, of another
//          shape, on another device, or not finite; gradients that are not finite. The policy names
//          the iteration, and changes nothing.
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
  // Errors use `name`: "batch", "outputs" or "target", as the argument of the loss is called.
  explicit Outputs(std::string name = "outputs") : name_(std::move(name)) {}
  // Throws std::out_of_range, with the existing names, if no tensor has this name.
  const torch::Tensor& operator[](const std::string& name) const;
  const std::map<std::string, torch::Tensor>& all() const { return tensors_; }
  void Set(const std::string& name, torch::Tensor tensor) { tensors_[name] = std::move(tensor); }

  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::map<std::string, torch::Tensor> tensors_;
};

class TorchBatch : public Outputs {
 public:
  explicit TorchBatch(const NamedValues& numbers) : Outputs("batch"), numbers_(numbers) {}
  // A setting such as "clip_ratio". Throws as operator[].
  double number(const std::string& name) const;

 private:
  const NamedValues& numbers_;
};

// What a function returns; a tensor alone is the loss.
struct TorchLossValue {
  TorchLossValue(torch::Tensor loss) : loss(std::move(loss)) {}  // NOLINT: converts implicitly

  torch::Tensor loss;
  torch::Tensor td_error = {};                                 // as LossValue::td_error
  std::vector<std::pair<std::string, torch::Tensor>> scalars;  // to report
};

using TorchLossFunction = std::function<TorchLossValue(
    const TorchBatch& batch, const Outputs& outputs, const Outputs& target)>;

struct TorchLossOptions {
  bool reads_target_of_obs = false;  // as in LossFunction
};

// Makes a loss, for a maker with params: `name` begins its errors.
std::unique_ptr<LossFunction> MakeTorchLoss(absl::string_view name, TorchLossFunction function,
                                            const TorchLossOptions& options = {});

// Returns the maker of a loss without params, for DING_REGISTER().
inline auto TorchLoss(TorchLossFunction function, const TorchLossOptions& options = {}) {
  return [function = std::move(function), options](
             const LossConfig& config,
             const NoParams&) -> absl::StatusOr<std::unique_ptr<LossFunction>> {
    return MakeTorchLoss(config.type(), function, options);
  };
}

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_LOSS_H_
