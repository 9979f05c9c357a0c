// Measures the CartPole DQN network at batch 64 in the torch adapter, beside plain libtorch with
// autograd and torch::optim::Adam:
//   Train        a draw from the buffer, and BaseLearner::Train, double DQN
//   TrainFloor   the same update in plain libtorch, on the same rows each time
//   Update       forward, loss gradient, backward, Adam; the loss is half the sum of squares
//   UpdateFloor  the same in plain libtorch
//   Infer        inference on 8 rows
//   InferFloor   the same in plain libtorch
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/testing/cartpole_network.h"
#include "ding_worker/policy/torch/torch_device.h"
#include "ding_worker/policy/torch/torch_models.h"
#include "ding_worker/worker/testing/benchmark_parts.h"
#include "torch/nn/module.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/adam.h"
#include "torch/utils.h"

namespace ding {
namespace {

constexpr int64_t kBatch = 64;

BatchBuilder RandomRows(SpecPtr spec, int64_t rows) {
  auto builder = BatchBuilder::Create(std::move(spec), rows);
  DING_CHECK(builder.ok()) << builder.status();
  Rng rng(1, "benchmark");
  for (float& value : builder->column<float>(0)) value = static_cast<float>(rng.Uniform(-1, 1));
  return *std::move(builder);
}

std::unique_ptr<Network> MakeNetwork() {
  return *CreateTorchMlp(CartPoleNetwork(), CartPoleObservation(), CartPoleQ(), 0);
}

// The same network in plain libtorch.
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

void BM_Train(benchmark::State& state) {
  CartPolePipeline pipeline(LoadCartPoleConfig({"policy.params.model.type=torch_mlp"}));
  pipeline.FillBuffer(20000);
  for (auto _ : state) {
    const absl::StatusOr<Batch> batch =
        pipeline->buffer()->Sample(kBatch, pipeline->learner()->train_iter());
    DING_CHECK(batch.ok()) << batch.status();
    const absl::Status status = pipeline->learner()->Train(*batch);
    DING_CHECK(status.ok()) << status;
  }
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("aim=0.87");
}
BENCHMARK(BM_Train);

void BM_TrainFloor(benchmark::State& state) {
  SetTorchThreads(1);
  BareModule online;
  BareModule target;
  torch::optim::Adam adam(online.parameters());
  const at::Tensor obs = at::linspace(-1, 1, kBatch * 4).view({kBatch, 4});
  const at::Tensor next_obs = obs * 0.9;
  const at::Tensor action = at::arange(kBatch).remainder(2).view({kBatch, 1});
  const at::Tensor reward = at::ones({kBatch});
  const at::Tensor discount = at::full({kBatch}, 0.97);
  for (auto _ : state) {
    at::Tensor expected;
    {
      const torch::NoGradGuard no_grad;
      const at::Tensor best = online.forward(next_obs).argmax(1, true);
      expected = reward + discount * target.forward(next_obs).gather(1, best).squeeze(1);
    }
    const at::Tensor q = online.forward(obs).gather(1, action).squeeze(1);
    const at::Tensor loss = at::mse_loss(q, expected);
    adam.zero_grad();
    loss.backward();
    adam.step();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_TrainFloor);

void BM_Update(benchmark::State& state) {
  const std::unique_ptr<Network> network = MakeNetwork();
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
BENCHMARK(BM_Update);

void BM_UpdateFloor(benchmark::State& state) {
  SetTorchThreads(1);
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
BENCHMARK(BM_UpdateFloor);

void BM_Infer(benchmark::State& state) {
  const std::unique_ptr<Network> network = MakeNetwork();
  const BatchBuilder input = RandomRows(network->input_spec(), 8);
  const BatchBuilder output = RandomRows(network->output_spec(), 8);
  for (auto _ : state) {
    const absl::Status status = network->Infer(input.view(), output.view());
    DING_CHECK(status.ok()) << status;
  }
}
BENCHMARK(BM_Infer);

void BM_InferFloor(benchmark::State& state) {
  SetTorchThreads(1);
  BareModule module;
  const at::Tensor input = at::linspace(-1, 1, 8 * 4).view({8, 4});
  const torch::NoGradGuard no_grad;
  for (auto _ : state) benchmark::DoNotOptimize(module.forward(input).data_ptr());
}
BENCHMARK(BM_InferFloor);

}  // namespace
}  // namespace ding
