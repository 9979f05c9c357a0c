// Measures forward and backward passes of LSTMs and GRUs, each in one thread: an encoder layer and
// a cell of H features each, and a linear head, on B sequences of T observations of 4 elements
// without resets:
//   Rnn       policy/rnn
//   RnnFloor  plain libtorch with autograd
//   TorchRnn  the torch adapter
#include <cstdint>
#include <tuple>
#include <utility>

#include "ATen/ATen.h"
#include "absl/status/status.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/rnn/rnn.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/torch/torch_device.h"
#include "ding_worker/policy/torch/torch_models.h"
#include "torch/nn/module.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/modules/rnn.h"

namespace ding {
namespace {

constexpr int64_t kInputs = 4;
constexpr int64_t kOutputs = 2;

// (cell, B, T, H): cell 0 is an LSTM, 1 a GRU.
RnnOptions OptionsOf(const benchmark::State& state) {
  RnnOptions options;
  options.cell = state.range(0) == 0 ? RnnCell::kLstm : RnnCell::kGru;
  options.hidden_size = state.range(3);
  options.mlp.encoder_hidden_size = {state.range(3)};
  options.mlp.head_layer_num = 0;
  return options;
}

BatchBuilder RandomRows(SpecPtr spec, int64_t rows) {
  auto builder = BatchBuilder::Create(std::move(spec), rows);
  DING_CHECK(builder.ok()) << builder.status();
  Rng rng(1, "benchmark");
  for (float& value : builder->column<float>(0)) value = static_cast<float>(rng.Uniform(-1, 1));
  return *std::move(builder);
}

void Measure(RecurrentNetwork* network, benchmark::State& state) {
  const int64_t rows = state.range(1) * state.range(2);
  const BatchBuilder input = RandomRows(network->input_spec(), rows);
  const BatchBuilder output = RandomRows(network->output_spec(), rows);
  Sequences sequences;
  sequences.rows = input.view();
  sequences.length = state.range(2);
  for (auto _ : state) {
    absl::Status status = network->ForwardSequences(sequences, output.view(), {});
    if (status.ok()) status = network->Backward(output.view());
    DING_CHECK(status.ok()) << status;
  }
  state.SetItemsProcessed(state.iterations() * rows);
}

void BM_Rnn(benchmark::State& state) {
  const auto network = Rnn::Create(OptionsOf(state), *MakeSpec({Box("obs", {kInputs})}),
                                   *MakeSpec({Box("q", {kOutputs})}), 0);
  DING_CHECK(network.ok()) << network.status();
  Measure(network->get(), state);
}

void BM_TorchRnn(benchmark::State& state) {
  const auto network = CreateTorchRnn(OptionsOf(state), *MakeSpec({Box("obs", {kInputs})}),
                                      *MakeSpec({Box("q", {kOutputs})}), 0);
  DING_CHECK(network.ok()) << network.status();
  Measure(network->get(), state);
}

// The same network in plain libtorch.
class BareModule : public torch::nn::Module {
 public:
  explicit BareModule(const RnnOptions& options)
      : encoder_(register_module("encoder", torch::nn::Linear(kInputs, options.hidden_size))),
        head_(register_module("head", torch::nn::Linear(options.hidden_size, kOutputs))) {
    const int64_t hidden = options.hidden_size;
    if (options.cell == RnnCell::kLstm) {
      lstm_ = register_module(
          "rnn", torch::nn::LSTM(torch::nn::LSTMOptions(hidden, hidden).batch_first(true)));
    } else {
      gru_ = register_module(
          "rnn", torch::nn::GRU(torch::nn::GRUOptions(hidden, hidden).batch_first(true)));
    }
  }

  at::Tensor Forward(const at::Tensor& input) {
    const at::Tensor encoded = at::relu(encoder_->forward(input));
    return head_->forward(lstm_.is_empty() ? std::get<0>(gru_->forward(encoded))
                                           : std::get<0>(lstm_->forward(encoded)));
  }

 private:
  torch::nn::Linear encoder_;
  torch::nn::Linear head_;
  torch::nn::LSTM lstm_{nullptr};
  torch::nn::GRU gru_{nullptr};
};

void BM_RnnFloor(benchmark::State& state) {
  SetTorchThreads(1);
  BareModule module(OptionsOf(state));
  const int64_t rows = state.range(1) * state.range(2);
  const at::Tensor input =
      at::linspace(-1, 1, rows * kInputs).view({state.range(1), state.range(2), kInputs});
  for (auto _ : state) {
    const at::Tensor output = module.Forward(input);
    module.zero_grad();
    output.backward(output.detach());
  }
  state.SetItemsProcessed(state.iterations() * rows);
}

void TrainCases(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t cell : {0, 1}) {
    benchmark->Args({cell, 64, 16, 64});
    benchmark->Args({cell, 32, 80, 256});
  }
}

BENCHMARK(BM_Rnn)->Apply(TrainCases);
BENCHMARK(BM_RnnFloor)->Apply(TrainCases);
BENCHMARK(BM_TorchRnn)->Apply(TrainCases);

}  // namespace
}  // namespace ding
