#include "ding_worker/policy/torch/torch_models.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/policy/device/device_network.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/torch/torch_mlp_layers.h"
#include "ding_worker/policy/torch/torch_network.h"
#include "torch/nn/module.h"

namespace ding {
namespace {

constexpr double kWhite = 255;  // the largest value of a pixel in bytes

// Returns what makes a module from copies of `args`, for MakeTorchNetwork().
template <typename Module, typename... Args>
std::function<TorchModule()> ModuleMaker(const Args&... args) {
  return [args...] {
    auto module = std::make_shared<Module>(args...);
    return TorchModule{module, [module = module.get()](const std::vector<at::Tensor>& inputs) {
                         return module->Forward(inputs);
                       }};
  };
}

class TorchMlp : public torch::nn::Module {
 public:
  explicit TorchMlp(const MlpStructure& structure) : layers_(structure, this) {}

  std::vector<at::Tensor> Forward(const std::vector<at::Tensor>& inputs) const {
    return layers_.Forward(inputs);
  }

 private:
  const TorchMlpLayers layers_;
};

class TorchCnn : public torch::nn::Module {
 public:
  explicit TorchCnn(const CnnStructure& structure)
      : structure_(structure), mlp_(structure.mlp, this) {
    for (const std::vector<ConvLayer>& layers : structure_.conv) {
      std::vector<Conv> convs;
      for (const ConvLayer& layer : layers) {
        const int64_t kernel = layer.options.kernel;
        convs.push_back(
            {register_parameter(absl::StrCat(layer.name, "/weight"),
                                at::zeros({layer.out[0], layer.in[0], kernel, kernel})),
             register_parameter(absl::StrCat(layer.name, "/bias"), at::zeros({layer.out[0]}))});
      }
      convs_.push_back(std::move(convs));
    }
  }

  std::vector<at::Tensor> Forward(const std::vector<at::Tensor>& inputs) const {
    std::vector<at::Tensor> features;
    for (size_t field = 0; field < inputs.size(); ++field) {
      at::Tensor value = inputs[field];
      if (value.scalar_type() == at::kByte) value = value.to(at::kFloat).div_(kWhite);
      for (size_t i = 0; i < convs_[field].size(); ++i) {
        const ConvOptions& options = structure_.conv[field][i].options;
        value = Activate(structure_.mlp.options.activation,
                         at::conv2d(value, convs_[field][i].weight, convs_[field][i].bias,
                                    options.stride, options.padding));
      }
      features.push_back(std::move(value));
    }
    return mlp_.Forward(features);
  }

 private:
  struct Conv {
    at::Tensor weight;
    at::Tensor bias;
  };

  const CnnStructure structure_;
  const TorchMlpLayers mlp_;
  std::vector<std::vector<Conv>> convs_;  // in the order of structure_.conv
};

// `parameters` are the concatenated parameters of all convolutions.
void InitializeConvolutions(const CnnStructure& structure, uint64_t seed,
                            absl::Span<float> parameters) {
  Rng rng(seed, "policy/init/conv");
  for (const std::vector<ConvLayer>& layers : structure.conv) {
    for (const ConvLayer& layer : layers) {
      const int64_t inputs = layer.in[0] * layer.options.kernel * layer.options.kernel;
      const double bound = 1 / std::sqrt(static_cast<double>(inputs));
      const size_t size = layer.out[0] * (inputs + 1);
      for (float& value : parameters.first(size)) {
        value = static_cast<float>(rng.Uniform(-bound, bound));
      }
      parameters.remove_prefix(size);
    }
  }
}

// What a call passes to the module besides the input.
struct Call {
  const Sequences* sequences = nullptr;
  absl::Span<float> states;
};

// The structure of the encoder names its last layer after its output field; RnnStructure counts on.
MlpStructure WithNamesOfRnn(MlpStructure encoder) {
  for (size_t i = 0; i < encoder.layers.size(); ++i) {
    encoder.layers[i].name = absl::StrCat("encoder/", i);
  }
  return encoder;
}

at::Tensor ViewOf(absl::Span<const float> values, at::IntArrayRef sizes) {
  // Torch has no tensors of const elements.
  return at::from_blob(const_cast<float*>(values.data()), sizes, at::kFloat);  // NOLINT
}

// Replaces dimension 0 of [B * n, ...] by [B, n].
at::Tensor BySequence(const at::Tensor& rows, int64_t count) {
  std::vector<int64_t> sizes = rows.sizes().vec();
  const int64_t length = sizes[0] / count;
  sizes[0] = count;
  sizes.insert(sizes.begin() + 1, length);
  return rows.reshape(sizes);
}

class TorchRnnModule : public torch::nn::Module {
 public:
  // `call` must be set during Forward().
  TorchRnnModule(const RnnStructure& structure, const Call* call)
      : structure_(structure), call_(call) {
    if (structure_.encoder.has_value()) encoder_.emplace(WithNamesOfRnn(*structure_.encoder), this);
    const RnnCellStructure& cell = structure_.cell;
    const int64_t rows = cell.gate_rows();
    cell_.push_back(register_parameter("rnn/weight_ih", at::zeros({rows, cell.in})));
    cell_.push_back(register_parameter("rnn/weight_hh", at::zeros({rows, cell.hidden})));
    if (IsLstm()) {
      cell_.push_back(register_parameter("rnn/bias", at::zeros({rows})));
      cell_.emplace_back();  // torch's second bias, which Forward() makes where the others are
    } else {
      cell_.push_back(register_parameter("rnn/bias_ih", at::zeros({rows})));
      cell_.push_back(register_parameter("rnn/bias_hh", at::zeros({rows})));
    }
    heads_.emplace(structure_.heads, this);
  }

  std::vector<at::Tensor> Forward(const std::vector<at::Tensor>& inputs) {
    if (IsLstm()) cell_.back() = at::zeros_like(cell_[2]);
    const Sequences& sequences = *call_->sequences;
    State state = StateBefore();
    // Without gradients burn-in makes no difference.
    const int64_t burn_in = at::GradMode::is_enabled() ? sequences.burn_in : 0;
    std::vector<at::Tensor> burned_in;
    if (burn_in > 0) {
      const at::NoGradGuard no_autograd;
      burned_in = RunSteps(inputs, 0, burn_in, &state);
    }
    std::vector<at::Tensor> outputs = RunSteps(inputs, burn_in, sequences.length, &state);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (burn_in > 0) outputs[i] = at::cat({burned_in[i], outputs[i]}, 1);
      outputs[i] = outputs[i].flatten(0, 1);
    }
    if (!AllStates()) WriteLastStates(state);
    return outputs;
  }

 private:
  // h, and c of an LSTM, [1, B, H] each, as torch has them.
  using State = std::vector<at::Tensor>;

  bool IsLstm() const { return structure_.cell.cell == RnnCell::kLstm; }
  int64_t num_rows() const { return call_->sequences->rows.rows(); }
  int64_t count() const { return num_rows() / call_->sequences->length; }

  // Whether the states after all rows are asked for.
  bool AllStates() const {
    return static_cast<int64_t>(call_->states.size()) == num_rows() * structure_.cell.state_size();
  }

  // Copies the state before the sequences: the caller may overwrite its memory before Backward().
  State StateBefore() const {
    const RnnCellStructure& cell = structure_.cell;
    const absl::Span<const float> given = call_->sequences->state;
    at::Tensor state = at::zeros({count(), cell.state_size()}, cell_[0].options());
    if (!given.empty()) state.copy_(ViewOf(given, state.sizes()));
    State parts;
    for (const at::Tensor& part : state.split(cell.hidden, 1)) {
      parts.push_back(part.contiguous().unsqueeze(0));
    }
    return parts;
  }

  bool AnyReset(int64_t step) const {
    const absl::Span<const uint8_t> marks = call_->sequences->is_first;
    for (size_t row = step; row < marks.size(); row += call_->sequences->length) {
      if (marks[row] != 0) return true;
    }
    return false;
  }

  void Reset(int64_t step, State* state) const {
    at::Tensor resets = at::zeros({1, count(), 1}, at::kBool);
    bool* const reset = resets.data_ptr<bool>();
    for (int64_t i = 0; i < count(); ++i) {
      reset[i] = call_->sequences->is_first[i * call_->sequences->length + step] != 0;
    }
    // A product with 0 would keep NaN.
    resets = resets.to(cell_[0].device());
    for (at::Tensor& part : *state) part = part.masked_fill(resets, 0);
  }

  // Runs steps [begin, end) of all sequences; `state` is that before and then after them. Returns
  // the outputs [B, end - begin, ...].
  std::vector<at::Tensor> RunSteps(const std::vector<at::Tensor>& inputs, int64_t begin,
                                   int64_t end, State* state) const {
    std::vector<at::Tensor> rows;
    for (const at::Tensor& input : inputs) {
      rows.push_back(BySequence(input, count()).narrow(1, begin, end - begin).flatten(0, 1));
    }
    const at::Tensor encoded = BySequence(
        encoder_.has_value() ? encoder_->Forward(rows)[0] : FlattenFields(rows), count());
    std::vector<at::Tensor> hidden;
    for (int64_t step = begin; step < end;) {
      if (AnyReset(step)) Reset(step, state);
      int64_t stop = step + 1;
      // torch's LSTM returns c after its last step only.
      const bool one_step = IsLstm() && AllStates();
      while (!one_step && stop < end && !AnyReset(stop)) ++stop;
      hidden.push_back(RunCell(encoded.narrow(1, step - begin, stop - step), state));
      if (AllStates()) WriteStates(step, hidden.back(), *state);
      step = stop;
    }
    std::vector<at::Tensor> outputs;
    for (const at::Tensor& output : heads_->Forward({at::cat(hidden, 1).flatten(0, 1)})) {
      outputs.push_back(BySequence(output, count()));
    }
    return outputs;
  }

  // Runs the cell on [B, n, in]; returns h after each step, [B, n, H].
  at::Tensor RunCell(const at::Tensor& input, State* state) const {
    const bool train = at::GradMode::is_enabled();  // or cuDNN keeps nothing for the backward pass
    at::Tensor hidden;
    if (IsLstm()) {
      std::tie(hidden, (*state)[0], (*state)[1]) =
          at::lstm(input, *state, cell_, /*has_biases=*/true, /*num_layers=*/1, /*dropout=*/0,
                   train, /*bidirectional=*/false, /*batch_first=*/true);
    } else {
      std::tie(hidden, (*state)[0]) =
          at::gru(input, (*state)[0], cell_, /*has_biases=*/true, /*num_layers=*/1, /*dropout=*/0,
                  train, /*bidirectional=*/false, /*batch_first=*/true);
    }
    return hidden;
  }

  // Writes the states after the steps from `begin` on, whose outputs of the cell are `hidden`.
  void WriteStates(int64_t begin, const at::Tensor& hidden, const State& state) const {
    const at::NoGradGuard no_autograd;
    const int64_t width = structure_.cell.hidden;
    const at::Tensor to =
        ViewOf(call_->states, {count(), call_->sequences->length, structure_.cell.state_size()})
            .narrow(1, begin, hidden.size(1));
    to.narrow(2, 0, width).copy_(hidden);
    if (IsLstm()) to.narrow(2, width, width).copy_(state[1].transpose(0, 1));
  }

  void WriteLastStates(const State& state) const {
    if (call_->states.empty()) return;
    const at::NoGradGuard no_autograd;
    ViewOf(call_->states, {count(), structure_.cell.state_size()})
        .copy_(at::cat(state, 2).squeeze(0));
  }

  const RnnStructure structure_;
  const Call* const call_;
  std::optional<TorchMlpLayers> encoder_;  // unset: the cell reads the input
  std::vector<at::Tensor> cell_;           // weights and biases of input and h, as torch has them
  std::optional<TorchMlpLayers> heads_;
};

class TorchRnn : public RecurrentNetwork, public DeviceNetwork {
 public:
  TorchRnn(RnnStructure structure, const TorchOptions& torch)
      : structure_(std::move(structure)), torch_(torch) {}

  // It must be called once, first.
  absl::Status Init() {
    // The module draws no parameters.
    DING_ASSIGN_OR_RETURN(
        network_, MakeTorchNetwork("rnn", ModuleMaker<TorchRnnModule>(structure_, &call_),
                                   structure_.input, structure_.output, /*seed=*/0, torch_));
    return absl::OkStatus();
  }

  const SpecPtr& input_spec() const override { return network_->input_spec(); }
  const SpecPtr& output_spec() const override { return network_->output_spec(); }
  absl::Span<const ParameterInfo> parameter_info() const override {
    return network_->parameter_info();
  }
  absl::Span<float> parameters() override { return network_->parameters(); }
  absl::Span<const float> parameters() const override {
    return std::as_const(*network_).parameters();
  }
  absl::Span<float> gradients() override { return network_->gradients(); }

  int64_t state_size() const override { return structure_.cell.state_size(); }

  bool on_device() const override { return AsDevice(network_.get()) != nullptr; }
  absl::StatusOr<std::unique_ptr<DeviceAdam>> MakeAdam() override {
    return AsDevice(network_.get())->MakeAdam();
  }
  absl::StatusOr<double> GradientNorm() override {
    return AsDevice(network_.get())->GradientNorm();
  }
  bool Approach(Network* online, float theta) override {
    auto* const rnn = dynamic_cast<TorchRnn*>(online);
    return rnn != nullptr && AsDevice(network_.get())->Approach(rnn->network_.get(), theta);
  }

  absl::Status InferSequences(const Sequences& sequences, const MutableColumnsView& output,
                              absl::Span<float> states) override {
    DING_RETURN_IF_ERROR(SetCall(sequences, states));
    const absl::Status status = network_->Infer(sequences.rows, output);
    call_ = Call();
    return status;
  }

  absl::Status ForwardSequences(const Sequences& sequences, const MutableColumnsView& output,
                                absl::Span<float> states) override {
    DING_RETURN_IF_ERROR(SetCall(sequences, states));
    const absl::Status status = network_->Forward(sequences.rows, output);
    call_ = Call();
    return status;
  }

  absl::Status Backward(const ColumnsView& d_output) override {
    return network_->Backward(d_output);
  }

  absl::StatusOr<std::unique_ptr<Network>> Clone() const override {
    auto clone = std::make_unique<TorchRnn>(structure_, torch_);
    DING_RETURN_IF_ERROR(clone->Init());
    std::copy(parameters().begin(), parameters().end(), clone->parameters().begin());
    return std::unique_ptr<Network>(std::move(clone));
  }

  std::string info() const override { return absl::StrCat("torch rnn ", structure_.description); }

 private:
  absl::Status SetCall(const Sequences& sequences, absl::Span<float> states) {
    DING_RETURN_IF_ERROR(
        Annotate(CheckSequences(sequences, state_size(), states), "torch network 'rnn'"));
    call_ = {&sequences, states};
    return absl::OkStatus();
  }

  const RnnStructure structure_;
  const TorchOptions torch_;
  Call call_;  // for the module
  std::unique_ptr<Network> network_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> CreateTorchMlp(const MlpOptions& options, SpecPtr input,
                                                        SpecPtr output, uint64_t seed,
                                                        const TorchOptions& torch) {
  DING_RETURN_IF_ERROR(RefuseNormalization(options, "network 'torch_mlp'"));
  DING_ASSIGN_OR_RETURN(const MlpStructure structure, MakeMlpStructure(options, input, output));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network,
                        MakeTorchNetwork(absl::StrCat("mlp ", structure.Architecture()),
                                         ModuleMaker<TorchMlp>(structure), std::move(input),
                                         std::move(output), seed, torch));
  InitializeMlpParameters(structure, seed, network->parameters());
  return network;
}

absl::StatusOr<std::unique_ptr<Network>> CreateTorchCnn(const CnnOptions& options, SpecPtr input,
                                                        SpecPtr output, uint64_t seed,
                                                        const TorchOptions& torch) {
  DING_ASSIGN_OR_RETURN(const CnnStructure structure, MakeCnnStructure(options, input, output));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network,
                        MakeTorchNetwork(absl::StrCat("cnn ", structure.Architecture()),
                                         ModuleMaker<TorchCnn>(structure), std::move(input),
                                         std::move(output), seed, torch));
  const absl::Span<float> parameters = network->parameters();
  InitializeMlpParameters(structure.mlp, seed, parameters.first(structure.mlp.num_parameters));
  InitializeConvolutions(structure, seed, parameters.subspan(structure.mlp.num_parameters));
  return network;
}

absl::StatusOr<std::unique_ptr<RecurrentNetwork>> CreateTorchRnn(const RnnOptions& options,
                                                                 SpecPtr input, SpecPtr output,
                                                                 uint64_t seed,
                                                                 const TorchOptions& torch) {
  DING_ASSIGN_OR_RETURN(RnnStructure structure,
                        MakeRnnStructure(options, std::move(input), std::move(output)));
  auto network = std::make_unique<TorchRnn>(structure, torch);
  DING_RETURN_IF_ERROR(network->Init());
  InitializeRnnParameters(structure, seed, network->parameters());
  return std::unique_ptr<RecurrentNetwork>(std::move(network));
}

}  // namespace ding
