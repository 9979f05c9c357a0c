// Linked statically, as programs are: so a missing alwayslink shows.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/continuous/continuous.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/sac/sac.pb.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SacFactory : public testing::Test {
 protected:
  SacFactory() {
    config_.set_type("sac");
    NetworkConfig& model = *params_.mutable_continuous()->mutable_model();
    model.add_encoder_hidden_size(8);
    model.set_head_layer_num(0);
    context_.observation = *MakeSpec({Box("obs", {3})});
    context_.action = *MakeSpec({Box("action", {2}, {-2}, {2})});
  }
  ContinuousConfig& common() { return *params_.mutable_continuous(); }
  absl::StatusOr<std::unique_ptr<Policy>> Create() {
    config_.mutable_params()->PackFrom(params_);
    return create_policy(config_, context_);
  }
  void ExpectRefused(const std::string& text) {
    EXPECT_THAT(Create().status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("policy type 'sac'"), HasSubstr(text))));
  }
  // The scalars of an iteration on a random batch.
  NamedValues Learn(int iterations = 1) {
    const auto policy = Create();
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

  PolicyConfig config_;
  SacConfig params_;
  SacConfig before_;
  PolicyContext context_;
};

TEST_F(SacFactory, HandsTheConfigOn) {
  config_.set_batch_size(5);
  config_.set_n_sample(64);
  config_.set_priority(true);
  common().set_critic_learning_rate(0.25);
  params_.set_alpha(0.5);
  params_.set_learn_alpha(false);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  EXPECT_EQ(policy->collect_mode()->attributes().n_sample, 64);
  EXPECT_FALSE(policy->collect_mode()->attributes().on_policy);
  EXPECT_EQ(policy->learn_mode()->attributes().batch_size, 5);
  EXPECT_TRUE(policy->learn_mode()->attributes().priority);
  EXPECT_EQ(policy->learn_mode()->info(),
            "sac on mlp 3-8, mean 2, log_std 2: 68 parameters; 2 critics, mlp 5-8 for each head, "
            "q0 1, q1 1: 114 parameters");
  const NamedValues scalars = Learn();
  EXPECT_EQ(*scalars.Get("cur_lr"), 0.25);
  EXPECT_NEAR(*scalars.Get("alpha"), 0.5, 1e-7);
}

TEST_F(SacFactory, CriticsMayHaveLayersOfTheirOwn) {
  NetworkConfig& critic = *common().mutable_critic();
  critic.add_encoder_hidden_size(6);
  critic.add_encoder_hidden_size(4);
  critic.set_head_layer_num(0);
  params_.set_num_critics(3);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  EXPECT_THAT(policy->learn_mode()->info(), HasSubstr("3 critics, mlp 5-6-4 for each head"));
}

TEST_F(SacFactory, CriticsButNotTheActorMayHaveDropoutAndLayerNormalization) {
  params_.set_critic_dropout(0.25);
  params_.set_critic_layer_norm(true);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  EXPECT_EQ(
      policy->learn_mode()->info(),
      "sac on mlp 3-8, mean 2, log_std 2: 68 parameters; 2 critics, mlp 5-8 dropout 0.25 layer "
      "norm for each head, q0 1, q1 1: 146 parameters");
  for (const double dropout : {-0.25, 1.0}) {
    params_.set_critic_dropout(dropout);
    ExpectRefused(absl::StrCat("critic: MLP: dropout is ", dropout, "; it must be in [0, 1)"));
  }
}

TEST_F(SacFactory, EachParameterHasAnEffect) {
  const NamedValues plain = Learn(4);
  const auto expect_change = [&](const std::string& scalar) {
    EXPECT_NE(*Learn(4).Get(scalar), *plain.Get(scalar)) << scalar;
    params_ = before_;
  };
  before_ = params_;
  common().set_actor_learning_rate(0.1);
  expect_change("entropy");
  common().set_critic_learning_rate(0.1);
  expect_change("critic_loss");
  common().set_target_update_theta(0.9);
  expect_change("target_q_value");
  common().set_grad_clip_norm(1e-6);
  expect_change("critic_loss");
  params_.set_alpha(2);
  expect_change("alpha");
  params_.set_alpha_learning_rate(0.1);
  expect_change("alpha");
  params_.set_target_entropy(7);
  params_.set_alpha_learning_rate(0.2);
  expect_change("alpha");
  params_.set_num_critics(5);
  expect_change("critic_loss");
  params_.set_target_subset(1);
  expect_change("target_q_value");
  params_.set_actor_value(SacConfig::MEAN);
  expect_change("actor_loss");
  params_.set_actor_update_freq(2);
  expect_change("actor_loss");
  params_.set_critic_dropout(0.3);
  expect_change("critic_loss");
  params_.set_critic_layer_norm(true);
  expect_change("critic_loss");
}

TEST_F(SacFactory, RefusesSpacesThatDoNotFit) {
  context_.action = *MakeSpec({Discrete("action", 2)});
  ExpectRefused("sac chooses continuous actions");
  context_.action = *MakeSpec({Box("action", {2})});
  ExpectRefused("finite bounds");
  context_.observation = *MakeSpec({Discrete("obs", 2)});
  ExpectRefused("reads float32 only: encode it by the env wrapper 'one_hot'");
}

TEST_F(SacFactory, RefusesNetworksThatDoNotFit) {
  common().mutable_critic()->set_type("torch_mlp");
  ExpectRefused("critic: type is 'torch_mlp', expected 'mlp'");
  common().mutable_critic()->set_type("mlp");
  common().mutable_critic()->mutable_recurrent();
  ExpectRefused("recurrent");
  common().clear_critic();
  common().mutable_model()->set_dueling(true);
  ExpectRefused("model.dueling is set");
  common().mutable_model()->set_dueling(false);
  common().mutable_model()->set_type("rnn");
  common().mutable_model()->mutable_recurrent();
  ExpectRefused("cannot train the memory");
}

TEST_F(SacFactory, ReportsAllProblemsAtOnce) {
  config_.set_batch_size(0);
  config_.set_unroll_len(4);
  common().set_target_update_theta(0);
  common().set_learn_threads(65);
  common().set_actor_learning_rate(-1);
  params_.set_alpha(0);
  params_.set_target_subset(9);
  params_.set_actor_update_freq(0);
  params_.set_num_critics(65);
  EXPECT_THAT(Create().status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("batch_size is 0"), HasSubstr("unroll_len is 4"),
                             HasSubstr("target_update_theta is 0"),
                             HasSubstr("learn_threads is 65, must be in 1..64"),
                             HasSubstr("actor_learning_rate is -1"), HasSubstr("alpha is 0"),
                             HasSubstr("actor_update_freq is 0"),
                             HasSubstr("critic: there are 65 critics"))));
  params_.set_num_critics(3);
  ExpectRefused("target_subset is 9, must be in 0..num_critics, which is 3");
}

TEST_F(SacFactory, AProcessThatOnlyActsNeedsNoCritics) {
  StateDict model;
  ASSERT_THAT((*Create())->learn_mode()->SaveModel(&model), IsOk());
  context_.modes.learn = false;
  context_.seed = 9;
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  EXPECT_EQ(policy->learn_mode(), nullptr);
  EXPECT_THAT(policy->collect_mode()->LoadModel(&model), IsOk());
}

}  // namespace
}  // namespace ding
