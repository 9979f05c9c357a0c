#include "ding_worker/policy/td3/td3.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/continuous/continuous.pb.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/td3/td3.pb.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gmock/gmock.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kRows = 16;
constexpr uint64_t kSeed = 4;

// A policy with a pointer to its critics.
struct Td3 {
  std::unique_ptr<ContinuousPolicy> policy;
  CriticEnsemble* critics = nullptr;
  ContinuousActor& actor() { return *policy->actor(); }
};

absl::StatusOr<Td3> Create(const Td3Options& options, int num_critics = 2) {
  DING_ASSIGN_OR_RETURN(const SpecPtr outputs,
                        ActorOutputs(BoxAction()->field(0), ActorHead::kMean));
  DING_ASSIGN_OR_RETURN(auto network, Mlp::Create(SmallMlpOptions(), VectorObservation(), outputs,
                                                  options.base.seed));
  DING_ASSIGN_OR_RETURN(auto critics, CriticEnsemble::Create(SmallMlpOptions(), VectorObservation(),
                                                             BoxAction()->field(0), num_critics,
                                                             options.base.seed + 100));
  Td3 td3;
  td3.critics = critics.get();
  DING_ASSIGN_OR_RETURN(td3.policy,
                        CreateTd3(std::move(network), std::move(critics), BoxAction(), options));
  return td3;
}

Td3Options Options() {
  Td3Options options;
  options.base.seed = kSeed;
  options.base.learn.priority = true;
  options.base.actor_update_freq = 2;
  options.base.target_delay = 2;
  return options;
}

Td3Options DdpgOptions() {
  Td3Options options = Options();
  options.algorithm = "ddpg";
  options.base.actor_update_freq = 1;
  options.base.target_delay = 1;
  options.target_noise = 0;
  return options;
}

Batch Transitions(uint64_t seed = 9) {
  return MakeTransitionBatch(VectorObservation(), BoxAction(), kRows, seed);
}

// What a learner computes for a batch in its first iteration, where the targets equal what they
// follow: an independent implementation on top of the networks.
class Reference {
 public:
  Reference(Td3* td3, const Batch& batch) : td3_(*td3) {
    const auto view = reader_.Read(batch);
    EXPECT_THAT(view, IsOk());
    view_ = *view;
    action_.resize(static_cast<size_t>(batch.rows()) * 2);
  }

  double CriticLoss(double sigma, double clip) {
    std::vector<float> noise(action_.size());
    std::vector<float> unused(action_.size());
    RowNoise(kSeed).Draw(view_, 0, absl::MakeSpan(noise), absl::MakeSpan(unused));
    Choose(view_.next_obs);
    for (size_t i = 0; i < action_.size(); ++i) {
      const double change = std::max(-clip, std::min(clip, sigma * noise[i]));
      action_[i] = static_cast<float>(std::max(-1.0, std::min(1.0, action_[i] + change)));
    }
    EXPECT_THAT(td3_.critics->Infer(view_.next_obs, action_), IsOk());
    std::vector<double> target;
    for (size_t i = 0; i < view_.reward.size(); ++i) {
      double next = std::numeric_limits<double>::infinity();
      for (const auto& q : td3_.critics->q()) next = std::min<double>(next, q[i]);
      target.push_back(view_.reward[i] + view_.discount[i] * next);
    }
    const absl::Span<const float> taken = view_.action.column<float>(0);
    for (size_t i = 0; i < taken.size(); ++i) {
      // The bounds are -2, 2 and -1, 3.
      action_[i] = (taken[i] - (i % 2 == 0 ? 0.0f : 1.0f)) / 2;
    }
    EXPECT_THAT(td3_.critics->Infer(view_.obs, action_), IsOk());
    double loss = 0;
    for (size_t i = 0; i < target.size(); ++i) {
      for (const auto& q : td3_.critics->q()) loss += std::pow(q[i] - target[i], 2);
    }
    return loss / static_cast<double>(target.size());
  }

  double ActorLoss() {
    Choose(view_.obs);
    EXPECT_THAT(td3_.critics->Infer(view_.obs, action_), IsOk());
    double sum = 0;
    for (const float q : td3_.critics->q()[0]) sum -= q;
    return sum / static_cast<double>(view_.reward.size());
  }

 private:
  void Choose(const ColumnsView& obs) {
    const auto outputs = td3_.actor().Infer(obs);
    EXPECT_THAT(outputs, IsOk());
    for (size_t i = 0; i < action_.size(); ++i) {
      action_[i] = std::tanh(outputs->column<float>(0)[i]);
    }
  }

  Td3& td3_;
  SampledTransitionReader reader_{VectorObservation(), BoxAction()};
  TransitionView view_;
  std::vector<float> action_;
};

TEST(Td3Test, LossesAgreeWithBruteForce) {
  for (const bool ddpg : {false, true}) {
    Td3Options options = ddpg ? DdpgOptions() : Options();
    options.base.actor_update_freq = 1;
    DING_ASSERT_OK_AND_ASSIGN(Td3 td3, Create(options, ddpg ? 1 : 2));
    const Batch batch = Transitions();
    Reference reference(&td3, batch);
    const double critic_loss = reference.CriticLoss(ddpg ? 0 : 0.2, 0.5);
    const double actor_loss = reference.ActorLoss();
    std::vector<LearnStep> steps;
    ASSERT_THAT(td3.policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
    EXPECT_NEAR(*steps[0].scalars.Get("critic_loss"), critic_loss, 1e-5);
    EXPECT_NEAR(*steps[0].scalars.Get("actor_loss"), actor_loss, 1e-5);
  }
}

TEST(Td3Test, TheActorsGradientAgreesWithFiniteDifferencesThroughTheFirstCritic) {
  Td3Options options = Options();
  options.base.actor_update_freq = 1;
  options.base.actor_adam.lr = 0;
  options.base.critic_adam.lr = 0;  // the networks stay as they are
  DING_ASSERT_OK_AND_ASSIGN(Td3 td3, Create(options));
  const Batch batch = Transitions();
  std::vector<LearnStep> steps;
  ASSERT_THAT(td3.policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  Reference reference(&td3, batch);
  ExpectGradientsOf([&] { return reference.ActorLoss(); }, td3.actor().network().parameters(),
                    td3.actor().network().gradients(), 1.0f / 256, 1e-3);
}

TEST(Td3Test, TheActorLearnsEverySecondIteration) {
  DING_ASSERT_OK_AND_ASSIGN(Td3 td3, Create(Options()));
  std::vector<LearnStep> steps;
  for (int iteration = 1; iteration <= 4; ++iteration) {
    const absl::Span<const float> live = td3.actor().network().parameters();
    const std::vector<float> before(live.begin(), live.end());
    ASSERT_THAT(td3.policy->learn_mode()->Forward(Transitions(), {}, &steps), IsOk());
    EXPECT_EQ(live != absl::MakeConstSpan(before), iteration % 2 == 0) << iteration;
    EXPECT_EQ(steps[0].scalars.Get("actor_loss").has_value(), iteration % 2 == 0) << iteration;
  }
}

TEST(Td3Test, ExploresAroundTheBestAction) {
  Td3Options options = Options();
  options.exploration_noise = 0.05;
  DING_ASSERT_OK_AND_ASSIGN(Td3 td3, Create(options));
  constexpr int64_t kMany = 2000;
  const Batch obs = MakeObservationBatch(VectorObservation(), kMany, 1);
  const BatchBuilder best = *BatchBuilder::Create(BoxAction(), kMany);
  const BatchBuilder tried = *BatchBuilder::Create(BoxAction(), kMany);
  ASSERT_THAT(td3.policy->eval_mode()->Forward(obs.view(), {}, {}, best.view()), IsOk());
  ASSERT_THAT(td3.policy->collect_mode()->Forward(obs.view(), {}, {}, tried.view()), IsOk());
  double squares = 0;
  for (size_t i = 0; i < 2 * kMany; ++i) {
    // Half the range of both elements is 2.
    squares += std::pow((tried.column<float>(0)[i] - best.column<float>(0)[i]) / 2, 2);
  }
  EXPECT_NEAR(std::sqrt(squares / (2 * kMany)), 0.05, 0.003);
}

TEST(Td3Test, ErrorsNameTheAlgorithm) {
  DING_ASSERT_OK_AND_ASSIGN(Td3 ddpg, Create(DdpgOptions(), 1));
  const Batch batch = Transitions();
  const_cast<float&>(batch.column<float>("action")[2]) = std::numeric_limits<float>::quiet_NaN();
  std::vector<LearnStep> steps;
  EXPECT_THAT(ddpg.policy->learn_mode()->Forward(batch, {}, &steps),
              IsInternal("ddpg, train iteration 1", "'action', row 1 holds nan"));
}

TEST(Td3Test, RefusesOptionsThatAreOutOfRange) {
  Td3Options options = Options();
  options.exploration_noise = -1;
  EXPECT_THAT(Create(options).status(), IsInvalid("exploration_noise is -1"));
  options = Options();
  options.target_noise_clip = std::numeric_limits<double>::infinity();
  EXPECT_THAT(Create(options).status(), IsInvalid("target_noise_clip is inf"));
  options = Options();
  options.base.target_delay = 0;
  EXPECT_THAT(Create(options).status(), IsInvalid("target_delay is 0"));
}

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
      IsInvalid("policy type 'td3'", "exploration_noise is -1", "target_noise is -2",
                "target_noise_clip is -3", "actor_update_freq is 0", "target_update_theta is 2"));
  ddpg_.set_exploration_noise(-1);
  EXPECT_THAT(Create("ddpg", ddpg_).status(),
              IsInvalid("policy type 'ddpg'", "exploration_noise is -1"));
}

TEST_F(Td3Factory, RefusesDiscreteActions) {
  context_.action = *MakeSpec({Discrete("action", 2)});
  EXPECT_THAT(Create("ddpg", ddpg_).status(), IsInvalid("ddpg chooses continuous actions"));
}

}  // namespace
}  // namespace ding
