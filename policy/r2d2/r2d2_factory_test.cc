// This test is linked statically, like programs, so that a missing alwayslink is found.
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/r2d2/r2d2.h"
#include "ding_worker/policy/r2d2/r2d2.pb.h"
#include "ding_worker/policy/testing/allocation.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Network>> CreateLeaky(const NetworkConfig& /*config*/,
                                                     const SpecPtr& input, const SpecPtr& output,
                                                     uint64_t seed) {
  return std::make_unique<LeakyNetwork>(input, output, /*state_size=*/3, seed);
}

absl::StatusOr<std::unique_ptr<Network>> CreateLinear(const NetworkConfig& /*config*/,
                                                      const SpecPtr& input, const SpecPtr& output,
                                                      uint64_t seed) {
  return std::make_unique<LinearNetwork>(input, output, seed);
}

class R2d2Factory : public testing::Test {
 protected:
  R2d2Factory() {
    config_.set_type("r2d2");
    config_.set_unroll_len(4);
    params_.mutable_dqn()->mutable_model()->set_type("leaky");
    context_.observation = *MakeSpec({Box("obs", {4})});
    context_.action = *MakeSpec({Discrete("action", 2)});
  }
  absl::StatusOr<std::unique_ptr<Policy>> Create() {
    config_.mutable_params()->PackFrom(params_);
    return create_policy(config_, context_);
  }
  // Returns the loss of one batch, and the priority of its first sequence.
  std::pair<double, float> Learn() {
    config_.set_priority(true);
    const auto policy = Create();
    EXPECT_THAT(policy.status(), IsOk());
    std::vector<LearnStep> steps;
    RandomSequencesOptions options;
    options.padding = false;
    const Batch batch = MakeRandomSequences(context_.observation, context_.action, 1, options);
    EXPECT_THAT((*policy)->learn_mode()->Forward(batch, {}, &steps), IsOk());
    return {*steps[0].scalars.Get("total_loss"), steps[0].priority[0]};
  }

  PolicyConfig config_;
  R2d2Config params_;
  PolicyContext context_;

 private:
  ScopedRegistration<NetworkCreator> leaky_{&NetworkRegistry(), "leaky", CreateLeaky};
  ScopedRegistration<NetworkCreator> linear_{&NetworkRegistry(), "linear", CreateLinear};
};

TEST_F(R2d2Factory, AppliesTheFieldsThatItSharesWithDqnAndTheRun) {
  config_.set_batch_size(32);
  config_.set_n_sample(8);
  params_.mutable_dqn()->mutable_eps()->set_type(ScheduleConfig::LINEAR);
  params_.mutable_dqn()->mutable_eps()->set_decay(10);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  EXPECT_EQ(policy->learn_mode()->attributes().batch_size, 32);
  EXPECT_TRUE(policy->learn_mode()->attributes().sequences);
  EXPECT_EQ(policy->collect_mode()->attributes().n_sample, 8);
  EXPECT_EQ(policy->collect_mode()->attributes().unroll_len, 4);
  EXPECT_DOUBLE_EQ(*policy->command_mode()->GetSettingCollect({{"envstep", 10}}).Get("eps"), 0.1);
  EXPECT_EQ(policy->learn_mode()->info(), "double r2d2 on leaky 4-3-2: 20 parameters");
}

TEST_F(R2d2Factory, EachFieldOfItsOwnHasAnEffect) {
  const auto [loss, priority] = Learn();
  params_.set_nstep(1);
  EXPECT_NE(Learn().first, loss);
  params_.clear_nstep();
  params_.set_value_rescale(false);
  EXPECT_NE(Learn().first, loss);
  params_.clear_value_rescale();
  params_.set_rescale_eps(0.5);
  EXPECT_NE(Learn().first, loss);
  params_.clear_rescale_eps();
  params_.set_priority_eta(0);
  EXPECT_EQ(Learn().first, loss);
  EXPECT_LT(Learn().second, priority);
}

TEST_F(R2d2Factory, ReportsAllProblemsAtOnce) {
  config_.set_unroll_len(1);
  config_.set_nstep(3);
  context_.action = *MakeSpec({Box("action", {1}, {-1}, {1})});
  EXPECT_THAT(Create(),
              IsInvalid("policy type 'r2d2': ", "nstep is 3, must be 1", "set params.nstep",
                        "unroll_len is 1", "at least 2", "r2d2 chooses among discrete actions"));
}

TEST_F(R2d2Factory, WholeEpisodesNeedNoUnrollLen) {
  config_.set_unroll_len(1);
  EXPECT_THAT(Create(), IsInvalid("n_episode"));
  config_.set_n_episode(2);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  EXPECT_EQ(policy->collect_mode()->attributes().n_episode, 2);
}

TEST_F(R2d2Factory, RefusesANetworkWithoutMemoryAndSaysWhichToUse) {
  params_.mutable_dqn()->mutable_model()->set_type("linear");
  EXPECT_THAT(Create(), IsInvalid("r2d2 needs a recurrent network", "set model.type to 'rnn'"));
}

TEST(R2d2Allocation, AllocatesNothingWhileSizesRepeat) {
  const SpecPtr observation = MaskedObservation(3);
  const SpecPtr action = DiscreteAction();
  R2d2Options options;
  options.dqn.learn.priority = true;
  options.dqn.grad_clip_norm = 1;
  auto network = std::make_unique<LeakyNetwork>(
      *MakeSpec({observation->field(1)}), *MakeSpec({Box("q", {3})}), /*state_size=*/3, /*seed=*/0);
  const auto policy = *R2d2Policy::Create(std::move(network), action, options, observation);
  ExpectAllocatesNothingWhileSizesRepeat(policy.get(), MakeRandomSequences(observation, action, 1),
                                         MakeObservationBatch(observation, 3, 1));
}

}  // namespace
}  // namespace ding
