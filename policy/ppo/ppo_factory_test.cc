// Linked statically, as programs are: so a missing alwayslink shows.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/policy/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class PpoFactory : public testing::Test {
 protected:
  PpoFactory() {
    config_.set_type("ppo");
    common().mutable_model()->add_encoder_hidden_size(8);
    context_.observation = *MakeSpec({Box("obs", {4})});
    context_.action = *MakeSpec({Discrete("action", 2)});
  }
  ActorCriticConfig& common() { return *params_.mutable_actor_critic(); }
  absl::StatusOr<std::unique_ptr<Policy>> Create() {
    config_.mutable_params()->PackFrom(params_);
    return create_policy(config_, context_);
  }

  PolicyConfig config_;
  PpoConfig params_;
  PolicyContext context_;
};

TEST_F(PpoFactory, HandsTheConfigOn) {
  config_.set_batch_size(5);
  config_.set_n_sample(64);
  params_.set_epoch_per_collect(3);
  common().set_learning_rate(0.25);
  common().set_lr_decay_env_steps(100);
  common().set_entropy_weight(0.5);
  common().set_entropy_decay_env_steps(200);
  common().set_final_entropy_weight(0.25);
  *common().mutable_critic() = common().model();
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  EXPECT_EQ(policy->collect_mode()->attributes().n_sample, 64);
  EXPECT_TRUE(policy->collect_mode()->attributes().on_policy);
  const NamedValues settings = policy->command_mode()->GetSettingLearn({{"envstep", 50}});
  EXPECT_DOUBLE_EQ(*settings.Get("lr"), 0.125);
  EXPECT_DOUBLE_EQ(*settings.Get("entropy_weight"), 0.4375);
  EXPECT_EQ(policy->learn_mode()->info(),
            "ppo on mlp 4-8, logit 8-2: 130 parameters; critic mlp 4-8, value 8-1: 121 parameters");
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(
                  MakeOnPolicyBatch(context_.observation, context_.action, 12, 1), {}, &steps),
              IsOk());
  EXPECT_EQ(steps.size(), 9u) << "5, 5 and 2 rows, three times";
  EXPECT_EQ(*steps[0].scalars.Get("cur_lr"), 0.25);
}

TEST_F(PpoFactory, ReportsAllProblemsAtOnce) {
  config_.set_unroll_len(4);
  config_.set_nstep(3);
  config_.set_priority(true);
  params_.set_epoch_per_collect(0);
  params_.set_clip_ratio(0);
  params_.set_value_clip(-1);
  params_.set_max_kl(-1);
  common().set_learning_rate(-1);
  common().set_adam_eps(0);
  common().set_lr_decay_env_steps(-1);
  common().set_grad_clip_norm(-1);
  common().set_gae_lambda(1.5);
  common().set_value_weight(-1);
  common().set_entropy_weight(-1);
  common().set_entropy_decay_env_steps(-1);
  common().set_final_entropy_weight(-1);
  common().set_initial_log_std(21);
  common().set_obs_clip(0);
  common().mutable_critic()->set_type("transformer");
  context_.action = *MakeSpec({Box("action", {1})});
  const absl::Status status = Create().status();
  for (const char* const problem : {"policy type 'ppo': ",
                                    "unroll_len is 4",
                                    "nstep is 3",
                                    "priority is set",
                                    "epoch_per_collect is 0",
                                    "clip_ratio is 0",
                                    "value_clip is -1",
                                    "max_kl is -1",
                                    "learning_rate is -1",
                                    "adam_eps is 0",
                                    "lr_decay_env_steps is -1",
                                    "grad_clip_norm is -1",
                                    "gae_lambda is 1.5",
                                    "value_weight is -1",
                                    "entropy_weight is -1",
                                    "entropy_decay_env_steps is -1",
                                    "final_entropy_weight is -1",
                                    "initial_log_std is 21",
                                    "obs_clip is 0",
                                    "critic: ",
                                    "'transformer'",
                                    "no distribution for the action space"}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(problem)));
  }
}

TEST_F(PpoFactory, AMaskThatDoesNotFitIsRefused) {
  context_.observation = *MakeSpec({Box("obs/x", {4}), Box("obs/action_mask", {2})});
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kInvalidArgument,
                                 AllOf(HasSubstr("'obs/action_mask' is float32[2]"),
                                       HasSubstr("expected bool[2]"))));
}

TEST_F(PpoFactory, ParamsOfAnotherAlgorithmAreRefused) {
  config_.mutable_params()->PackFrom(ScheduleConfig());
  EXPECT_THAT(create_policy(config_, context_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ding.PpoConfig")));
}

}  // namespace
}  // namespace ding
