// Linked statically, as programs are: so a missing alwayslink shows.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/continuous/continuous.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/td3/td3.pb.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Td3Factory : public testing::Test {
 protected:
  Td3Factory() {
    context_.observation = *MakeSpec({Box("obs", {3})});
    context_.action = *MakeSpec({Box("action", {2}, {-2}, {2})});
    FillModel(td3_.mutable_continuous());
    FillModel(ddpg_.mutable_continuous());
  }
  static void FillModel(ContinuousConfig* config) {
    config->mutable_model()->add_encoder_hidden_size(8);
    config->mutable_model()->set_head_layer_num(0);
  }
  absl::StatusOr<std::unique_ptr<Policy>> Create(const std::string& type,
                                                 const google::protobuf::Message& params) {
    PolicyConfig config;
    config.set_type(type);
    config.mutable_params()->PackFrom(params);
    return create_policy(config, context_);
  }
  // The scalars of the last of some iterations on a random batch.
  NamedValues Learn(const std::string& type, const google::protobuf::Message& params,
                    int iterations) {
    const auto policy = Create(type, params);
    EXPECT_THAT(policy, IsOk());
    std::vector<LearnStep> steps;
    for (int i = 0; i < iterations; ++i) {
      EXPECT_THAT(
          (*policy)->learn_mode()->Forward(
              MakeTransitionBatch(context_.observation, context_.action, 16, 1), {}, &steps),
          IsOk());
    }
    return steps[0].scalars;
  }

  PolicyContext context_;
  Td3Config td3_;
  DdpgConfig ddpg_;
};

TEST_F(Td3Factory, Td3HasTwoCriticsAndADelayedActor) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create("td3", td3_));
  EXPECT_EQ(policy->learn_mode()->info(),
            "td3 on mlp 3-8, mean 2: 50 parameters; 2 critics, mlp 5-8 for each head, q0 1, q1 1: "
            "114 parameters");
  EXPECT_FALSE(Learn("td3", td3_, 1).Get("actor_loss").has_value());
  EXPECT_TRUE(Learn("td3", td3_, 2).Get("actor_loss").has_value());
}

TEST_F(Td3Factory, DdpgHasOneCriticAndLearnsEverythingInEachIteration) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create("ddpg", ddpg_));
  EXPECT_EQ(policy->learn_mode()->info(),
            "ddpg on mlp 3-8, mean 2: 50 parameters; 1 critic, mlp 5-8 for each head, q0 1: 57 "
            "parameters");
  EXPECT_TRUE(Learn("ddpg", ddpg_, 1).Get("actor_loss").has_value());
}

TEST_F(Td3Factory, TheParametersOfTheTargetHaveAnEffect) {
  const double plain = *Learn("td3", td3_, 1).Get("target_q_value");
  td3_.set_target_noise(0.4);
  const double more = *Learn("td3", td3_, 1).Get("target_q_value");
  EXPECT_NE(more, plain);
  td3_.set_target_noise_clip(0.1);
  EXPECT_NE(*Learn("td3", td3_, 1).Get("target_q_value"), more);
  td3_.set_actor_update_freq(3);
  EXPECT_FALSE(Learn("td3", td3_, 2).Get("actor_loss").has_value());
}

TEST_F(Td3Factory, ErrorsNameThePolicyAndAllProblems) {
  td3_.set_exploration_noise(-1);
  td3_.set_target_noise(-2);
  td3_.set_target_noise_clip(-3);
  td3_.set_actor_update_freq(0);
  td3_.mutable_continuous()->set_target_update_theta(2);
  EXPECT_THAT(
      Create("td3", td3_).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("policy type 'td3'"), HasSubstr("exploration_noise is -1"),
                     HasSubstr("target_noise is -2"), HasSubstr("target_noise_clip is -3"),
                     HasSubstr("actor_update_freq is 0"), HasSubstr("target_update_theta is 2"))));
  ddpg_.set_exploration_noise(-1);
  EXPECT_THAT(
      Create("ddpg", ddpg_).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("policy type 'ddpg'"), HasSubstr("exploration_noise is -1"))));
}

TEST_F(Td3Factory, RefusesDiscreteActions) {
  context_.action = *MakeSpec({Discrete("action", 2)});
  EXPECT_THAT(
      Create("ddpg", ddpg_).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ddpg chooses continuous actions")));
}

}  // namespace
}  // namespace ding
