// Tests of A2C policies that the factories create.
#include <algorithm>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/a2c/a2c.pb.h"
#include "ding_worker/policy/actor_critic/testing/recurrent_run.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

A2cConfig Config() {
  A2cConfig config;
  config.mutable_actor_critic()->mutable_model()->add_encoder_hidden_size(8);
  config.mutable_actor_critic()->mutable_critic()->add_encoder_hidden_size(8);
  config.mutable_actor_critic()->set_learning_rate(0.01);
  return config;
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const A2cConfig& config, uint64_t seed,
                                               PolicyModes modes) {
  PolicyConfig policy;
  policy.set_type("a2c");
  policy.set_batch_size(4);
  policy.mutable_params()->PackFrom(config);
  return create_policy(policy, {VectorObservation(), DiscreteAction(), seed, modes});
}

TEST(A2c, TakesOneStepOnAllRows) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(Config(), 1, PolicyModes()));
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(
                  MakeOnPolicyBatch(VectorObservation(), DiscreteAction(), 20, 1), {}, &steps),
              IsOk());
  EXPECT_EQ(steps.size(), 1u);
  EXPECT_TRUE(policy->learn_mode()->attributes().on_policy);
  EXPECT_THAT(policy->learn_mode()->info(), testing::StartsWith("a2c on mlp"));
}

// The policy gradient makes actions of positive advantage more probable and others less.
TEST(A2c, MovesProbabilitiesByTheAdvantage) {
  for (const float sign : {1.0f, -1.0f}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(Config(), 1, PolicyModes()));
    BatchBuilder rows = *BatchBuilder::Create(
        MakeOnPolicyBatch(VectorObservation(), DiscreteAction(), 1, 1).spec_ptr(), 1);
    CopyRows(MakeOnPolicyBatch(VectorObservation(), DiscreteAction(), 1, 1).view(), rows.view(), 0);
    rows.column<float>(*rows.spec().Find("adv"))[0] = sign;
    const int64_t action = rows.column<int64_t>(1)[0];
    const Batch batch = std::move(rows).Seal(1);
    const BatchBuilder out = *BatchBuilder::Create(policy->collect_mode()->output_spec(), 1);
    const auto log_prob = [&] {
      EXPECT_THAT(policy->collect_mode()->Forward(batch.Slice(0, 1).view(), {}, {}, out.view()),
                  IsOk());
      const absl::Span<const float> logit = out.column<float>(1);
      return logit[action] - *std::max_element(logit.begin(), logit.end());
    };
    const float before = log_prob();
    std::vector<LearnStep> steps;
    for (int i = 0; i < 20; ++i) {
      ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
    }
    if (sign > 0) {
      EXPECT_GE(log_prob(), before);
    } else {
      EXPECT_LT(log_prob(), before);
    }
  }
}

TEST(A2c, TakesOneStepOnAllSamplesOfARecurrentNetwork) {
  const RecurrentCase shared = RecurrentCases().front();
  A2cConfig config;
  NetworkConfig& model = *config.mutable_actor_critic()->mutable_model();
  model.set_type("rnn");
  model.mutable_recurrent()->set_cell(RecurrentConfig::GRU);
  model.mutable_recurrent()->set_hidden_size(3);
  PolicyConfig policy_config;
  policy_config.set_type("a2c");
  policy_config.set_unroll_len(4);
  policy_config.mutable_params()->PackFrom(config);
  DING_ASSERT_OK_AND_ASSIGN(
      const auto policy,
      create_policy(policy_config, {shared.observation, shared.action, 1, PolicyModes()}));
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(MakeRecurrentBatch(shared, 4, 20, 1), {}, &steps),
              IsOk());
  EXPECT_EQ(steps.size(), 1u);
  EXPECT_TRUE(policy->learn_mode()->attributes().sequences);
}

TEST(A2cFactory, RefusesFieldsOutOfTheirRangesAndWrongNetworks) {
  A2cConfig config = Config();
  config.mutable_actor_critic()->set_learning_rate(-1);
  EXPECT_THAT(Create(config, 1, PolicyModes()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "policy type 'a2c': params.actor_critic.learning_rate is -1, expected at "
                       "least 0"));
  config.mutable_actor_critic()->clear_learning_rate();
  config.mutable_actor_critic()->mutable_model()->set_head_layer_num(-1);
  EXPECT_THAT(Create(config, 1, PolicyModes()),
              IsInvalid("policy type 'a2c'", "model: MLP: head_layer_num is -1"));
}

}  // namespace
}  // namespace ding
