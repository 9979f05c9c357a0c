// This test is linked statically, like programs, so that a missing alwayslink is found.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/distributional/iqn_network.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Policy>> Create(const std::string& type, const std::string& message,
                                               const std::string& params,
                                               const std::string& run = "",
                                               SpecPtr observation = VectorObservation()) {
  PolicyConfig config;
  DING_CHECK(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("type: '", type, "' ", run, " params { [type.googleapis.com/ding.", message,
                   "] { ", params, " } }"),
      &config));
  PolicyContext context;
  context.observation = observation;
  context.action = DiscreteAction();
  context.seed = 4;
  return create_policy(config, context);
}

TEST(DistributionalFactory, SaysWhatItIs) {
  DING_ASSERT_OK_AND_ASSIGN(const auto c51, Create("c51", "C51Config", ""));
  EXPECT_THAT(c51->learn_mode()->info(), HasSubstr("double c51 on mlp 4-128-128-64, q 64-153"));
  DING_ASSERT_OK_AND_ASSIGN(
      const auto rainbow,
      Create("rainbow", "RainbowConfig", "dqn { model { dueling: true } } atoms: 11"));
  EXPECT_THAT(rainbow->learn_mode()->info(),
              HasSubstr("double rainbow on noisy mlp 4-128-128-64, dueling q 64-33: "));
  DING_ASSERT_OK_AND_ASSIGN(const auto qrdqn,
                            Create("qrdqn", "QrdqnConfig", "dqn { double_dqn: false }"));
  EXPECT_THAT(qrdqn->learn_mode()->info(), HasSubstr("qrdqn on mlp 4-128-128-64, q 64-600"));
  DING_ASSERT_OK_AND_ASSIGN(const auto iqn, Create("iqn", "IqnConfig", ""));
  EXPECT_THAT(iqn->learn_mode()->info(), HasSubstr("double iqn on iqn 64 cosines, 32 fractions"));
}

TEST(DistributionalFactory, RainbowExploresByNoiseAndWithoutNoiseByEpsilon) {
  DING_ASSERT_OK_AND_ASSIGN(const auto noisy, Create("rainbow", "RainbowConfig", ""));
  EXPECT_EQ(*noisy->command_mode()->GetSettingCollect({{"envstep", 0}}).Get("eps"), 0);
  const std::string eps = "dqn { eps { start: 0.5 } } noise_deviation: ";
  EXPECT_THAT(Create("rainbow", "RainbowConfig", eps + "0.5"),
              IsInvalid("dqn.eps (type, start, end, decay) has no effect, because noise "
                        "explores for rainbow"));
  DING_ASSERT_OK_AND_ASSIGN(const auto plain, Create("rainbow", "RainbowConfig", eps + "0"));
  EXPECT_EQ(*plain->command_mode()->GetSettingCollect({{"envstep", 0}}).Get("eps"), 0.5);
  EXPECT_THAT(plain->learn_mode()->info(), testing::Not(HasSubstr("noisy")));
}

// Returns the actions for some observations, in so many calls.
std::vector<int64_t> Act(Policy* policy, bool collect, int calls) {
  const Batch obs = MakeObservationBatch(VectorObservation(), 64, 3);
  const BatchBuilder out = *BatchBuilder::Create(DiscreteAction(), 64);
  const std::vector<int> env_ids(64);
  std::vector<int64_t> actions;
  for (int call = 0; call < calls; ++call) {
    if (collect) {
      EXPECT_THAT(policy->collect_mode()->Forward(obs.view(), env_ids, {{"eps", 0}}, out.view()),
                  IsOk());
    } else {
      EXPECT_THAT(policy->eval_mode()->Forward(obs.view(), env_ids, {}, out.view()), IsOk());
    }
    const absl::Span<const int64_t> column = out.column<int64_t>(0);
    actions.insert(actions.end(), column.begin(), column.end());
  }
  return actions;
}

TEST(DistributionalFactory, NoiseChangesTheActionsOfTheCollectModeOnly) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy,
                            Create("rainbow", "RainbowConfig", "noise_deviation: 2"));
  const std::vector<int64_t> eval = Act(policy.get(), false, 1);
  const std::vector<int64_t> collect = Act(policy.get(), true, 2);
  EXPECT_NE(std::vector<int64_t>(collect.begin(), collect.begin() + 64),
            std::vector<int64_t>(collect.begin() + 64, collect.end()));
  EXPECT_EQ(Act(policy.get(), false, 1), eval);
}

TEST(DistributionalFactory, TargetAndPrioritiesAreThoseOfTheHead) {
  for (const auto& [type, message] : std::vector<std::pair<std::string, std::string>>{
           {"c51", "C51Config"}, {"qrdqn", "QrdqnConfig"}, {"iqn", "IqnConfig"}}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(type, message, "", "priority: true"));
    std::vector<LearnStep> steps;
    const Batch batch = MakeTransitionBatch(VectorObservation(), DiscreteAction(), 16, 1);
    ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
    ASSERT_EQ(steps[0].priority.size(), 16u);
    for (const float priority : steps[0].priority) EXPECT_GT(priority, 0) << type;
    EXPECT_TRUE(steps[0].scalars.Get("target_q_value").has_value());
  }
}

TEST(DistributionalFactory, BootstrapsAndActsOnLegalActionsOnly) {
  for (const auto& [type, message] : std::vector<std::pair<std::string, std::string>>{
           {"rainbow", "RainbowConfig"}, {"iqn", "IqnConfig"}}) {
    const SpecPtr masked = MaskedObservation(3);
    DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(type, message, "", "", masked));
    std::vector<LearnStep> steps;
    EXPECT_THAT(policy->learn_mode()->Forward(MakeTransitionBatch(masked, DiscreteAction(), 16, 1),
                                              {}, &steps),
                IsOk());
    const Batch obs = MakeObservationBatch(masked, 64, 3);
    const BatchBuilder out = *BatchBuilder::Create(DiscreteAction(), 64);
    ASSERT_THAT(policy->eval_mode()->Forward(obs.view(), {}, {}, out.view()), IsOk());
    for (size_t row = 0; row < 64; ++row) {
      const auto action = static_cast<size_t>(out.column<int64_t>(0)[row]);
      EXPECT_EQ(obs.column<uint8_t>("obs/action_mask")[row * 3 + action], 1) << type << row;
    }
  }
}

TEST(DistributionalFactory, ReportsAllProblemsAtOnce) {
  EXPECT_THAT(
      Create("rainbow", "RainbowConfig",
             "dqn { learning_rate: -1 loss: HUBER model { type: 'mpl' } } v_min: 3 v_max: 2 "
             "atoms: 1 noise_deviation: -1",
             "unroll_len: 4 batch_size: 0"),
      IsInvalid("policy type 'rainbow': batch_size is 0",
                "unroll_len is 4, but rainbow learns from single rows", "dqn.learning_rate is -1",
                "dqn.loss and dqn.huber_delta have no effect", "v_min is 3 and v_max 2",
                "atoms is 1, must be in 2..", "noise_deviation is -1", "dqn.model: "));
  EXPECT_THAT(Create("qrdqn", "QrdqnConfig", "quantiles: 0 kappa: 0"),
              IsInvalid("quantiles is 0", "kappa is 0"));
  EXPECT_THAT(
      Create("iqn", "IqnConfig", "fractions: 5000 cosines: 0 dqn { model { type: 'torch_mlp' } }"),
      IsInvalid("fractions is 5000", "cosines is 0", "its type is 'torch_mlp'", "must be 'mlp'"));
}

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
  EXPECT_THAT(Create({}), IsInvalid("needs at least one encoder layer"));
  EXPECT_THAT(Create({6}, false, 0), IsInvalid("the number of cosines is 0"));
  EXPECT_THAT(Create({0}), IsInvalid("encoder_hidden_size[0] is 0"));
  IqnOptions options;
  options.mlp.encoder_hidden_size = {4};
  EXPECT_THAT(IqnNetwork::Create(options, *MakeSpec({Box("obs", {4})}),
                                 *MakeSpec({Box("q", {kActions})}), 7),
              IsInvalid("[actions, fractions]"));
  options.mlp.layer_norm = true;
  EXPECT_THAT(IqnNetwork::Create(options, *MakeSpec({Box("obs", {4})}),
                                 *MakeSpec({Box("q", {kActions, 8})}), 7),
              IsInvalid("iqn network has no dropout or layer normalization"));
  DING_ASSERT_OK_AND_ASSIGN(const auto network, Create({7, 6}, true));
  EXPECT_EQ(network->info(),
            "iqn 5 cosines, 4 fractions, mlp 4-7 tanh, encoder 6, 6 tanh, dueling q 6-3: 231 "
            "parameters");
}

}  // namespace
}  // namespace ding
