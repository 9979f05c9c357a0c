#include <algorithm>
#include <cmath>
#include <memory>

#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/network_test_cases.h"
#include "ding_worker/policy/torch/torch_models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr uint64_t kSeed = 7;

std::unique_ptr<Network> CreateTorch(const MlpTestCase& test_case) {
  auto network = CreateTorchMlp(test_case.options, *MakeSpec(test_case.input),
                                *MakeSpec(test_case.output), kSeed);
  EXPECT_THAT(network, IsOk());
  return *std::move(network);
}

INSTANTIATE_TEST_SUITE_P(TorchMlp, NetworkConformance,
                         testing::ValuesIn(MlpNetworkCases(CreateTorch)), NetworkCaseName);

BatchBuilder RandomRows(const SpecPtr& spec, int64_t rows, int stream) {
  return NormalRows(spec, rows, Rng(kSeed, "torch_mlp_test", stream));
}

void ExpectNear(absl::Span<const float> found, absl::Span<const float> expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-5 * std::max(1.0f, std::abs(expected[i])))
        << "element " << i;
  }
}

// The two implementations of an architecture: hand-written and by autograd.
class TorchMlpTest : public testing::TestWithParam<MlpTestCase> {};

INSTANTIATE_TEST_SUITE_P(All, TorchMlpTest, testing::ValuesIn(MlpTestCases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(TorchMlpTest, OutputsAndGradientsEqualMlp) {
  constexpr int64_t kRows = 50;
  const std::unique_ptr<Network> by_autograd = CreateTorch(GetParam());
  DING_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Network> by_hand,
      Mlp::Create(GetParam().options, by_autograd->input_spec(), by_autograd->output_spec(), 99));
  ASSERT_EQ(by_hand->parameter_info().size(), by_autograd->parameter_info().size());
  for (size_t i = 0; i < by_hand->parameter_info().size(); ++i) {
    EXPECT_EQ(by_hand->parameter_info()[i].name, by_autograd->parameter_info()[i].name);
    EXPECT_EQ(by_hand->parameter_info()[i].shape, by_autograd->parameter_info()[i].shape);
    EXPECT_EQ(by_hand->parameter_info()[i].offset, by_autograd->parameter_info()[i].offset);
  }
  std::copy(by_autograd->parameters().begin(), by_autograd->parameters().end(),
            by_hand->parameters().begin());
  const BatchBuilder input = RandomRows(by_hand->input_spec(), kRows, 1);
  const BatchBuilder d_output = RandomRows(by_hand->output_spec(), kRows, 2);
  const BatchBuilder expected = RandomRows(by_hand->output_spec(), kRows, 3);
  const BatchBuilder found = RandomRows(by_hand->output_spec(), kRows, 4);
  ASSERT_THAT(by_autograd->Forward(input.view(), expected.view()), IsOk());
  ASSERT_THAT(by_hand->Forward(input.view(), found.view()), IsOk());
  for (int field = 0; field < by_hand->output_spec()->size(); ++field) {
    ExpectNear(found.column<float>(field), expected.column<float>(field));
  }
  ASSERT_THAT(by_autograd->Backward(d_output.view()), IsOk());
  ASSERT_THAT(by_hand->Backward(d_output.view()), IsOk());
  ExpectNear(by_hand->gradients(), by_autograd->gradients());
}

TEST_P(TorchMlpTest, StartsWithTheParametersOfMlp) {
  const std::unique_ptr<Network> torch = CreateTorch(GetParam());
  DING_ASSERT_OK_AND_ASSIGN(const auto mlp, Mlp::Create(GetParam().options, torch->input_spec(),
                                                        torch->output_spec(), kSeed));
  EXPECT_TRUE(std::equal(torch->parameters().begin(), torch->parameters().end(),
                         mlp->parameters().begin(), mlp->parameters().end()));
}

TEST(TorchMlpFactoryTest, CreatesByName) {
  NetworkConfig config;
  config.set_type("torch_mlp");
  for (const int64_t width : {128, 128, 64}) config.add_encoder_hidden_size(width);
  config.set_dueling(true);
  const SpecPtr input = *MakeSpec({Box("obs", {4})});
  const SpecPtr output = *MakeSpec({Box("q", {2})});
  DING_ASSERT_OK_AND_ASSIGN(const auto network, create_network(config, input, output, 0));
  EXPECT_EQ(network->info(), "torch mlp 4-128-128-64, dueling q 64-2: 33923 parameters");
  config.add_encoder_hidden_size(-1);
  EXPECT_THAT(create_network(config, input, output, 0), IsInvalid("encoder_hidden_size[3] is -1"));
  MlpOptions options;
  options.layer_norm = true;
  EXPECT_THAT(CreateTorchMlp(options, input, output, 0),
              IsInvalid("network 'torch_mlp' has no dropout or layer normalization"));
}

}  // namespace
}  // namespace ding
