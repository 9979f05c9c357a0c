// One update (forward, loss gradient, backward, Adam) of the CartPole DQN network at batch 64:
//   by Mlp; by the same architecture through the torch adapter; by libtorch alone, with autograd
//   and torch::optim::Adam. And one inference of 8 rows.
#include <memory>
#include <string>
#include <vector>

#include "ATen/ATen.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/torch/torch_mlp.h"
#include "torch/nn/module.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/adam.h"

namespace ding {
namespace {

constexpr int64_t kBatch = 64;

MlpOptions Options() {
  MlpOptions options;
  options.encoder_hidden_size = {128, 128, 64};
  options.dueling = true;
  return options;
}

BatchBuilder RandomRows(SpecPtr spec, int64_t rows) {
  auto builder = BatchBuilder::Create(std::move(spec), rows);
  DING_CHECK(builder.ok()) << builder.status();
  Rng rng(1, "benchmark");
  for (float& value : builder->column<float>(0)) value = static_cast<float>(rng.Uniform(-1, 1));
  return *std::move(builder);
}

std::unique_ptr<Network> MakeNetwork(bool torch) {
  const SpecPtr input = *MakeSpec({Box("obs", {4})});
  const SpecPtr output = *MakeSpec({Box("q", {2})});
  if (torch) return *CreateTorchMlp(Options(), input, output, 0);
  return *Mlp::Create(Options(), input, output, 0);
}

// The loss is half the sum of squares of the outputs: its gradient is the outputs.
void Update(benchmark::State& state, bool torch) {
  const std::unique_ptr<Network> network = MakeNetwork(torch);
  auto adam = Adam::Create(AdamOptions(), network->parameters().size());
  DING_CHECK(adam.ok()) << adam.status();
  const BatchBuilder input = RandomRows(network->input_spec(), kBatch);
  const BatchBuilder output = RandomRows(network->output_spec(), kBatch);
  for (auto _ : state) {
    absl::Status status = network->Forward(input.view(), output.view());
    if (status.ok()) status = network->Backward(output.view());
    if (status.ok()) status = adam->Step(network->gradients(), network->parameters());
    DING_CHECK(status.ok()) << status;
  }
}
void BM_UpdateMlp(benchmark::State& state) { Update(state, false); }
void BM_UpdateTorchAdapter(benchmark::State& state) { Update(state, true); }

// The same network as one would write it for libtorch.
class BareModule : public torch::nn::Module {
 public:
  BareModule() {
    const int widths[][2] = {{4, 128}, {128, 128}, {128, 64}, {64, 64}, {64, 2}, {64, 64}, {64, 1}};
    for (const auto& width : widths) {
      layers_.push_back(
          register_module(std::to_string(layers_.size()), torch::nn::Linear(width[0], width[1])));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (int i = 0; i < 3; ++i) x = at::relu(layers_[i]->forward(x));
    const at::Tensor advantage = layers_[4]->forward(at::relu(layers_[3]->forward(x)));
    const at::Tensor value = layers_[6]->forward(at::relu(layers_[5]->forward(x)));
    return value + advantage - advantage.mean(1, true);
  }

 private:
  std::vector<torch::nn::Linear> layers_;
};

void BM_UpdateBareLibtorch(benchmark::State& state) {
  MakeNetwork(true);  // Sets the number of threads.
  BareModule module;
  torch::optim::Adam adam(module.parameters());
  const at::Tensor input = at::linspace(-1, 1, kBatch * 4).view({kBatch, 4});
  for (auto _ : state) {
    const at::Tensor output = module.forward(input);
    adam.zero_grad();
    output.backward(output.detach());
    adam.step();
  }
}

void Infer(benchmark::State& state, bool torch) {
  const std::unique_ptr<Network> network = MakeNetwork(torch);
  const BatchBuilder input = RandomRows(network->input_spec(), 8);
  const BatchBuilder output = RandomRows(network->output_spec(), 8);
  for (auto _ : state) {
    const absl::Status status = network->Infer(input.view(), output.view());
    DING_CHECK(status.ok()) << status;
  }
}
void BM_InferMlp(benchmark::State& state) { Infer(state, false); }
void BM_InferTorchAdapter(benchmark::State& state) { Infer(state, true); }

BENCHMARK(BM_UpdateMlp);
BENCHMARK(BM_UpdateTorchAdapter);
BENCHMARK(BM_UpdateBareLibtorch);
BENCHMARK(BM_InferMlp);
BENCHMARK(BM_InferTorchAdapter);

}  // namespace
}  // namespace ding
