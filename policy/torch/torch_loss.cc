#include "ding_worker/policy/torch/torch_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <variant>

#include "ATen/ATen.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/loss/loss_columns.h"
#include "ding_worker/policy/torch/torch_device.h"
#include "ding_worker/policy/torch/torch_network.h"
#include "torch/csrc/autograd/autograd.h"

namespace ding {
namespace {

// The function has asked for a tensor or a number that the policy does not give.
class UnknownName : public std::out_of_range {
  using std::out_of_range::out_of_range;
};

template <typename Names>
[[noreturn]] void ThrowUnknown(const std::string& what, const Names& names,
                               absl::string_view remedy = "") {
  std::vector<std::string> known;
  for (const auto& each : names) known.push_back(each.first);
  throw UnknownName(absl::StrCat("there is no ", what, ", expected one of: ",
                                 known.empty() ? "none" : absl::StrJoin(known, ", "), remedy));
}

at::ScalarType TypeOf(float) { return at::kFloat; }
at::ScalarType TypeOf(int64_t) { return at::kLong; }
at::ScalarType TypeOf(uint8_t) { return at::kByte; }

// Returns a tensor [rows] or [rows, width] that shares the memory of `values`.
template <typename T>
at::Tensor TensorOf(absl::Span<const T> values, int64_t rows, int64_t width) {
  // Torch has no tensors of const elements.
  auto* const data = const_cast<T*>(values.data());  // NOLINT
  return width == 0 ? at::from_blob(data, {rows}, TypeOf(T()))
                    : at::from_blob(data, {rows, width}, TypeOf(T()));
}

void SetAll(const std::vector<LossColumn>& columns, int64_t rows, Outputs* to) {
  for (const LossColumn& column : columns) {
    to->Set(column.name,
            std::visit([&](const auto& values) { return TensorOf(values, rows, column.width); },
                       column.values));
  }
}

// Returns the elements as float64 on the CPU.
std::vector<double> NumbersOf(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().to(at::kDouble).contiguous();
  const double* const data = dense.data_ptr<double>();
  return {data, data + dense.numel()};
}

std::string Describe(const at::Tensor& tensor) {
  return absl::StrCat(c10::toString(tensor.scalar_type()),
                      ShapeString({tensor.sizes().data(), tensor.sizes().size()}));
}

// "batch action Int[2], reward Float[2]".
std::string Describe(const Outputs& tensors) {
  return absl::StrCat(tensors.name(), " ",
                      absl::StrJoin(tensors.all(), ", ", [](std::string* to, const auto& tensor) {
                        absl::StrAppend(to, tensor.first, " ", Describe(tensor.second));
                      }));
}

// Checks a tensor that the function has returned: `what` is its name; one number for each row, or
// where `scalar` is set, a single one.
absl::Status CheckReturned(absl::string_view what, const at::Tensor& found, bool scalar,
                           bool by_row, int64_t rows) {
  const std::string expected =
      absl::StrCat("expected ", scalar ? "a scalar" : "", scalar && by_row ? " or " : "",
                   by_row ? absl::StrCat("one number for each of the ", rows, " rows") : "");
  if (!found.defined()) {
    return absl::InternalError(absl::StrCat("returned no ", what, ", ", expected));
  }
  if (!found.device().is_cpu()) {
    return absl::InternalError(absl::StrCat("returned a ", what, " on ", found.device().str(),
                                            ", expected it on cpu, where the outputs are"));
  }
  const bool fits =
      (scalar && found.dim() == 0) || (by_row && found.dim() == 1 && found.size(0) == rows);
  if (fits && (found.is_floating_point() || !scalar)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("returned a ", what, " ", Describe(found), ", ", expected,
                                          ", of floating point"));
}

class AutogradLoss : public LossFunction, public ChecksColumns {
 public:
  AutogradLoss(absl::string_view name, TorchLossFunction function, const TorchLossOptions& options)
      : what_(absl::StrCat("loss '", name, "'")),
        function_(std::move(function)),
        options_(options) {}

  bool reads_target_of_obs() const override { return options_.reads_target_of_obs; }

  absl::Status CheckColumns(const LossInput& sample) override {
    return GuardTorch(what_, [&]() -> absl::Status {
      Tensors tensors(sample);
      try {
        const at::AutoGradMode with_autograd(true);
        function_(tensors.batch, tensors.outputs, tensors.target);
      } catch (const UnknownName& missing) {
        return absl::InvalidArgumentError(
            absl::StrCat(what_, " does not fit this policy: ", missing.what()));
      } catch (...) {  // NOLINT: other errors may be due to the values
      }
      return absl::OkStatus();
    });
  }

  absl::StatusOr<LossValue> Compute(const LossInput& input) override {
    ScopedFlushDenormals flush;
    LossValue value;
    DING_RETURN_IF_ERROR(GuardTorch(what_, [&] { return Annotate(Run(input, &value), what_); }));
    return value;
  }

 private:
  // The arguments of the function, which share the memory of an input.
  struct Tensors {
    explicit Tensors(const LossInput& input) : batch(input.numbers), target("target") {
      SetAll(input.batch, input.rows, &batch);
      SetAll(input.target, input.rows, &target);
      batch.Set("weight", at::ones({input.rows}));
      for (const LossOutput& output : input.outputs) {
        leaves.push_back(TensorOf(output.values, input.rows, output.width).set_requires_grad(true));
        outputs.Set(output.name, leaves.back());
      }
    }
    TorchBatch batch;
    Outputs outputs;
    Outputs target;
    std::vector<at::Tensor> leaves;  // of the outputs
  };

  absl::Status Run(const LossInput& input, LossValue* value) {
    const at::AutoGradMode with_autograd(true);
    const int64_t rows = input.rows;
    Tensors tensors(input);
    const int64_t counted = SetWeights(input);
    tensors.batch.Set("weight", TensorOf<float>(weight_, rows, 0));
    const TorchLossValue found = Call(tensors);
    DING_RETURN_IF_ERROR(CheckReturned("loss", found.loss, /*scalar=*/true, /*by_row=*/true, rows));
    if (!found.loss.requires_grad()) {
      return absl::InternalError(absl::StrCat(
          "returned a loss without a gradient, expected one that depends on an output (",
          Names(input), ") without detach() or NoGradGuard"));
    }
    DING_RETURN_IF_ERROR(ReadLoss(found.loss, counted, value));
    DING_RETURN_IF_ERROR(Differentiate(input, found.loss, counted, tensors.leaves));
    return ReadReport(found, rows, value);
  }

  // An error of libtorch does not say which tensors the function was given.
  TorchLossValue Call(const Tensors& tensors) const {
    try {
      return function_(tensors.batch, tensors.outputs, tensors.target);
    } catch (const c10::Error& error) {
      throw std::runtime_error(absl::StrCat(
          "libtorch refuses an operation of the function: ", error.what_without_backtrace(),
          "; the function was given ", Describe(tensors.batch), "; ", Describe(tensors.outputs),
          "; ", Describe(tensors.target), ": compare these shapes with the formula"));
    }
  }

  // Sets weight_, and returns the number of rows that are not padding.
  int64_t SetWeights(const LossInput& input) {
    const auto rows = static_cast<size_t>(input.rows);
    weight_.assign(rows, 1);
    if (!input.weight.empty()) weight_.assign(input.weight.begin(), input.weight.end());
    int64_t counted = input.rows;
    for (size_t i = 0; i < input.mask.size(); ++i) {
      if (input.mask[i] != 0) continue;
      weight_[i] = 0;
      --counted;
    }
    return counted;
  }

  absl::Status ReadLoss(const at::Tensor& loss, int64_t counted, LossValue* value) const {
    const std::vector<double> terms = NumbersOf(loss);
    if (loss.dim() == 0) {
      value->loss = terms[0];
    } else {
      for (size_t i = 0; i < terms.size(); ++i) {
        if (!std::isfinite(terms[i])) {
          return absl::InternalError(
              absl::StrCat("the loss of row ", i, " is ", terms[i], ", expected a finite number"));
        }
        value->loss += weight_[i] * terms[i] / static_cast<double>(counted);
      }
    }
    if (std::isfinite(value->loss)) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("the loss is ", value->loss, ", expected a finite number"));
  }

  // Writes the gradients of the outputs.
  absl::Status Differentiate(const LossInput& input, const at::Tensor& loss, int64_t counted,
                             const std::vector<at::Tensor>& leaves) {
    std::vector<at::Tensor> d_loss;
    if (loss.dim() == 1) {
      d_loss.push_back((TensorOf<float>(weight_, input.rows, 0) / static_cast<double>(counted))
                           .to(loss.scalar_type()));
    }
    const std::vector<at::Tensor> gradients = torch::autograd::grad(
        {loss}, leaves, d_loss, /*retain_graph=*/c10::nullopt, /*create_graph=*/false,
        /*allow_unused=*/true);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const absl::Span<float> to = input.outputs[i].gradient;
      if (!gradients[i].defined()) {  // The loss does not depend on it.
        std::fill(to.begin(), to.end(), 0.0f);
        continue;
      }
      const at::Tensor dense = gradients[i].contiguous();
      std::memcpy(to.data(), dense.data_ptr<float>(), to.size() * sizeof(float));
      const int64_t bad = FindNonFinite(to);
      if (bad < 0) continue;
      return absl::InternalError(
          absl::StrCat("the gradient of output '", input.outputs[i].name, "' in row ",
                       bad / std::max<int64_t>(1, input.outputs[i].width), " is ",
                       to[static_cast<size_t>(bad)], ", expected a finite number"));
    }
    return absl::OkStatus();
  }

  static absl::Status ReadReport(const TorchLossValue& found, int64_t rows, LossValue* value) {
    if (found.td_error.defined()) {
      DING_RETURN_IF_ERROR(
          CheckReturned("td_error", found.td_error, /*scalar=*/false, /*by_row=*/true, rows));
      const std::vector<double> td_error = NumbersOf(found.td_error);
      value->td_error.assign(td_error.begin(), td_error.end());
    }
    for (const auto& [name, scalar] : found.scalars) {
      DING_RETURN_IF_ERROR(CheckReturned(absl::StrCat("scalar '", name, "'"), scalar,
                                         /*scalar=*/true, /*by_row=*/false, rows));
      value->scalars.Set(name, NumbersOf(scalar)[0]);
    }
    return absl::OkStatus();
  }

  static std::string Names(const LossInput& input) {
    return absl::StrJoin(input.outputs, ", ", [](std::string* to, const LossOutput& output) {
      absl::StrAppend(to, output.name);
    });
  }

  const std::string what_;
  const TorchLossFunction function_;
  const TorchLossOptions options_;
  std::vector<float> weight_;  // working space
};

}  // namespace

const torch::Tensor& Outputs::operator[](const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    const bool is_target_of_obs =
        name_ == "target" && name == "q" && tensors_.find("next_q") != tensors_.end();
    ThrowUnknown(absl::StrCat(name_, "[\"", name, "\"]"), tensors_,
                 is_target_of_obs ? "; a loss with reads_target_of_obs has it, too: register "
                                    "TorchLoss(function, {/*reads_target_of_obs=*/true})"
                                  : "");
  }
  return found->second;
}

double TorchBatch::number(const std::string& name) const {
  const std::optional<double> found = numbers_.Get(name);
  if (!found.has_value()) {
    ThrowUnknown(absl::StrCat("batch.number(\"", name, "\")"), numbers_);
  }
  return *found;
}

std::unique_ptr<LossFunction> MakeTorchLoss(absl::string_view name, TorchLossFunction function,
                                            const TorchLossOptions& options) {
  [[maybe_unused]] static const bool once = (SetTorchThreads(1), true);
  return std::make_unique<AutogradLoss>(name, std::move(function), options);
}

}  // namespace ding
