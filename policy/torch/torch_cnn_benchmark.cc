// Measures the network of worker/configs/orchard_ppo.textproto as torch_cnn, beside plain libtorch:
//   Update/N       forward, backward and Adam on N pictures of bytes; the loss is half the sum of
//                  squares
//   UpdateFloor/N  the same in plain libtorch, with torch::optim::Adam
//   Infer/N        inference on N pictures
//   InferFloor/N   the same in plain libtorch
#include <cstdint>
#include <memory>
#include <utility>

#include "ATen/ATen.h"
#include "absl/status/status.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/torch/cnn_structure.h"
#include "ding_worker/policy/torch/torch_device.h"
#include "ding_worker/policy/torch/torch_models.h"
#include "torch/nn/module.h"
#include "torch/nn/modules/conv.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/adam.h"
#include "torch/utils.h"

namespace ding {
namespace {

std::unique_ptr<Network> MakeNetwork() {
  CnnOptions options;
  options.conv = {{16, 3}, {16, 3}};
  options.mlp.encoder_hidden_size = {64};
  options.mlp.head_layer_num = 0;
  FieldSpec picture = Box("obs", {1, 10, 10});
  picture.dtype = DType::kUint8;
  auto network = CreateTorchCnn(options, *MakeSpec({picture}),
                                *MakeSpec({Box("logit", {3}), Box("value", {})}), 0);
  DING_CHECK(network.ok()) << network.status();
  return *std::move(network);
}

BatchBuilder Rows(const SpecPtr& spec, int64_t rows) {
  auto builder = BatchBuilder::Create(spec, rows);
  DING_CHECK(builder.ok()) << builder.status();
  return *std::move(builder);
}

BatchBuilder Pictures(const Network& network, int64_t rows) {
  BatchBuilder pictures = Rows(network.input_spec(), rows);
  Rng rng(1, "benchmark");
  for (uint8_t& pixel : pictures.column<uint8_t>(0)) {
    pixel = static_cast<uint8_t>(rng.UniformInt(256));
  }
  return pictures;
}

// The same network in plain libtorch.
class BareModule : public torch::nn::Module {
 public:
  BareModule()
      : conv1_(register_module("conv1", torch::nn::Conv2d(1, 16, 3))),
        conv2_(register_module("conv2", torch::nn::Conv2d(16, 16, 3))),
        encoder_(register_module("encoder", torch::nn::Linear(16 * 6 * 6, 64))),
        logit_(register_module("logit", torch::nn::Linear(64, 3))),
        value_(register_module("value", torch::nn::Linear(64, 1))) {}

  std::pair<at::Tensor, at::Tensor> Forward(const at::Tensor& bytes) {
    at::Tensor x = bytes.to(at::kFloat) / 255;
    x = at::relu(conv2_->forward(at::relu(conv1_->forward(x))));
    x = at::relu(encoder_->forward(x.flatten(1)));
    return {logit_->forward(x), value_->forward(x).squeeze(1)};
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear encoder_;
  torch::nn::Linear logit_;
  torch::nn::Linear value_;
};

at::Tensor BarePictures(int64_t rows) { return at::randint(256, {rows, 1, 10, 10}, at::kByte); }

void BM_Update(benchmark::State& state) {
  const std::unique_ptr<Network> network = MakeNetwork();
  auto adam = Adam::Create(AdamOptions(), network->parameters().size());
  DING_CHECK(adam.ok()) << adam.status();
  const BatchBuilder input = Pictures(*network, state.range(0));
  const BatchBuilder output = Rows(network->output_spec(), state.range(0));
  for (auto _ : state) {
    absl::Status status = network->Forward(input.view(), output.view());
    if (status.ok()) status = network->Backward(output.view());
    if (status.ok()) status = adam->Step(network->gradients(), network->parameters());
    DING_CHECK(status.ok()) << status;
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetLabel("aim=0.87");
}
BENCHMARK(BM_Update)->Arg(256);

void BM_UpdateFloor(benchmark::State& state) {
  SetTorchThreads(1);
  BareModule module;
  torch::optim::Adam adam(module.parameters());
  const at::Tensor input = BarePictures(state.range(0));
  for (auto _ : state) {
    const auto [logit, value] = module.Forward(input);
    adam.zero_grad();
    ((logit * logit).sum() / 2 + (value * value).sum() / 2).backward();
    adam.step();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_UpdateFloor)->Arg(256);

void BM_Infer(benchmark::State& state) {
  const std::unique_ptr<Network> network = MakeNetwork();
  const BatchBuilder input = Pictures(*network, state.range(0));
  const BatchBuilder output = Rows(network->output_spec(), state.range(0));
  for (auto _ : state) {
    const absl::Status status = network->Infer(input.view(), output.view());
    DING_CHECK(status.ok()) << status;
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetLabel("aim=0.87");
}
BENCHMARK(BM_Infer)->Arg(16);

void BM_InferFloor(benchmark::State& state) {
  SetTorchThreads(1);
  BareModule module;
  const at::Tensor input = BarePictures(state.range(0));
  const torch::NoGradGuard no_grad;
  for (auto _ : state) benchmark::DoNotOptimize(module.Forward(input).first.data_ptr());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_InferFloor)->Arg(16);

}  // namespace
}  // namespace ding
