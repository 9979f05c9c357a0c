// Linked statically, as programs are: so a missing alwayslink shows.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/impala/impala.h"
#include "ding_worker/policy/impala/impala.pb.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

class ImpalaFactory : public testing::Test {
 protected:
  ImpalaFactory() {
    config_.set_type("impala");
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
  ImpalaConfig params_;
  PolicyContext context_;
};

TEST_F(ImpalaFactory, HandsTheConfigOn) {
  config_.set_batch_size(5);
  config_.set_n_sample(64);
  config_.set_unroll_len(8);
  common().set_learning_rate(0.25);
  common().set_lr_decay_env_steps(100);
  common().set_entropy_weight(0.5);
  common().set_entropy_decay_env_steps(200);
  common().set_final_entropy_weight(0.25);
  *common().mutable_critic() = common().model();
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  const CollectAttributes collect = policy->collect_mode()->attributes();
  EXPECT_EQ(collect.n_sample, 64);
  EXPECT_EQ(collect.unroll_len, 8);
  EXPECT_FALSE(collect.on_policy);
  const LearnAttributes learn = policy->learn_mode()->attributes();
  EXPECT_EQ(learn.batch_size, 5);
  EXPECT_TRUE(learn.sequences);
  EXPECT_FALSE(learn.on_policy);
  const NamedValues settings = policy->command_mode()->GetSettingLearn({{"envstep", 50}});
  EXPECT_DOUBLE_EQ(*settings.Get("lr"), 0.125);
  EXPECT_DOUBLE_EQ(*settings.Get("entropy_weight"), 0.4375);
  EXPECT_EQ(
      policy->learn_mode()->info(),
      "impala on mlp 4-8, logit 8-2: 130 parameters; critic mlp 4-8, value 8-1: 121 parameters");
}

TEST_F(ImpalaFactory, TheParametersOfVTraceChangeTheLoss) {
  const auto loss = [this] {
    const auto policy = Create();
    EXPECT_THAT(policy, IsOk());
    std::vector<LearnStep> steps;
    EXPECT_THAT(
        (*policy)->learn_mode()->Forward(
            MakeImpalaTestBatch(context_.observation, context_.action, 24, 6, 1), {}, &steps),
        IsOk());
    return *steps[0].scalars.Get("total_loss");
  };
  const double before = loss();
  params_.set_rho_bar(0.5);
  EXPECT_NE(loss(), before);
  params_.set_rho_bar(1);
  params_.set_c_bar(0.5);
  EXPECT_NE(loss(), before);
  params_.set_c_bar(1);
  common().set_gae_lambda(0.5);
  EXPECT_NE(loss(), before);
  common().clear_gae_lambda();
  EXPECT_EQ(loss(), before);
  params_.set_v_trace(false);
  EXPECT_NE(loss(), before);
}

TEST_F(ImpalaFactory, ReportsAllProblemsAtOnce) {
  config_.set_nstep(3);
  config_.set_priority(true);
  config_.set_discount_factor(2);
  params_.set_rho_bar(0);
  params_.set_c_bar(-1);
  params_.set_v_trace(false);
  common().set_learning_rate(-1);
  common().set_gae_lambda(1.5);
  common().set_scale_reward(true);
  common().mutable_critic()->set_type("transformer");
  context_.action = *MakeSpec({Box("action", {1})});
  const absl::Status status = Create().status();
  for (const char* const problem :
       {"policy type 'impala': ", "nstep is 3", "priority is set", "discount_factor is 2",
        "rho_bar is 0", "c_bar is -1", "v_trace is false", "learning_rate is -1",
        "gae_lambda is 1.5", "scale_reward is set", "critic: ", "'transformer'",
        "no distribution for the action space"}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(problem)));
  }
}

TEST_F(ImpalaFactory, NormalizedObservationsInAGroupOfLearnersAreRefused) {
  class NoReducer : public GradientReducer {
   public:
    absl::Status Average(absl::Span<const absl::Span<float>> /*values*/, int64_t /*rows*/,
                         const absl::Status& status) override {
      return status;
    }
    absl::Status Sum(absl::Span<double> /*values*/, const absl::Status& status) override {
      return status;
    }
  } reducer;
  context_.reducer = &reducer;
  EXPECT_THAT(Create(), IsOk());
  common().set_normalize_obs(true);
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("normalize_obs is set in a group of learners")));
}

// A feed-forward network that claims to have memory.
class Recurrent : public RecurrentNetwork {
 public:
  explicit Recurrent(std::unique_ptr<Network> network) : network_(std::move(network)) {}
  int64_t state_size() const override { return 1; }
  absl::Status InferSequences(const Sequences& sequences, const MutableColumnsView& output,
                              absl::Span<float> /*states*/) override {
    return network_->Infer(sequences.rows, output);
  }
  absl::Status ForwardSequences(const Sequences& sequences, const MutableColumnsView& output,
                                absl::Span<float> /*states*/) override {
    return network_->Forward(sequences.rows, output);
  }
  const SpecPtr& input_spec() const override { return network_->input_spec(); }
  const SpecPtr& output_spec() const override { return network_->output_spec(); }
  absl::Status Backward(const ColumnsView& d_output) override {
    return network_->Backward(d_output);
  }
  absl::Span<const ParameterInfo> parameter_info() const override {
    return network_->parameter_info();
  }
  absl::Span<float> parameters() override { return network_->parameters(); }
  absl::Span<const float> parameters() const override {
    return static_cast<const Network&>(*network_).parameters();
  }
  absl::Span<float> gradients() override { return network_->gradients(); }
  absl::StatusOr<std::unique_ptr<Network>> Clone() const override { return network_->Clone(); }
  std::string info() const override { return "with memory"; }

 private:
  const std::unique_ptr<Network> network_;
};

TEST_F(ImpalaFactory, RecurrentNetworksAreRefused) {
  const auto make = [this](const FieldSpec& head) {
    return *create_network(common().model(), context_.observation, *MakeSpec({head}), 1);
  };
  const auto create = [this](std::unique_ptr<Network> actor, std::unique_ptr<Network> critic) {
    return ImpalaPolicy::Create(std::move(actor), std::move(critic), context_.observation,
                                context_.action, {})
        .status();
  };
  const FieldSpec logit = Box("logit", {2});
  const FieldSpec value = ActorCritic::ValueField();
  EXPECT_THAT(create(make(logit), make(value)), IsOk());
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("the network is recurrent (with memory)"));
  EXPECT_THAT(create(std::make_unique<Recurrent>(make(logit)), make(value)), refused);
  EXPECT_THAT(create(make(logit), std::make_unique<Recurrent>(make(value))), refused);
}

TEST_F(ImpalaFactory, ParamsOfAnotherAlgorithmAreRefused) {
  config_.mutable_params()->PackFrom(ScheduleConfig());
  EXPECT_THAT(create_policy(config_, context_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ding.ImpalaConfig")));
}

}  // namespace
}  // namespace ding
