#include "ding_worker/policy/sac/sac.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/continuous/continuous.pb.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/sac/sac.pb.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr int64_t kRows = 16;
constexpr uint64_t kSeed = 4;

// A policy with pointers to its parts.
struct Sac {
  std::unique_ptr<ContinuousPolicy> policy;
  CriticEnsemble* critics = nullptr;
  ContinuousActor& actor() { return *policy->actor(); }
};

// DroQ's critics, with so much dropout that it shows.
MlpOptions DroqCritics() {
  MlpOptions options = SmallMlpOptions();
  options.dropout = 0.25;
  options.layer_norm = true;
  return options;
}

absl::StatusOr<Sac> Create(const SacOptions& options, int num_critics = 2,
                           const MlpOptions& critic_options = SmallMlpOptions()) {
  DING_ASSIGN_OR_RETURN(const SpecPtr outputs,
                        ActorOutputs(BoxAction()->field(0), ActorHead::kNormal));
  DING_ASSIGN_OR_RETURN(auto network, Mlp::Create(SmallMlpOptions(), VectorObservation(), outputs,
                                                  options.base.seed));
  DING_ASSIGN_OR_RETURN(auto critics, CriticEnsemble::Create(critic_options, VectorObservation(),
                                                             BoxAction()->field(0), num_critics,
                                                             options.base.seed + 100));
  Sac sac;
  sac.critics = critics.get();
  DING_ASSIGN_OR_RETURN(sac.policy,
                        CreateSac(std::move(network), std::move(critics), BoxAction(), options));
  return sac;
}

SacOptions Options() {
  SacOptions options;
  options.base.seed = kSeed;
  options.base.learn.priority = true;
  options.alpha = 0.3;
  return options;
}

Batch Transitions(int64_t rows = kRows, uint64_t seed = 9) {
  return MakeTransitionBatch(VectorObservation(), BoxAction(), rows, seed);
}

SacOptions RedqOptions() {
  SacOptions options = Options();
  options.base.actor_update_freq = 3;
  options.base.grad_clip_norm = 0.5;
  options.target_subset = 2;
  options.actor_reduction = CriticReduction::kMean;
  return options;
}

// What a learner computes for a batch, by brute force: an independent implementation in double
// precision on top of the networks.
class Reference {
 public:
  // `mean`: the actor maximizes the mean of the critics, instead of their minimum.
  Reference(Sac* sac, const Batch& batch, double alpha, bool mean = false)
      : sac_(*sac), alpha_(alpha), mean_(mean) {
    const auto view = reader_.Read(batch);
    EXPECT_THAT(view, IsOk());
    view_ = *view;
    const size_t size = static_cast<size_t>(batch.rows()) * 2;
    next_noise_.resize(size);
    noise_.resize(size);
    RowNoise row_noise(kSeed);
    row_noise.Draw(view_, 0, absl::MakeSpan(next_noise_), absl::MakeSpan(noise_));
    for (uint32_t use = 0; use < 3; ++use) {
      keys_[use].resize(size / 2);
      row_noise.DrawKeys(0, use, absl::MakeSpan(keys_[use]));
    }
    action_.resize(size);
    log_prob_.resize(size / 2);
  }

  // The loss of the critics in the first iteration, where the targets equal them.
  double CriticLoss() {
    Sample(view_.next_obs, next_noise_);
    sac_.critics->set_dropout_keys(keys_[0]);
    EXPECT_THAT(sac_.critics->Infer(view_.next_obs, action_), IsOk());
    std::vector<double> target;
    for (size_t i = 0; i < log_prob_.size(); ++i) {
      const double next = std::min(sac_.critics->q()[0][i], sac_.critics->q()[1][i]);
      target.push_back(view_.reward[i] + view_.discount[i] * (next - alpha_ * log_prob_[i]));
    }
    const absl::Span<const float> taken = view_.action.column<float>(0);
    for (size_t i = 0; i < taken.size(); ++i) {
      // The bounds are -2, 2 and -1, 3.
      action_[i] = (taken[i] - (i % 2 == 0 ? 0.0f : 1.0f)) / 2;
    }
    sac_.critics->set_dropout_keys(keys_[1]);
    EXPECT_THAT(sac_.critics->Infer(view_.obs, action_), IsOk());
    double loss = 0;
    for (size_t i = 0; i < target.size(); ++i) {
      for (const auto& q : sac_.critics->q()) loss += std::pow(q[i] - target[i], 2);
    }
    return loss / static_cast<double>(target.size());
  }

  double ActorLoss() {
    Sample(view_.obs, noise_);
    sac_.critics->set_dropout_keys(keys_[2]);
    EXPECT_THAT(sac_.critics->Infer(view_.obs, action_), IsOk());
    double loss = 0;
    for (size_t i = 0; i < log_prob_.size(); ++i) {
      const double q0 = sac_.critics->q()[0][i];
      const double q1 = sac_.critics->q()[1][i];
      loss += alpha_ * log_prob_[i] - (mean_ ? (q0 + q1) / 2 : std::min(q0, q1));
    }
    return loss / static_cast<double>(log_prob_.size());
  }

  // The entropy of the last draw.
  double MeanEntropy() const {
    double sum = 0;
    for (const float value : log_prob_) sum -= value;
    return sum / static_cast<double>(log_prob_.size());
  }

 private:
  void Sample(const ColumnsView& obs, const std::vector<float>& noise) {
    const auto outputs = sac_.actor().Infer(obs);
    EXPECT_THAT(outputs, IsOk());
    const absl::Span<const float> mean = outputs->column<float>(0);
    const absl::Span<const float> log_std = outputs->column<float>(1);
    for (size_t row = 0; row < log_prob_.size(); ++row) {
      double log_prob = 0;
      for (size_t at = 2 * row; at < 2 * row + 2; ++at) {
        const double u = mean[at] + std::exp(double{log_std[at]}) * noise[at];
        const double a = std::tanh(u);
        action_[at] = static_cast<float>(a);
        log_prob += -0.5 * noise[at] * noise[at] - log_std[at] -
                    0.5 * std::log(2 * std::acos(-1.0)) - std::log(1 - a * a);
      }
      log_prob_[row] = static_cast<float>(log_prob);
    }
  }

  Sac& sac_;
  const double alpha_;
  const bool mean_;
  SampledTransitionReader reader_{VectorObservation(), BoxAction()};
  TransitionView view_;
  std::vector<float> next_noise_, noise_, action_, log_prob_;
  std::vector<uint64_t>
      keys_[3];  // of dropout: for next observations, actions taken, and the actor's actions
};

void ExpectLossesOfTheReference(Sac sac, bool mean) {
  const Batch batch = Transitions();
  Reference reference(&sac, batch, 0.3, mean);
  const double critic_loss = reference.CriticLoss();
  const double actor_loss = reference.ActorLoss();
  std::vector<LearnStep> steps;
  ASSERT_THAT(sac.policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  EXPECT_NEAR(*steps[0].scalars.Get("critic_loss"), critic_loss, 1e-4);
  EXPECT_NEAR(*steps[0].scalars.Get("actor_loss"), actor_loss, 1e-5);
  EXPECT_NEAR(*steps[0].scalars.Get("entropy"), reference.MeanEntropy(), 1e-5);
}

SacOptions DroqOptions() {
  SacOptions options = Options();
  options.actor_reduction = CriticReduction::kMean;
  return options;
}

TEST(SacTest, LossesAgreeWithBruteForce) {
  DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(Options()));
  ExpectLossesOfTheReference(std::move(sac), /*mean=*/false);
}

TEST(SacTest, LossesOfDroqAgreeWithBruteForce) {
  DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(DroqOptions(), 2, DroqCritics()));
  ExpectLossesOfTheReference(std::move(sac), /*mean=*/true);
}

void ExpectActorGradientOfFiniteDifferences(SacOptions options, const MlpOptions& critics) {
  options.base.actor_adam.lr = 0;
  options.base.critic_adam.lr = 0;  // the networks stay as they are
  DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(options, 2, critics));
  const Batch batch = Transitions();
  std::vector<LearnStep> steps;
  ASSERT_THAT(sac.policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  Reference reference(&sac, batch, 0.3, options.actor_reduction == CriticReduction::kMean);
  ExpectGradientsOf([&] { return reference.ActorLoss(); }, sac.actor().network().parameters(),
                    sac.actor().network().gradients(), 1.0f / 512, 1e-3);
}

TEST(SacTest, TheActorsGradientAgreesWithFiniteDifferencesThroughTheCritics) {
  ExpectActorGradientOfFiniteDifferences(Options(), SmallMlpOptions());
  ExpectActorGradientOfFiniteDifferences(DroqOptions(), DroqCritics());
}

TEST(SacTest, TheTemperatureRisesWhereEntropyIsMissing) {
  for (const double target_entropy : {-50.0, 50.0}) {
    SacOptions options = Options();
    options.target_entropy = target_entropy;
    DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(options));
    std::vector<LearnStep> steps;
    for (int i = 0; i < 50; ++i) {
      ASSERT_THAT(sac.policy->learn_mode()->Forward(Transitions(), {}, &steps), IsOk());
    }
    const double alpha = *steps[0].scalars.Get("alpha");
    if (target_entropy > 0) {
      EXPECT_GT(alpha, 0.31);
    } else {
      EXPECT_LT(alpha, 0.29);
    }
  }
}

TEST(SacTest, AFixedTemperatureStays) {
  SacOptions options = Options();
  options.learn_alpha = false;
  DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(options));
  std::vector<LearnStep> steps;
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(sac.policy->learn_mode()->Forward(Transitions(), {}, &steps), IsOk());
  }
  EXPECT_NEAR(*steps[0].scalars.Get("alpha"), 0.3, 1e-7);
}

TEST(SacTest, TwiceTheCostIsTwiceTheTemperature) {
  std::vector<std::vector<float>> models;
  for (const bool cost : {false, true}) {
    SacOptions options = Options();
    options.learn_alpha = false;
    options.alpha = cost ? 0.25 : 0.5;
    if (cost) options.entropy_cost = [](double log_prob) { return EntropyCost{2 * log_prob, 2}; };
    DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(options));
    std::vector<LearnStep> steps;
    for (uint64_t seed = 0; seed < 3; ++seed) {
      ASSERT_THAT(sac.policy->learn_mode()->Forward(Transitions(16, seed), {}, &steps), IsOk());
    }
    const absl::Span<const float> parameters = sac.actor().network().parameters();
    models.emplace_back(parameters.begin(), parameters.end());
  }
  EXPECT_THAT(models[1], testing::Pointwise(testing::FloatNear(1e-5f), models[0]));
}

TEST(SacTest, TheActorLearnsInItsOwnRhythm) {
  DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(RedqOptions(), 4));
  const auto copy = [](absl::Span<const float> values) {
    return std::vector<float>(values.begin(), values.end());
  };
  std::vector<LearnStep> steps;
  for (int iteration = 1; iteration <= 6; ++iteration) {
    const auto actor = copy(sac.actor().network().parameters());
    const auto critics = copy(sac.critics->network().parameters());
    ASSERT_THAT(sac.policy->learn_mode()->Forward(Transitions(), {}, &steps), IsOk());
    const bool learns = iteration % 3 == 0;
    EXPECT_EQ(copy(sac.actor().network().parameters()) != actor, learns) << iteration;
    EXPECT_EQ(steps[0].scalars.Get("actor_loss").has_value(), learns) << iteration;
    EXPECT_NE(copy(sac.critics->network().parameters()), critics);
  }
}

TEST(SacTest, LearnsTheBestActionOfABandit) {
  // The reward is best at the actions 1 and 2 (in units of their range: 0.5 and 0.5), and every
  // episode ends at once.
  SacOptions options = Options();
  options.base.actor_adam.lr = options.base.critic_adam.lr = options.alpha_adam.lr = 0.003;
  options.alpha = 0.05;
  options.learn_alpha = false;
  DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(options));
  std::vector<LearnStep> steps;
  for (int i = 0; i < 4000; ++i) {
    const Batch batch = Transitions(64, static_cast<uint64_t>(i));
    const absl::Span<const float> action = batch.column<float>("action");
    for (size_t row = 0; row < 64; ++row) {
      // From [-1, 1) to the bounds.
      const_cast<float&>(action[2 * row]) = 2 * action[2 * row];
      const_cast<float&>(action[2 * row + 1]) = 2 * action[2 * row + 1] + 1;
      const_cast<float&>(batch.column<float>("reward")[row]) =
          -std::pow(action[2 * row] - 1, 2.0f) - std::pow(action[2 * row + 1] - 2, 2.0f);
      const_cast<float&>(batch.column<float>("discount")[row]) = 0;
    }
    ASSERT_THAT(sac.policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  }
  const Batch obs = MakeObservationBatch(VectorObservation(), 8, 77);
  const BatchBuilder out = *BatchBuilder::Create(BoxAction(), 8);
  ASSERT_THAT(sac.policy->eval_mode()->Forward(obs.view(), {}, {}, out.view()), IsOk());
  for (size_t row = 0; row < 8; ++row) {
    EXPECT_NEAR(out.column<float>(0)[2 * row], 1, 0.3) << "row " << row;
    EXPECT_NEAR(out.column<float>(0)[2 * row + 1], 2, 0.3) << "row " << row;
  }
}

TEST(SacTest, NanInAnActionIsRefusedAndChangesNothing) {
  DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(Options()));
  const Batch batch = Transitions();
  const_cast<float&>(batch.column<float>("action")[3]) = std::numeric_limits<float>::quiet_NaN();
  std::vector<LearnStep> steps;
  EXPECT_THAT(sac.policy->learn_mode()->Forward(batch, {}, &steps),
              IsInternal("sac, train iteration 1", "'action', row 1 holds nan"));
}

TEST(SacTest, AnActorThatIsNotFiniteIsAnErrorOfCollectEvalAndLearn) {
  DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(Options()));
  const absl::Span<float> parameters = sac.actor().network().parameters();
  absl::c_fill(parameters, std::numeric_limits<float>::infinity());
  const Batch obs = MakeObservationBatch(VectorObservation(), 3, 1);
  const BatchBuilder out = *BatchBuilder::Create(BoxAction(), 3);
  EXPECT_THAT(sac.policy->collect_mode()->Forward(obs.view(), {}, {}, out.view()),
              IsInternal("sac, collect: 'mean'"));
  EXPECT_THAT(sac.policy->eval_mode()->Forward(obs.view(), {}, {}, out.view()),
              IsInternal("sac, eval: 'mean'"));
  std::vector<LearnStep> steps;
  EXPECT_THAT(sac.policy->learn_mode()->Forward(Transitions(), {}, &steps), IsInternal("'mean'"));
}

TEST(SacTest, RefusesOptionsThatAreOutOfRange) {
  SacOptions options = Options();
  options.alpha = 0;
  EXPECT_THAT(Create(options).status(), IsInvalid("alpha is 0"));
  options = Options();
  options.target_subset = 3;
  EXPECT_THAT(Create(options).status(), IsInvalid("target_subset is 3, must be in 0..2"));
  options = Options();
  options.target_entropy = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(Create(options).status(), IsInvalid("target_entropy is nan"));
  options = Options();
  options.base.target_update_theta = 0;
  EXPECT_THAT(Create(options).status(), IsInvalid("theta is 0"));
  options = Options();
  options.base.actor_update_freq = 0;
  EXPECT_THAT(Create(options).status(), IsInvalid("actor_update_freq is 0"));
}

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
    EXPECT_THAT(Create().status(), IsInvalid("policy type 'sac'", text));
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
    ExpectRefused(absl::StrCat("params.critic_dropout is ", dropout, ", expected in [0, 1)"));
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
  config_.set_unroll_len(4);
  params_.set_num_critics(3);
  params_.set_target_subset(9);
  ExpectRefused("unroll_len is 4");
  ExpectRefused("target_subset is 9, expected at most num_critics, which is 3");
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
