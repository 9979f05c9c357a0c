// Tests of behaviour cloning: created by the factory, and on networks that can be computed by hand.
#include "ding_worker/policy/bc/bc.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/bc/bc.pb.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/rnn/rnn.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

SpecPtr TwoElements() { return *MakeSpec({MultiDiscrete("action", {2, 3})}); }
SpecPtr Continuous() { return *MakeSpec({Box("action", {2}, {-1, 0}, {1, 4})}); }

BcConfig Config() {
  BcConfig config;
  config.mutable_model()->add_encoder_hidden_size(8);
  config.mutable_model()->set_activation(NetworkConfig::TANH);
  config.set_learning_rate(0.01);
  return config;
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const BcConfig& config, const SpecPtr& observation,
                                               const SpecPtr& action, uint64_t seed = 1,
                                               PolicyModes modes = PolicyModes()) {
  PolicyConfig policy;
  policy.set_type("bc");
  policy.mutable_params()->PackFrom(config);
  return create_policy(policy, {observation, action, seed, modes});
}

double Learn(Policy* policy, const Batch& batch, const std::string& scalar = "total_loss") {
  std::vector<LearnStep> steps;
  EXPECT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  return *steps.front().scalars.Get(scalar);
}

// Differentiates the loss of a batch by the parameters, through normalization, mask and
// distribution.
TEST(Bc, GradientsAgreeWithFiniteDifferences) {
  for (const auto& [observation, action] :
       std::vector<std::pair<SpecPtr, SpecPtr>>{{VectorObservation(), DiscreteAction()},
                                                {MaskedObservation(5), TwoElements()},
                                                {VectorObservation(), Continuous()}}) {
    BcConfig config = Config();
    config.set_normalize_obs(true);
    DING_ASSERT_OK_AND_ASSIGN(const auto made, Create(config, observation, action));
    ActorCritic& networks = dynamic_cast<BcPolicy&>(*made).networks();
    const Batch batch = MakeTransitionBatch(observation, action, 6, 1);
    networks.UpdateStatistics(batch.view());
    const int action_field = observation->size();
    const auto loss = [&, mask_field = networks.mask_field()] {
      const auto inputs = networks.Inputs(batch.view());
      EXPECT_THAT(inputs, IsOk());
      EXPECT_THAT(networks.Forward(*inputs, ActionMaskOf(batch.view(), mask_field)), IsOk());
      return networks.distribution().ImitationLoss(batch.view(), action_field, networks.d_head());
    };
    const ParameterGroup network = networks.Groups().front();
    ASSERT_EQ(network.name, "actor");
    loss();
    ASSERT_THAT(networks.Backward(), IsOk());
    const std::vector<float> gradients(network.gradients.begin(), network.gradients.end());
    SCOPED_TRACE(action->DebugString());
    ExpectGradientsOf(loss, network.parameters, gradients, 1.0f / 128, 1e-3);
  }
}

// Learns actions that are a function of the observation; the eval mode then takes these actions.
TEST(Bc, LearnsAFunctionOfTheObservation) {
  for (const SpecPtr& action : {DiscreteAction(), TwoElements(), Continuous()}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(Config(), VectorObservation(), action));
    BatchBuilder rows = *BatchBuilder::Create(
        MakeTransitionBatch(VectorObservation(), action, 1, 1).spec_ptr(), 256);
    CopyRows(MakeTransitionBatch(VectorObservation(), action, 256, 1).view(), rows.view(), 0);
    const absl::Span<const float> obs = rows.column<float>(0);
    const FieldSpec& field = action->field(0);
    const auto width = static_cast<size_t>(field.num_elements());
    for (size_t row = 0; row < 256; ++row) {
      for (size_t i = 0; i < width; ++i) {
        const float x = obs[4 * row + i];
        if (field.is_discrete()) {
          rows.column<int64_t>(1)[row * width + i] = x > 0 ? 1 : 0;
        } else {
          rows.column<float>(1)[row * width + i] = i == 0 ? x : 2 * (x + 1);
        }
      }
    }
    const Batch batch = std::move(rows).Seal(256);
    const double first = Learn(policy.get(), batch);
    for (int i = 0; i < 400; ++i) Learn(policy.get(), batch);
    EXPECT_LT(Learn(policy.get(), batch), first / 10) << action->DebugString();
    const BatchBuilder out = *BatchBuilder::Create(action, 256);
    ASSERT_THAT(policy->eval_mode()->Forward(batch.view(), {}, {}, out.view()), IsOk());
    if (field.is_discrete()) {
      EXPECT_GT(Learn(policy.get(), batch, "accuracy"), 0.97);
      int64_t wrong = 0;
      for (size_t i = 0; i < 256 * width; ++i) {
        if (out.column<int64_t>(0)[i] != batch.column<int64_t>(1)[i]) ++wrong;
      }
      EXPECT_LT(wrong, 16);
    } else {
      for (size_t i = 0; i < 256 * width; ++i) {
        EXPECT_NEAR(out.column<float>(0)[i], batch.column<float>(1)[i], i % 2 == 0 ? 0.3 : 0.6);
      }
    }
  }
}

TEST(Bc, CollectsAroundTheMeanOfABoxWithTheConfiguredDeviation) {
  BcConfig config = Config();
  config.set_collect_log_std(-20);
  DING_ASSERT_OK_AND_ASSIGN(const auto still, Create(config, VectorObservation(), Continuous()));
  config.set_collect_log_std(-1);
  DING_ASSERT_OK_AND_ASSIGN(const auto moving, Create(config, VectorObservation(), Continuous()));
  const Batch obs = MakeObservationBatch(VectorObservation(), 50, 1);
  const auto spread = [&obs](Policy* policy) {
    const BatchBuilder best = *BatchBuilder::Create(policy->eval_mode()->output_spec(), 50);
    const BatchBuilder drawn = *BatchBuilder::Create(policy->collect_mode()->output_spec(), 50);
    EXPECT_THAT(policy->eval_mode()->Forward(obs.view(), {}, {}, best.view()), IsOk());
    EXPECT_THAT(policy->collect_mode()->Forward(obs.view(), {}, {}, drawn.view()), IsOk());
    double sum = 0;
    for (size_t i = 0; i < 100; ++i) {
      sum += std::abs(best.column<float>(0)[i] - drawn.column<float>(0)[i]);
    }
    return sum / 100;
  };
  EXPECT_LT(spread(still.get()), 1e-5);
  EXPECT_GT(spread(moving.get()), 0.1);
  Learn(moving.get(), MakeTransitionBatch(VectorObservation(), Continuous(), 16, 1));
  ActorCritic& networks = dynamic_cast<BcPolicy&>(*moving).networks();
  EXPECT_THAT(networks.distribution().parameters(), testing::Each(-1.0f)) << "it is not learned";
}

TEST(Bc, NormalizesByTheRowsOfEarlierBatches) {
  BcConfig config = Config();
  config.set_normalize_obs(true);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy,
                            Create(config, VectorObservation(), DiscreteAction()));
  const Batch batch = MakeTransitionBatch(VectorObservation(), DiscreteAction(), 16, 1);
  Learn(policy.get(), batch);
  Learn(policy.get(), batch);
  StateDict model;
  ASSERT_THAT(policy->learn_mode()->SaveModel(&model), IsOk());
  EXPECT_EQ(*model.ReadInt("model/statistics/obs/count"), 32);
  BatchBuilder bad = *BatchBuilder::Create(batch.spec_ptr(), 16);
  CopyRows(batch.view(), bad.view(), 0);
  bad.column<float>(0)[0] = std::numeric_limits<float>::quiet_NaN();
  std::vector<LearnStep> steps;
  EXPECT_THAT(policy->learn_mode()->Forward(std::move(bad).Seal(16), {}, &steps),
              IsInternal("bc, learn"));
  StateDict after;
  ASSERT_THAT(policy->learn_mode()->SaveModel(&after), IsOk());
  EXPECT_EQ(*after.ReadInt("model/statistics/obs/count"), 32);
}

TEST(Bc, NamesAnIllegalAction) {
  const SpecPtr observation = MaskedObservation(3);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(Config(), observation, DiscreteAction()));
  const Batch good = MakeTransitionBatch(observation, DiscreteAction(), 4, 1);
  BatchBuilder bad = *BatchBuilder::Create(good.spec_ptr(), 4);
  CopyRows(good.view(), bad.view(), 0);
  const int64_t action = good.column<int64_t>("action")[2];
  const absl::Span<uint8_t> mask = bad.column<uint8_t>(0).subspan(2 * 3, 3);
  for (uint8_t& legal : mask) legal = 1;
  mask[static_cast<size_t>(action)] = 0;
  std::vector<LearnStep> steps;
  EXPECT_THAT(policy->learn_mode()->Forward(std::move(bad).Seal(4), {}, &steps),
              IsInvalid(absl::StrCat("action ", action, " of row 2 is illegal")));
}

TEST(Bc, IsSupervised) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy,
                            Create(Config(), VectorObservation(), DiscreteAction()));
  EXPECT_TRUE(policy->learn_mode()->attributes().supervised);
  EXPECT_THAT(policy->learn_mode()->info(), testing::StartsWith("bc on mlp"));
}

TEST(Bc, RefusesANetworkThatDoesNotFit) {
  EXPECT_THAT(BcPolicy::Create(std::make_unique<LinearNetwork>(VectorObservation(),
                                                               *MakeSpec({Box("q", {3})}), 1),
                               VectorObservation(), DiscreteAction(), {}),
              IsInvalid("actor's outputs"));
}

TEST(Bc, RefusesARecurrentNetwork) {
  EXPECT_THAT(BcPolicy::Create(*Rnn::Create(RnnOptions(), VectorObservation(),
                                            *MakeSpec({Box("logit", {3})}), 1),
                               VectorObservation(), DiscreteAction(), {}),
              IsInvalid("the network is recurrent (rnn lstm 64", "bc learns from single rows"));
}

TEST(BcFactory, ReportsAllProblemsAtOnce) {
  BcConfig config = Config();
  config.mutable_model()->set_head_layer_num(-1);
  EXPECT_THAT(Create(config, VectorObservation(), *MakeSpec({Box("action", {2})})),
              IsInvalid("policy type 'bc'", "model: MLP: head_layer_num is -1", "finite bounds"));
}

TEST(BcFactory, RefusesFieldsThatNothingReads) {
  BcConfig config = Config();
  config.set_obs_clip(5);
  config.set_collect_log_std(-1);
  EXPECT_THAT(Create(config, VectorObservation(), DiscreteAction()),
              IsInvalid("obs_clip is 5, which has no effect without normalize_obs",
                        "collect_log_std is -1, which has no effect without continuous"));
  config.set_normalize_obs(true);
  EXPECT_THAT(Create(config, VectorObservation(), Continuous()), IsOk());
}

PolicyConformanceCase Case(const std::string& name, const SpecPtr& observation,
                           const SpecPtr& action, bool normalize) {
  const auto create = [observation, action, normalize](uint64_t seed, PolicyModes modes) {
    BcConfig config = Config();
    config.set_normalize_obs(normalize);
    config.set_grad_clip_norm(normalize ? 0.5 : 0);
    return Create(config, observation, action, seed, modes);
  };
  return {name, create, observation, action, /*learns=*/true, MakeTransitionBatch, kColumnObs};
}

INSTANTIATE_TEST_SUITE_P(Bc, PolicyConformance,
                         testing::Values(Case("masked",
                                              *MakeSpec({ActionMaskSpec(3), Box("obs", {4})}),
                                              DiscreteAction(), false),
                                         Case("multi", VectorObservation(), TwoElements(), true),
                                         Case("box", VectorObservation(), Continuous(), true)),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace ding
