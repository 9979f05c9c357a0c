#include "ding_worker/policy/torch/torch_device.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/network_test_cases.h"
#include "ding_worker/policy/testing/recurrent_conformance.h"
#include "ding_worker/policy/torch/torch_models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr uint64_t kSeed = 7;
// As on a GPU: the parameters and all columns are copied.
const TorchOptions kCopies = {"cpu", /*copies=*/true};

std::unique_ptr<Network> CreateMlp(const MlpTestCase& test_case, const TorchOptions& torch) {
  auto network = CreateTorchMlp(test_case.options, *MakeSpec(test_case.input),
                                *MakeSpec(test_case.output), kSeed, torch);
  EXPECT_THAT(network, IsOk());
  return *std::move(network);
}

std::unique_ptr<Network> CreateMlpWithCopies(const MlpTestCase& test_case) {
  return CreateMlp(test_case, kCopies);
}

std::unique_ptr<RecurrentNetwork> CreateRnnWithCopies(const RnnTestCase& test_case) {
  auto network = CreateTorchRnn(test_case.options, *MakeSpec(test_case.mlp.input),
                                *MakeSpec(test_case.mlp.output), kSeed, kCopies);
  EXPECT_THAT(network, IsOk());
  return *std::move(network);
}

INSTANTIATE_TEST_SUITE_P(MlpWithCopies, NetworkConformance,
                         testing::ValuesIn(MlpNetworkCases(CreateMlpWithCopies)), NetworkCaseName);
INSTANTIATE_TEST_SUITE_P(RnnWithCopies, NetworkConformance,
                         testing::ValuesIn(RnnNetworkCases(CreateRnnWithCopies)), NetworkCaseName);
INSTANTIATE_TEST_SUITE_P(RnnWithCopies, RecurrentConformance,
                         testing::ValuesIn(RnnRecurrentCases(CreateRnnWithCopies)),
                         RecurrentCaseName);

// The bytes of outputs and gradients, of two updates by a fixed step.
TEST(TorchDeviceTest, CopiesComputeTheSameAsNetworksInPlace) {
  constexpr int64_t kRows = 20;
  for (const MlpTestCase& test_case : MlpTestCases()) {
    const std::unique_ptr<Network> in_place = CreateMlp(test_case, {});
    const std::unique_ptr<Network> copying = CreateMlp(test_case, kCopies);
    const BatchBuilder input = NormalRows(in_place->input_spec(), kRows, Rng(kSeed, "input"));
    const BatchBuilder d_output = NormalRows(in_place->output_spec(), kRows, Rng(kSeed, "d"));
    std::vector<std::vector<float>> found;
    for (Network* const network : {in_place.get(), copying.get()}) {
      const BatchBuilder output = NormalRows(network->output_spec(), kRows, Rng(kSeed, "output"));
      for (int update = 0; update < 2; ++update) {
        ASSERT_THAT(network->Forward(input.view(), output.view()), IsOk());
        ASSERT_THAT(network->Backward(d_output.view()), IsOk());
        const absl::Span<float> parameters = network->parameters();
        for (size_t i = 0; i < parameters.size(); ++i) {
          parameters[i] -= 0.1f * network->gradients()[i];
        }
      }
      const absl::Span<const float> first = output.column<float>(0);
      found.emplace_back(first.begin(), first.end());
      found.emplace_back(network->gradients().begin(), network->gradients().end());
      found.emplace_back(network->parameters().begin(), network->parameters().end());
    }
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i], found[i + 3]) << test_case.name;
  }
}

TEST(TorchDeviceTest, RefusesNamesThatAreNone) {
  EXPECT_THAT(CheckTorchDevice("cpu"), IsOk());
  for (const char* const name : {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:+1",
                                 "cuda: 1", "cuda:1.5", "cuda:128", "cuda:99999999999"}) {
    EXPECT_THAT(CheckTorchDevice(name),
                IsInvalid(absl::StrCat("device is '", name, "', expected 'cpu', or")));
  }
}

TEST(TorchDeviceTest, RefusesGpusThatAreNotThere) {
  const int gpus = CountTorchGpus();
  EXPECT_THAT(CheckTorchDevice(absl::StrCat("cuda:", gpus)),
              IsInvalid(gpus == 0 ? "this libtorch has no CUDA" : "this machine has "));
  if (gpus > 0) {
    EXPECT_THAT(CheckTorchDevice("cuda"), IsOk());
    EXPECT_THAT(CheckTorchDevice(absl::StrCat("cuda:", gpus - 1)), IsOk());
  }
}

TEST(TorchDeviceTest, NetworksTakeTheDeviceOfTheirConfig) {
  const SpecPtr input = *MakeSpec({Box("obs", {4})});
  const SpecPtr picture = *MakeSpec({Box("obs", {1, 4, 4})});
  const SpecPtr output = *MakeSpec({Box("q", {2})});
  NetworkConfig config;
  config.set_device("cuda:100");
  config.add_encoder_hidden_size(8);
  for (const char* const type : {"torch_mlp", "torch_rnn", "torch_cnn"}) {
    config.set_type(type);
    config.clear_conv();
    const bool convolves = config.type() == "torch_cnn";
    if (convolves) config.add_conv()->set_channels(2);
    if (convolves) config.mutable_conv(0)->set_kernel(2);
    EXPECT_THAT(create_network(config, convolves ? picture : input, output, 0),
                IsInvalid("device is 'cuda:100'"))
        << type;
  }
  for (const char* const type : {"mlp", "rnn"}) {
    config.set_type(type);
    config.clear_conv();
    EXPECT_THAT(create_network(config, input, output, 0),
                IsInvalid(absl::StrCat("network '", type,
                                       "' computes on the CPU; found device 'cuda:100', "
                                       "expected 'cpu', or a network of libtorch")));
  }
}

}  // namespace
}  // namespace ding
