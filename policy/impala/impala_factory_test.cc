// Linked statically, as programs are: so a missing alwayslink shows.
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
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
  params_.set_c_bar(0.5);
  params_.set_v_trace(false);
  common().set_scale_reward(true);
  common().mutable_critic()->set_type("transformer");
  context_.action = *MakeSpec({Box("action", {1})});
  EXPECT_THAT(Create(), IsInvalid("policy type 'impala': ", "nstep is 3", "priority is set",
                                  "v_trace is false", "scale_reward is set", "critic: ",
                                  "'transformer'", "no distribution for the action space"));
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
  EXPECT_THAT(Create(), IsInvalid("normalize_obs is set in a group of learners"));
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
  const auto refused = IsInvalid("the network is recurrent (with memory)");
  EXPECT_THAT(create(std::make_unique<Recurrent>(make(logit)), make(value)), refused);
  EXPECT_THAT(create(make(logit), std::make_unique<Recurrent>(make(value))), refused);
}

// IMPALA learns a task from data of a policy that is several updates old.

// Cells 0 to 5 in a row. Action 1 goes to the right, action 0 to the left. Each step costs 0.1;
// cell 5 gives 1 and ends the episode. After 20 steps it is truncated. The best policy gets 0.5,
// one that goes to the left -2.
class Corridor {
 public:
  static constexpr int kCells = 5;
  struct Result {
    float reward;
    bool terminated;
    bool truncated;
  };

  int cell() const { return cell_; }
  Result Step(int64_t action) {
    cell_ = action == 1 ? cell_ + 1 : (cell_ > 0 ? cell_ - 1 : 0);
    ++steps_;
    const bool terminated = cell_ == kCells;
    return {terminated ? 0.9f : -0.1f, terminated, !terminated && steps_ == 20};
  }
  void Reset() { cell_ = steps_ = 0; }

 private:
  int cell_ = 0;
  int steps_ = 0;
};

constexpr int64_t kEnvs = 8;
constexpr int64_t kSteps = 8;

// Writes `cell` as one-hot; nothing for the last cell.
void Write(int cell, size_t row, absl::Span<float> obs) {
  for (size_t i = 0; i < Corridor::kCells; ++i) {
    obs[row * Corridor::kCells + i] = static_cast<int>(i) == cell ? 1.0f : 0.0f;
  }
}

class Training {
 public:
  explicit Training(uint64_t seed) {
    ImpalaConfig impala;
    ActorCriticConfig& common = *impala.mutable_actor_critic();
    common.mutable_model()->add_encoder_hidden_size(16);
    common.set_learning_rate(0.01);
    common.set_entropy_weight(0.01);
    common.set_gae_lambda(1);
    PolicyConfig config;
    config.set_type("impala");
    config.mutable_params()->PackFrom(impala);
    observation_ = *MakeSpec({Box("obs", {Corridor::kCells})});
    policy_ = *create_policy(config, {observation_, *MakeSpec({Discrete("action", 2)}), seed, {}});
    rows_ =
        *MakeSpec({Box("obs", {Corridor::kCells}), Discrete("action", 2),
                   Scalar(kColumnLogProb, DType::kFloat32), Scalar(kColumnReward, DType::kFloat32),
                   Scalar(kColumnDiscount, DType::kFloat32), Box("next_obs", {Corridor::kCells}),
                   Scalar(kColumnIsFirst, DType::kBool)});
  }

  // Learns from the batch that was collected `lag` updates ago.
  void Update(size_t lag) {
    waiting_.push_back(Collect());
    if (waiting_.size() <= lag) return;
    std::vector<LearnStep> steps;
    ASSERT_THAT(policy_->learn_mode()->Forward(waiting_.front(), {}, &steps), IsOk());
    waiting_.pop_front();
  }

  // Returns the return of an episode without exploration.
  double Evaluate() {
    Corridor env;
    const BatchBuilder obs = *BatchBuilder::Create(observation_, 1);
    const BatchBuilder out = *BatchBuilder::Create(policy_->eval_mode()->output_spec(), 1);
    double sum = 0;
    while (true) {
      Write(env.cell(), 0, obs.column<float>(0));
      EXPECT_THAT(policy_->eval_mode()->Forward(obs.view(), {0}, {}, out.view()), IsOk());
      const Corridor::Result result = env.Step(out.column<int64_t>(0)[0]);
      sum += result.reward;
      if (result.terminated || result.truncated) return sum;
    }
  }

 private:
  // Returns kEnvs sequences of kSteps rows, which cross the ends of episodes.
  Batch Collect() {
    BatchBuilder rows = *BatchBuilder::Create(rows_, kEnvs * kSteps);
    const BatchBuilder obs = *BatchBuilder::Create(observation_, kEnvs);
    const BatchBuilder out = *BatchBuilder::Create(policy_->collect_mode()->output_spec(), kEnvs);
    for (size_t t = 0; t < kSteps; ++t) {
      for (size_t i = 0; i < kEnvs; ++i) Write(envs_[i].cell(), i, obs.column<float>(0));
      EXPECT_THAT(policy_->collect_mode()->Forward(obs.view(), {}, {}, out.view()), IsOk());
      for (size_t i = 0; i < kEnvs; ++i) {
        const size_t row = i * kSteps + t;
        Write(envs_[i].cell(), row, rows.column<float>(0));
        rows.column<uint8_t>(6)[row] = begins_[i] ? 1 : 0;
        rows.column<int64_t>(1)[row] = out.column<int64_t>(0)[i];
        rows.column<float>(2)[row] = out.column<float>(1)[i];
        const Corridor::Result result = envs_[i].Step(out.column<int64_t>(0)[i]);
        Write(envs_[i].cell(), row, rows.column<float>(5));
        rows.column<float>(3)[row] = result.reward;
        rows.column<float>(4)[row] = result.terminated ? 0.0f : 0.95f;
        begins_[i] = result.terminated || result.truncated;
        if (begins_[i]) envs_[i].Reset();
      }
    }
    return std::move(rows).Seal(kEnvs * kSteps).AsSequences(kSteps);
  }

  SpecPtr observation_;
  SpecPtr rows_;
  std::unique_ptr<Policy> policy_;
  std::array<Corridor, kEnvs> envs_;
  std::array<bool, kEnvs> begins_ = {true, true, true, true, true, true, true, true};
  std::deque<Batch> waiting_;
};

TEST(ImpalaLearning, FindsTheWayFromFreshAndFromOldData) {
  for (const size_t lag : {0, 8}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      Training training(seed);
      for (int i = 0; i < 150; ++i) training.Update(lag);
      EXPECT_NEAR(training.Evaluate(), 0.5, 1e-5) << "lag " << lag << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace ding
