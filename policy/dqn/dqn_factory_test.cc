// This test is linked statically, like programs, so that a missing alwayslink is found.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Network>> CreateLinear(const NetworkConfig& config,
                                                      const SpecPtr& input, const SpecPtr& output,
                                                      uint64_t seed) {
  if (config.dueling()) return absl::InvalidArgumentError("linear cannot duel");
  return std::make_unique<LinearNetwork>(input, output, seed);
}

class DqnFactory : public testing::Test {
 protected:
  DqnFactory() {
    config_.set_type("dqn");
    params_.mutable_model()->set_type("linear");
    context_.observation = *MakeSpec({Box("obs", {4})});
    context_.action = *MakeSpec({Discrete("action", 2)});
  }
  absl::StatusOr<std::unique_ptr<Policy>> Create() {
    config_.mutable_params()->PackFrom(params_);
    return create_policy(config_, context_);
  }

  PolicyConfig config_;
  DqnConfig params_;
  PolicyContext context_;

 private:
  ScopedRegistration<NetworkCreator> linear_{&NetworkRegistry(), "linear", CreateLinear};
};

TEST_F(DqnFactory, AppliesTheConfig) {
  config_.set_batch_size(32);
  config_.set_priority(true);
  config_.set_n_sample(8);
  params_.mutable_eps()->set_type(ScheduleConfig::LINEAR);
  params_.mutable_eps()->set_decay(10);
  params_.set_learning_rate(0.5);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  EXPECT_EQ(policy->learn_mode()->attributes().batch_size, 32);
  EXPECT_TRUE(policy->learn_mode()->attributes().priority);
  EXPECT_EQ(policy->collect_mode()->attributes().n_sample, 8);
  EXPECT_DOUBLE_EQ(*policy->command_mode()->GetSettingCollect({{"envstep", 10}}).Get("eps"), 0.1);
  EXPECT_EQ(policy->learn_mode()->info(), "double dqn on linear 4-2: 10 parameters");
  params_.set_double_dqn(false);
  context_.modes.collect = false;
  DING_ASSERT_OK_AND_ASSIGN(const auto other, Create());
  EXPECT_EQ(other->collect_mode(), nullptr);
  EXPECT_EQ(other->learn_mode()->info(), "dqn on linear 4-2: 10 parameters");
}

TEST_F(DqnFactory, TheLearningRateFallsByEnvSteps) {
  params_.set_learning_rate(0.5);
  DING_ASSERT_OK_AND_ASSIGN(const auto constant, Create());
  EXPECT_FALSE(constant->command_mode()->GetSettingLearn({{"envstep", 50}}).Get("lr").has_value());
  params_.set_lr_decay_env_steps(100);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  EXPECT_DOUBLE_EQ(*policy->command_mode()->GetSettingLearn({{"envstep", 50}}).Get("lr"), 0.25);
  EXPECT_EQ(*policy->command_mode()->GetSettingLearn({{"envstep", 200}}).Get("lr"), 0);

  const Batch batch = MakeTransitionBatch(context_.observation, context_.action, 8, /*seed=*/1);
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {{"lr", 0.125}}, &steps), IsOk());
  EXPECT_EQ(*steps[0].scalars.Get("cur_lr"), 0.125);
  EXPECT_THAT(policy->learn_mode()->Forward(batch, {{"lr", -1}}, &steps),
              IsInvalid("dqn, train iteration 2"));
}

TEST_F(DqnFactory, SoftUpdateReplacesTheDefaultFrequency) {
  EXPECT_EQ(params_.target_update_freq(), TargetUpdate().freq);
  params_.set_target_update_theta(0.01);
  EXPECT_THAT(Create(), IsOk());
}

TEST_F(DqnFactory, ReportsAllProblemsAtOnce) {
  config_.set_unroll_len(4);
  params_.mutable_model()->set_dueling(true);
  context_.action = *MakeSpec({Box("action", {1}, {-1}, {1})});
  context_.observation = *MakeSpec({Box("obs/state", {4}), Box("obs/action_mask", {2})});
  EXPECT_THAT(Create(),
              IsInvalid("policy type 'dqn': ", "unroll_len is 4", "model: linear cannot duel",
                        "'obs/action_mask'", "dqn chooses among discrete actions"));
}

TEST_F(DqnFactory, RefusesADeltaOfALossThatItDoesNotUse) {
  params_.set_huber_delta(2);
  EXPECT_THAT(Create(), IsInvalid("huber_delta is 2, which has no effect without loss: HUBER"));
  params_.set_loss(DqnConfig::HUBER);
  EXPECT_THAT(Create(), IsOk());
}

TEST_F(DqnFactory, RefusesTargetUpdatesOutOfRange) {
  params_.set_target_update_freq(0);
  EXPECT_THAT(Create(), IsInvalid("target_update_freq is 0, expected at least 1"));
  params_.set_target_update_theta(1.5);
  EXPECT_THAT(Create(), IsInvalid("target_update_theta is 1.5, expected in (0, 1]"));
}

TEST_F(DqnFactory, AnUnknownNetworkListsTheLinkedOnes) {
  params_.mutable_model()->set_type("transformer");
  EXPECT_THAT(Create(), IsInvalid("'transformer'", "linear"));
}

// Tests of DQN on an MLP with a dueling head, created by the factories.

constexpr int64_t kActions = 3;

absl::StatusOr<std::unique_ptr<Policy>> Create(bool dueling, uint64_t seed, PolicyModes modes,
                                               const SpecPtr& observation = VectorObservation()) {
  DqnConfig dqn;
  dqn.mutable_model()->add_encoder_hidden_size(16);
  dqn.mutable_model()->add_encoder_hidden_size(8);
  dqn.mutable_model()->set_dueling(dueling);
  dqn.mutable_model()->set_activation(NetworkConfig::TANH);  // Smooth: finite differences hold.
  dqn.set_target_update_freq(4);
  PolicyConfig config;
  config.set_type("dqn");
  config.set_priority(true);
  config.mutable_params()->PackFrom(dqn);
  return create_policy(config, {observation, DiscreteAction(kActions), seed, modes});
}

// Returns column `name` of `batch` as a batch of observations.
Batch ObservationColumn(const Batch& batch, const char* name) {
  BatchBuilder builder = *BatchBuilder::Create(VectorObservation(), batch.rows());
  const absl::Span<const float> source = batch.column<float>(name);
  std::copy(source.begin(), source.end(), builder.column<float>(0).begin());
  return std::move(builder).Seal(batch.rows());
}

class DqnMlp : public testing::TestWithParam<bool> {};

TEST_P(DqnMlp, TheGradientAgreesWithFiniteDifferencesThroughLossAndNetwork) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(GetParam(), 5, PolicyModes()));
  Network& network = static_cast<DqnPolicy*>(policy.get())->network();
  const Batch batch = MakeTransitionBatch(VectorObservation(), DiscreteAction(kActions), 16, 9);
  const std::vector<float> before(network.parameters().begin(), network.parameters().end());
  const BatchBuilder q = *BatchBuilder::Create(network.output_spec(), 16);
  const absl::Span<const float> values = q.column<float>(0);
  const absl::Span<const int64_t> action = batch.column<int64_t>("action");

  // In the first iteration the target network equals the network.
  const Batch next_obs = ObservationColumn(batch, "next_obs");
  ASSERT_THAT(network.Infer(next_obs.view(), q.view()), IsOk());
  std::vector<float> next_value(16);
  SelectMaxValue(values, kActions, absl::MakeSpan(next_value));

  const Batch obs = ObservationColumn(batch, "obs");
  const auto loss = [&] {
    EXPECT_THAT(network.Infer(obs.view(), q.view()), IsOk());
    double sum = 0;
    for (int64_t row = 0; row < 16; ++row) {
      const double target = batch.column<float>("reward")[row] +
                            batch.column<float>("discount")[row] * next_value[row];
      sum += std::pow(values[row * kActions + action[row]] - target, 2);
    }
    return sum / 16;
  };
  std::vector<LearnStep> steps;
  const double expected_loss = loss();
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  EXPECT_NEAR(*steps[0].scalars.Get("total_loss"), expected_loss, 1e-5);

  const std::vector<float> gradient(network.gradients().begin(), network.gradients().end());
  const absl::Span<float> live = network.parameters();
  std::copy(before.begin(), before.end(), live.begin());
  ExpectGradientsOf(loss, live, gradient, 1.0f / 128, 1e-3);
}

// Sets the mask so that only action row % kActions is legal.
Batch OneLegal(Batch batch, const char* mask_name) {
  BatchBuilder builder = *BatchBuilder::Create(batch.spec_ptr(), batch.rows());
  CopyRows(batch.view(), builder.view(), 0);
  const absl::Span<uint8_t> mask = builder.column<uint8_t>(*batch.spec().Find(mask_name));
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = (i / kActions) % kActions == i % kActions;
  return std::move(builder).Seal(batch.rows());
}

TEST(DqnMask, ActsLegallyAtRandomAndGreedily) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy,
                            Create(false, 5, PolicyModes(), MaskedObservation(kActions)));
  const Batch obs =
      OneLegal(MakeObservationBatch(MaskedObservation(kActions), 60, 1), "obs/action_mask");
  const BatchBuilder out = *BatchBuilder::Create(DiscreteAction(kActions), 60);
  for (const double eps : {0.0, 1.0}) {
    ASSERT_THAT(policy->collect_mode()->Forward(obs.view(), {}, {{"eps", eps}}, out.view()),
                IsOk());
    for (int64_t row = 0; row < 60; ++row) {
      EXPECT_EQ(out.column<int64_t>(0)[row], row % kActions) << eps;
    }
  }
  ASSERT_THAT(policy->eval_mode()->Forward(obs.view(), {}, {}, out.view()), IsOk());
  for (int64_t row = 0; row < 60; ++row) EXPECT_EQ(out.column<int64_t>(0)[row], row % kActions);
  BatchBuilder none = *BatchBuilder::Create(MaskedObservation(kActions), 60);
  CopyRows(obs.view(), none.view(), 0);
  std::fill(none.column<uint8_t>(0).begin() + 6, none.column<uint8_t>(0).begin() + 9, 0);
  EXPECT_THAT(policy->eval_mode()->Forward(none.view(), {}, {}, out.view()),
              IsInvalid("row 2 has no legal action"));
}

TEST(DqnMask, BootstrapsFromLegalActionsOnly) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy,
                            Create(false, 5, PolicyModes(), MaskedObservation(kActions)));
  Network& network = static_cast<DqnPolicy*>(policy.get())->network();
  const Batch batch =
      OneLegal(MakeTransitionBatch(MaskedObservation(kActions), DiscreteAction(kActions), 16, 9),
               "next_obs/action_mask");
  BatchBuilder next = *BatchBuilder::Create(network.input_spec(), 16);
  const absl::Span<const float> source = batch.column<float>("next_obs/x");
  std::copy(source.begin(), source.end(), next.column<float>(0).begin());
  const BatchBuilder q = *BatchBuilder::Create(network.output_spec(), 16);
  ASSERT_THAT(network.Infer(next.view(), q.view()), IsOk());
  double mean = 0;
  for (int64_t row = 0; row < 16; ++row) {
    mean += q.column<float>(0)[row * kActions + row % kActions] / 16;
  }
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  EXPECT_NEAR(*steps[0].scalars.Get("target_q_value"), mean, 1e-5);
}

TEST(DqnMask, NextObsWithoutALegalActionIsAnErrorUnlessTerminated) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy,
                            Create(false, 5, PolicyModes(), MaskedObservation(kActions)));
  const Batch batch =
      MakeTransitionBatch(MaskedObservation(kActions), DiscreteAction(kActions), 4, 9);
  for (const float discount : {0.0f, 0.9f}) {
    BatchBuilder rows = *BatchBuilder::Create(batch.spec_ptr(), 4);
    CopyRows(batch.view(), rows.view(), 0);
    const absl::Span<uint8_t> mask =
        rows.column<uint8_t>(*batch.spec().Find("next_obs/action_mask"));
    std::fill(mask.begin() + 3, mask.begin() + 6, 0);
    rows.column<float>(*batch.spec().Find("discount"))[1] = discount;
    std::vector<LearnStep> steps;
    const absl::Status status = policy->learn_mode()->Forward(std::move(rows).Seal(4), {}, &steps);
    if (discount == 0) {
      EXPECT_THAT(status, IsOk());
    } else {
      EXPECT_THAT(status, IsInvalid("next_obs, row 1, has no legal action"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, DqnMlp, testing::Bool(),
                         [](const auto& info) { return info.param ? "Dueling" : "Plain"; });

}  // namespace
}  // namespace ding
