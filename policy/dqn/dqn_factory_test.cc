// This test is linked statically, like programs, so that a missing alwayslink is found.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dqn, train iteration 2")));
}

TEST_F(DqnFactory, SoftUpdateReplacesTheDefaultFrequency) {
  params_.set_target_update_theta(0.01);
  EXPECT_THAT(Create(), IsOk());
}

TEST_F(DqnFactory, ReportsAllProblemsAtOnce) {
  config_.set_batch_size(0);
  config_.set_unroll_len(4);
  params_.set_learning_rate(-1);
  params_.set_huber_delta(0);
  params_.set_grad_clip_norm(-2);
  params_.set_lr_decay_env_steps(-3);
  params_.mutable_eps()->set_start(1.5);
  params_.mutable_eps()->set_decay(0);
  params_.set_target_update_freq(5);
  params_.set_target_update_theta(0.1);
  params_.mutable_model()->set_dueling(true);
  context_.action = *MakeSpec({Box("action", {1}, {-1}, {1})});
  context_.observation = *MakeSpec({Box("obs/state", {4}), Box("obs/action_mask", {2})});
  EXPECT_THAT(
      Create(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("policy type 'dqn': batch_size is 0"), HasSubstr("unroll_len is 4"),
                     HasSubstr("learning_rate is -1"), HasSubstr("huber_delta is 0"),
                     HasSubstr("grad_clip_norm is -2"), HasSubstr("lr_decay_env_steps is -3"),
                     HasSubstr("eps.start is 1.5, must be in [0, 1]"), HasSubstr("eps.decay is 0"),
                     HasSubstr("are both set, expected one of them"),
                     HasSubstr("model: linear cannot duel"), HasSubstr("'obs/action_mask'"),
                     HasSubstr("dqn chooses among discrete actions"))));
}

TEST_F(DqnFactory, RefusesADeltaOfALossThatItDoesNotUse) {
  params_.set_huber_delta(2);
  EXPECT_THAT(Create(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("huber_delta is 2, which has no effect without loss: HUBER")));
  params_.set_loss(DqnConfig::HUBER);
  EXPECT_THAT(Create(), IsOk());
}

TEST_F(DqnFactory, RefusesTargetUpdatesOutOfRange) {
  params_.set_target_update_freq(0);
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("target_update_freq is 0, must be at least 1")));
  params_.clear_target_update_freq();
  params_.set_target_update_theta(1.5);
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("target_update_theta is 1.5, must be in (0, 1]")));
}

TEST_F(DqnFactory, AnUnknownNetworkListsTheLinkedOnes) {
  params_.mutable_model()->set_type("transformer");
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kInvalidArgument,
                                 AllOf(HasSubstr("'transformer'"), HasSubstr("linear"))));
}

TEST_F(DqnFactory, RefusesParamsOfAnotherAlgorithm) {
  config_.mutable_params()->PackFrom(ScheduleConfig());
  EXPECT_THAT(create_policy(config_, context_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ding.DqnConfig")));
}

}  // namespace
}  // namespace ding
