// TD3+BC: the policy of policy/td3 with cloning, and its factory.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/continuous/critic_ensemble.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/td3/td3.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kRows = 16;
constexpr double kAlpha = 2.5;

Batch Transitions() { return MakeTransitionBatch(VectorObservation(), BoxAction(), kRows, 9); }

// A policy whose networks stay as they are, with a pointer to its critics.
struct Td3Bc {
  std::unique_ptr<ContinuousPolicy> policy;
  CriticEnsemble* critics = nullptr;
};

absl::StatusOr<Td3Bc> Create(double alpha = kAlpha) {
  Td3Options options;
  options.algorithm = "td3bc";
  options.base.obs_clip = 10;
  options.base.actor_adam.lr = 0;
  options.base.critic_adam.lr = 0;
  options.cloning_alpha = alpha;
  DING_ASSIGN_OR_RETURN(const SpecPtr outputs,
                        ActorOutputs(BoxAction()->field(0), ActorHead::kMean));
  DING_ASSIGN_OR_RETURN(auto network,
                        Mlp::Create(SmallMlpOptions(), VectorObservation(), outputs, 4));
  DING_ASSIGN_OR_RETURN(auto critics, CriticEnsemble::Create(SmallMlpOptions(), VectorObservation(),
                                                             BoxAction()->field(0), 2, 104));
  Td3Bc made;
  made.critics = critics.get();
  DING_ASSIGN_OR_RETURN(made.policy,
                        CreateTd3(std::move(network), std::move(critics), BoxAction(), options));
  return made;
}

// Returns the observations of `batch`, normalized by their own mean and standard deviation.
BatchBuilder Normalized(const Batch& batch) {
  BatchBuilder out = *BatchBuilder::Create(VectorObservation(), kRows);
  const absl::Span<const float> obs = batch.column<float>("obs");
  const size_t width = obs.size() / kRows;
  for (size_t j = 0; j < width; ++j) {
    double mean = 0, squares = 0;
    for (size_t i = 0; i < kRows; ++i) mean += obs[i * width + j] / kRows;
    for (size_t i = 0; i < kRows; ++i) squares += std::pow(obs[i * width + j] - mean, 2);
    for (size_t i = 0; i < kRows; ++i) {
      out.column<float>(0)[i * width + j] =
          static_cast<float>((obs[i * width + j] - mean) / std::sqrt(squares / kRows + 1e-8));
    }
  }
  return out;
}

struct ActorLoss {
  double cloning = 0;
  double lambda = 0;
  double mean_q = 0;
};

// An independent implementation on top of the networks.
ActorLoss Reference(Td3Bc* td3bc, const Batch& batch) {
  const BatchBuilder obs = Normalized(batch);
  const auto outputs = td3bc->policy->actor()->Infer(obs.view());
  EXPECT_THAT(outputs, IsOk());
  std::vector<float> action;
  for (const float mean : outputs->column<float>(0)) action.push_back(std::tanh(mean));
  EXPECT_THAT(td3bc->critics->Infer(obs.view(), action), IsOk());
  ActorLoss loss;
  double absolute = 0;
  for (const float q : td3bc->critics->q()[0]) {
    loss.mean_q += q / kRows;
    absolute += std::abs(q) / kRows;
  }
  loss.lambda = kAlpha / absolute;
  const absl::Span<const float> taken = batch.column<float>("action");
  for (size_t i = 0; i < taken.size(); ++i) {
    // The bounds are -2, 2 and -1, 3.
    const double unit = (taken[i] - (i % 2 == 0 ? 0.0f : 1.0f)) / 2;
    loss.cloning += std::pow(action[i] - unit, 2) / static_cast<double>(taken.size());
  }
  return loss;
}

TEST(Td3Bc, TheActorsLossAgreesWithBruteForceOnNormalizedObservations) {
  DING_ASSERT_OK_AND_ASSIGN(Td3Bc td3bc, Create());
  const Batch batch = Transitions();
  ASSERT_THAT(td3bc.policy->learn_mode()->SetData(OnePart(batch)), IsOk());
  std::vector<LearnStep> steps;
  ASSERT_THAT(td3bc.policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  const ActorLoss expected = Reference(&td3bc, batch);
  EXPECT_NEAR(*steps[0].scalars.Get("cloning_loss"), expected.cloning, 1e-5);
  EXPECT_NEAR(*steps[0].scalars.Get("lambda"), expected.lambda, 1e-4 * expected.lambda);
  EXPECT_NEAR(*steps[0].scalars.Get("actor_loss"),
              expected.cloning - expected.lambda * expected.mean_q, 1e-4);
}

TEST(Td3Bc, TheActorsGradientAgreesWithFiniteDifferences) {
  DING_ASSERT_OK_AND_ASSIGN(Td3Bc td3bc, Create());
  const Batch batch = Transitions();
  ASSERT_THAT(td3bc.policy->learn_mode()->SetData(OnePart(batch)), IsOk());
  std::vector<LearnStep> steps;
  ASSERT_THAT(td3bc.policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  const double lambda = Reference(&td3bc, batch).lambda;  // has no gradient
  const auto loss = [&] {
    const ActorLoss parts = Reference(&td3bc, batch);
    return parts.cloning - lambda * parts.mean_q;
  };
  Network& network = td3bc.policy->actor()->network();
  ExpectGradientsOf(loss, network.parameters(), network.gradients(), 1.0f / 256, 4e-3);
}

TEST(Td3Bc, TheEvalModeNormalizesByTheStatisticsOfTheModel) {
  DING_ASSERT_OK_AND_ASSIGN(Td3Bc td3bc, Create());
  DING_ASSERT_OK_AND_ASSIGN(Td3Bc other, Create());
  const Batch batch = Transitions();
  const Batch obs = MakeObservationBatch(VectorObservation(), kRows, 3);
  const auto act = [&obs](Td3Bc* policy) {
    BatchBuilder out = *BatchBuilder::Create(BoxAction(), kRows);
    EXPECT_THAT(policy->policy->eval_mode()->Forward(obs.view(), {}, {}, out.view()), IsOk());
    return std::vector<float>(out.column<float>(0).begin(), out.column<float>(0).end());
  };
  const std::vector<float> before = act(&td3bc);
  ASSERT_THAT(td3bc.policy->learn_mode()->SetData(OnePart(batch)), IsOk());
  EXPECT_NE(act(&td3bc), before);
  EXPECT_EQ(act(&other), before);
  StateDict model;
  ASSERT_THAT(td3bc.policy->learn_mode()->SaveModel(&model), IsOk());
  ASSERT_THAT(other.policy->eval_mode()->LoadModel(&model), IsOk());
  EXPECT_EQ(act(&other), act(&td3bc));
}

TEST(Td3Bc, RefusesAWeightOfValuesThatIsNotAboveZero) {
  EXPECT_THAT(Create(0).status(), IsInvalid("alpha is 0"));
}

PolicyConfig Config(const std::string& params) {
  PolicyConfig config;
  DING_CHECK(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("type: 'td3bc' params { [type.googleapis.com/ding.Td3BcConfig] { continuous { "
                   "model { encoder_hidden_size: 8 } } ",
                   params, " } }"),
      &config));
  return config;
}

absl::StatusOr<std::unique_ptr<Policy>> CreateFromConfig(const std::string& params,
                                                         SpecPtr action = BoxAction()) {
  PolicyContext context;
  context.observation = VectorObservation();
  context.action = std::move(action);
  return create_policy(Config(params), context);
}

TEST(Td3BcFactory, LearnsFromTheTransitionsOfADataSetWithADelayedActor) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, CreateFromConfig(""));
  EXPECT_TRUE(policy->learn_mode()->attributes().supervised);
  EXPECT_TRUE(policy->learn_mode()->attributes().transitions);
  EXPECT_THAT(policy->learn_mode()->info(), AllOf(HasSubstr("td3bc on mlp"), HasSubstr("2 crit")));
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(Transitions(), {}, &steps), IsOk());
  EXPECT_FALSE(steps[0].scalars.Get("lambda").has_value());
  ASSERT_THAT(policy->learn_mode()->Forward(Transitions(), {}, &steps), IsOk());
  EXPECT_TRUE(steps[0].scalars.Get("lambda").has_value());
}

TEST(Td3BcFactory, EveryFieldHasAnEffect) {
  const auto learn = [](const std::string& params) {
    const auto policy = CreateFromConfig(params);
    EXPECT_THAT(policy, IsOk());
    EXPECT_THAT((*policy)->learn_mode()->SetData(OnePart(Transitions())), IsOk());
    std::vector<LearnStep> steps;
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT((*policy)->learn_mode()->Forward(Transitions(), {}, &steps), IsOk());
    }
    return steps[0].scalars.GetOr("actor_loss", 0) + *steps[0].scalars.Get("critic_loss");
  };
  const double plain = learn("");
  for (const char* const params :
       {"alpha: 1", "target_noise: 0.5", "target_noise_clip: 0.01", "actor_update_freq: 3",
        "normalize_obs: false", "obs_clip: 0.1"}) {
    EXPECT_NE(learn(params), plain) << params;
  }
}

TEST(Td3BcFactory, RefusesFieldsOutOfTheirRangesAndDiscreteActions) {
  EXPECT_THAT(
      CreateFromConfig("alpha: 0 target_noise: -1 target_noise_clip: -2 actor_update_freq: 0 "
                       "obs_clip: -3"),
      IsInvalid("policy type 'td3bc'", "alpha is 0", "target_noise is -1",
                "target_noise_clip is -2", "actor_update_freq is 0", "obs_clip is -3"));
  EXPECT_THAT(CreateFromConfig("", *MakeSpec({Discrete("action", 2)})),
              IsInvalid("td3bc chooses continuous actions"));
}

TEST(Td3BcFactory, RefusesABoundOfObservationsThatAreNotNormalized) {
  EXPECT_THAT(CreateFromConfig("normalize_obs: false obs_clip: 5"),
              IsInvalid("obs_clip is 5, which has no effect without normalize_obs"));
}

TEST(Td3BcFactory, DescribesItsActor) {
  DING_ASSERT_OK_AND_ASSIGN(const ActorDescription actor, DescribeActor(Config(""), *BoxAction()));
  EXPECT_EQ(actor.parameters, "model/actor");
  EXPECT_EQ(actor.head, kTanhHead);
  EXPECT_EQ(actor.obs_clip, 10);
  DING_ASSERT_OK_AND_ASSIGN(const ActorDescription plain,
                            DescribeActor(Config("normalize_obs: false"), *BoxAction()));
  EXPECT_FALSE(plain.obs_clip.has_value());
}

}  // namespace
}  // namespace ding
