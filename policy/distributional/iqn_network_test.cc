#include "ding_worker/policy/distributional/iqn_network.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kActions = 3;
constexpr int64_t kFractions = 4;

absl::StatusOr<std::unique_ptr<IqnNetwork>> Create(
    std::vector<int64_t> encoder, bool dueling = false, int64_t cosines = 5,
    MlpOptions::Activation activation = MlpOptions::Activation::kTanh) {
  IqnOptions options;
  options.mlp.encoder_hidden_size = std::move(encoder);
  options.mlp.dueling = dueling;
  options.mlp.activation = activation;
  options.cosines = cosines;
  return IqnNetwork::Create(options, *MakeSpec({Box("obs", {4})}),
                            *MakeSpec({Box("q", {kActions, kFractions})}), 7);
}

INSTANTIATE_TEST_SUITE_P(Iqn, NetworkConformance,
                         testing::Values(NetworkCase{"OneLayer", [] { return *Create({6}); }},
                                         NetworkCase{"TwoLayers",
                                                     [] {
                                                       return *Create({7, 6});
                                                     }},
                                         NetworkCase{"Dueling",
                                                     [] {
                                                       return *Create({7, 6}, true);
                                                     }},
                                         NetworkCase{"DrawnFractions",
                                                     [] {
                                                       auto network = *Create({7, 6});
                                                       Rng rng(3, "iqn_network_test");
                                                       network->Draw(&rng);
                                                       return network;
                                                     }}),
                         NetworkCaseName);

// Computes a linear layer in double precision.
std::vector<double> Linear(const IqnNetwork& network, const std::string& name,
                           const std::vector<double>& x) {
  const ParameterInfo* weight = nullptr;
  const ParameterInfo* bias = nullptr;
  for (const ParameterInfo& info : network.parameter_info()) {
    if (info.name == name + "/weight") weight = &info;
    if (info.name == name + "/bias") bias = &info;
  }
  EXPECT_TRUE(weight != nullptr && bias != nullptr) << name;
  const absl::Span<const float> parameters = network.parameters();
  std::vector<double> y;
  for (int64_t o = 0; o < weight->shape[0]; ++o) {
    y.push_back(parameters[bias->offset + o]);
    for (size_t i = 0; i < x.size(); ++i) {
      y.back() += double{parameters[weight->offset + o * weight->shape[1] + i]} * x[i];
    }
  }
  return y;
}

std::vector<double> Tanh(std::vector<double> x) {
  for (double& value : x) value = std::tanh(value);
  return x;
}

TEST(IqnNetworkTest, OutputsEqualTheDefinition) {
  DING_ASSERT_OK_AND_ASSIGN(const auto network, Create({7, 6}));
  Rng rng(1, "iqn_network_test");
  network->Draw(&rng);
  const Batch obs = MakeObservationBatch(network->input_spec(), 3, 5);
  const BatchBuilder out = *BatchBuilder::Create(network->output_spec(), 3);
  ASSERT_THAT(network->Infer(obs.view(), out.view()), IsOk());
  for (int64_t row = 0; row < 3; ++row) {
    const absl::Span<const float> x = obs.column<float>(0).subspan(row * 4, 4);
    const std::vector<double> encoded = Tanh(
        Linear(*network, "encoder/1", Tanh(Linear(*network, "encoder/0", {x.begin(), x.end()}))));
    for (int64_t n = 0; n < kFractions; ++n) {
      std::vector<double> cosines;
      for (int i = 0; i < 5; ++i) {
        cosines.push_back(std::cos(std::acos(-1.0) * i * network->fraction()[n]));
      }
      std::vector<double> product = Tanh(Linear(*network, "cosine/0", cosines));
      for (size_t d = 0; d < product.size(); ++d) product[d] *= encoded[d];
      const std::vector<double> q = Linear(*network, "q/1", Tanh(Linear(*network, "q/0", product)));
      for (int64_t a = 0; a < kActions; ++a) {
        EXPECT_NEAR(out.column<float>(0)[(row * kActions + a) * kFractions + n], q[a], 1e-5);
      }
    }
  }
}

TEST(IqnNetworkTest, FractionsAreOneOfEachPartOrTheMiddles) {
  DING_ASSERT_OK_AND_ASSIGN(const auto network, Create({6}));
  EXPECT_THAT(network->fraction(), ElementsAre(0.125f, 0.375f, 0.625f, 0.875f));
  Rng rng(1, "iqn_network_test");
  const std::vector<float> middles(network->fraction().begin(), network->fraction().end());
  for (int draw = 0; draw < 100; ++draw) {
    network->Draw(&rng);
    for (size_t n = 0; n < kFractions; ++n) {
      EXPECT_NEAR(network->fraction()[n], middles[n], 0.125f);
      EXPECT_NE(network->fraction()[n], middles[n]);
    }
  }
  network->UseMeans();
  EXPECT_EQ(network->fraction(), absl::MakeConstSpan(middles));
}

TEST(IqnNetworkTest, RefusesOptionsThatDoNotFit) {
  EXPECT_THAT(Create({}), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("needs at least one encoder layer")));
  EXPECT_THAT(Create({6}, false, 0), StatusIs(absl::StatusCode::kInvalidArgument,
                                              HasSubstr("the number of cosines is 0")));
  EXPECT_THAT(Create({0}), StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("encoder_hidden_size[0] is 0")));
  IqnOptions options;
  options.mlp.encoder_hidden_size = {4};
  EXPECT_THAT(IqnNetwork::Create(options, *MakeSpec({Box("obs", {4})}),
                                 *MakeSpec({Box("q", {kActions})}), 7),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[actions, fractions]")));
  options.mlp.layer_norm = true;
  EXPECT_THAT(IqnNetwork::Create(options, *MakeSpec({Box("obs", {4})}),
                                 *MakeSpec({Box("q", {kActions, 8})}), 7),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("iqn network has no dropout or layer normalization")));
  DING_ASSERT_OK_AND_ASSIGN(const auto network, Create({7, 6}, true));
  EXPECT_EQ(network->info(),
            "iqn 5 cosines, 4 fractions, mlp 4-7 tanh, encoder 6, 6 tanh, dueling q 6-3: 231 "
            "parameters");
}

}  // namespace
}  // namespace ding
