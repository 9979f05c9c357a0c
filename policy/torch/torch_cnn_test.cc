#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/torch/torch_models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr uint64_t kSeed = 7;

FieldSpec Picture(const char* name, Shape shape) {
  FieldSpec field = Box(name, std::move(shape));
  field.dtype = DType::kUint8;
  return field;
}

CnnOptions Options(std::vector<ConvOptions> conv, MlpOptions::Activation activation) {
  CnnOptions options;
  options.conv = std::move(conv);
  options.mlp.encoder_hidden_size = {10};
  options.mlp.head_layer_num = 0;
  options.mlp.activation = activation;
  return options;
}

std::unique_ptr<Network> Create(const CnnOptions& options, std::vector<FieldSpec> input,
                                std::vector<FieldSpec> output, uint64_t seed = kSeed) {
  auto network =
      CreateTorchCnn(options, *MakeSpec(std::move(input)), *MakeSpec(std::move(output)), seed);
  EXPECT_THAT(network, IsOk());
  return *std::move(network);
}

std::unique_ptr<Network> Bytes() {
  return Create(Options({{3, 3, 1, 1}, {4, 2, 2}}, MlpOptions::Activation::kTanh),
                {Picture("obs", {2, 6, 5})}, {Box("logit", {3}), Box("value", {})});
}

std::unique_ptr<Network> FloatsDueling() {
  CnnOptions options = Options({{5, 4, 2}}, MlpOptions::Activation::kTanh);
  options.mlp.dueling = true;
  options.mlp.head_layer_num = 1;
  return Create(options, {Box("obs", {1, 8, 8})}, {Box("q", {4})});
}

std::unique_ptr<Network> PicturesAndVector() {
  return Create(
      Options({{3, 2}, {2, 2}}, MlpOptions::Activation::kTanh),
      {Box("obs/speed", {3}), Picture("obs/left", {1, 4, 4}), Picture("obs/right", {3, 3, 5})},
      {Box("q", {2})});
}

INSTANTIATE_TEST_SUITE_P(TorchCnn, NetworkConformance,
                         testing::Values(NetworkCase{"Bytes", Bytes},
                                         NetworkCase{"FloatsDueling", FloatsDueling},
                                         NetworkCase{"PicturesAndVector", PicturesAndVector}),
                         NetworkCaseName);

// Returns the parameters of a network by name.
absl::Span<const float> Parameter(const Network& network, const std::string& name) {
  for (const ParameterInfo& info : network.parameter_info()) {
    if (info.name == name)
      return network.parameters().subspan(info.offset, NumElements(info.shape));
  }
  ADD_FAILURE() << "there is no parameter " << name;
  return {};
}

// Checks stride, padding, the order of channels and features, and the scale of bytes against the
// definition.
TEST(TorchCnnTest, EqualsTheDefinitionOfConvolutions) {
  constexpr int kChannels = 2, kRows = 5, kColumns = 4, kOut = 3, kKernel = 3;
  constexpr int kOutRows = 3, kOutColumns = 2;  // with stride 2 and padding 1
  CnnOptions options = Options({{kOut, kKernel, 2, 1}}, MlpOptions::Activation::kRelu);
  options.mlp.encoder_hidden_size.clear();
  const auto network =
      Create(options, {Picture("obs", {kChannels, kRows, kColumns})}, {Box("q", {1})});
  const BatchBuilder input = *BatchBuilder::Create(network->input_spec(), 1);
  Rng rng(kSeed, "torch_cnn_test");
  const absl::Span<uint8_t> pixels = input.column<uint8_t>(0);
  for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(rng.UniformInt(256));

  const absl::Span<const float> weight = Parameter(*network, "conv/0/weight");
  const absl::Span<const float> bias = Parameter(*network, "conv/0/bias");
  const absl::Span<const float> head = Parameter(*network, "q/0/weight");
  double expected = Parameter(*network, "q/0/bias")[0];
  int feature = 0;
  for (int out = 0; out < kOut; ++out) {
    for (int out_row = 0; out_row < kOutRows; ++out_row) {
      for (int out_column = 0; out_column < kOutColumns; ++out_column) {
        double sum = bias[out];
        for (int in = 0; in < kChannels; ++in) {
          for (int i = 0; i < kKernel * kKernel; ++i) {
            const int row = 2 * out_row - 1 + i / kKernel;
            const int column = 2 * out_column - 1 + i % kKernel;
            if (row < 0 || row >= kRows || column < 0 || column >= kColumns) continue;
            sum += double{weight[(out * kChannels + in) * kKernel * kKernel + i]} *
                   pixels[(in * kRows + row) * kColumns + column] / 255;
          }
        }
        expected += head[feature++] * std::max(sum, 0.0);
      }
    }
  }
  const BatchBuilder output = *BatchBuilder::Create(network->output_spec(), 1);
  ASSERT_THAT(network->Infer(input.view(), output.view()), IsOk());
  EXPECT_NEAR(output.column<float>(0)[0], expected, 1e-5);
}

TEST(TorchCnnTest, DrawsParametersFromTheSeedWithinTheirBounds) {
  const auto make = [](uint64_t seed) {
    return Create(Options({{64, 5}}, MlpOptions::Activation::kRelu), {Picture("obs", {2, 8, 8})},
                  {Box("q", {2})}, seed);
  };
  const auto network = make(1);
  EXPECT_EQ(network->parameters(), make(1)->parameters());
  EXPECT_NE(network->parameters(), make(2)->parameters());
  const float bound = 1 / std::sqrt(2.0f * 5 * 5);
  float largest = 0;
  for (const float value : Parameter(*network, "conv/0/weight")) {
    largest = std::max(largest, std::abs(value));
  }
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.99f * bound) << "of 3,200 values";
  EXPECT_THAT(Parameter(*network, "conv/0/bias"), testing::Each(testing::Ne(0.0f)));
}

TEST(TorchCnnTest, EachPictureHasConvolutionsOfItsOwn) {
  const auto network = PicturesAndVector();
  EXPECT_EQ(Parameter(*network, "obs/left/conv/0/weight").size(), 3 * 1 * 2 * 2);
  EXPECT_EQ(Parameter(*network, "obs/right/conv/0/weight").size(), 3 * 3 * 2 * 2);
}

TEST(TorchCnnFactoryTest, CreatesByName) {
  NetworkConfig config;
  config.set_type("torch_cnn");
  config.add_encoder_hidden_size(64);
  ConvConfig* conv = config.add_conv();
  conv->set_channels(16);
  conv->set_kernel(3);
  conv = config.add_conv();
  conv->set_channels(8);
  conv->set_kernel(4);
  conv->set_stride(2);
  conv->set_padding(1);
  const SpecPtr input = *MakeSpec({Picture("obs", {1, 10, 10})});
  const SpecPtr output = *MakeSpec({Box("q", {3})});
  DING_ASSERT_OK_AND_ASSIGN(const auto network, create_network(config, input, output, 0));
  EXPECT_EQ(network->info(),
            "torch cnn 1x10x10-16x8x8-8x4x4, mlp 128-64, q 64-3: 14827 parameters");
  conv->set_kernel(11);
  EXPECT_THAT(create_network(config, input, output, 0),
              IsInvalid("input 'obs' uint8[1, 10, 10]: conv[1] has kernel 11"));
}

}  // namespace
}  // namespace ding
