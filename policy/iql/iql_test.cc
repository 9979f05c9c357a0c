#include "ding_worker/policy/iql/iql.h"

#include <algorithm>
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
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
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
constexpr double kExpectile = 0.8;
constexpr double kBeta = 2;

Batch Transitions() { return MakeTransitionBatch(VectorObservation(), BoxAction(), kRows, 9); }

// A policy whose networks stay as they are, with pointers to them.
struct Iql {
  std::unique_ptr<ContinuousPolicy> policy;
  CriticEnsemble* critics = nullptr;
  Network* value = nullptr;
};

absl::StatusOr<Iql> Create(IqlOptions options = {}) {
  options.base.actor_adam.lr = 0;
  options.base.critic_adam.lr = 0;
  DING_ASSIGN_OR_RETURN(const SpecPtr outputs,
                        ActorOutputs(BoxAction()->field(0), ActorHead::kMean));
  IqlNetworks networks;
  DING_ASSIGN_OR_RETURN(networks.actor,
                        Mlp::Create(SmallMlpOptions(), VectorObservation(), outputs, 4));
  DING_ASSIGN_OR_RETURN(networks.critics,
                        CriticEnsemble::Create(SmallMlpOptions(), VectorObservation(),
                                               BoxAction()->field(0), 2, 104));
  DING_ASSIGN_OR_RETURN(
      networks.value, Mlp::Create(SmallMlpOptions(), VectorObservation(), StateValueOutputs(), 7));
  Iql iql;
  iql.critics = networks.critics.get();
  iql.value = networks.value.get();
  DING_ASSIGN_OR_RETURN(iql.policy, CreateIql(std::move(networks), BoxAction(), options));
  return iql;
}

IqlOptions Options() {
  IqlOptions options;
  options.expectile = kExpectile;
  options.beta = kBeta;
  return options;
}

// The losses of a batch in the first iteration, where the targets equal the critics and log_std is
// 0: an independent implementation on top of the networks.
class Reference {
 public:
  Reference(Iql* iql, const Batch& batch) : iql_(*iql) {
    const auto view = reader_.Read(batch);
    EXPECT_THAT(view, IsOk());
    view_ = *view;
    const absl::Span<const float> taken = view_.action.column<float>(0);
    for (size_t i = 0; i < taken.size(); ++i) {
      // The bounds are -2, 2 and -1, 3.
      action_.push_back((taken[i] - (i % 2 == 0 ? 0.0f : 1.0f)) / 2);
    }
  }

  std::vector<float> Values(const ColumnsView& obs) {
    BatchBuilder out = *BatchBuilder::Create(StateValueOutputs(), kRows);
    EXPECT_THAT(iql_.value->Infer(obs, out.view()), IsOk());
    return {out.column<float>(0).begin(), out.column<float>(0).end()};
  }

  std::vector<double> Advantages() {
    const std::vector<float> v = Values(view_.obs);
    EXPECT_THAT(iql_.critics->Infer(view_.obs, action_), IsOk());
    std::vector<double> advantages;
    for (size_t i = 0; i < kRows; ++i) {
      advantages.push_back(std::min(iql_.critics->q()[0][i], iql_.critics->q()[1][i]) -
                           double{v[i]});
    }
    return advantages;
  }

  double ValueLoss() {
    double loss = 0;
    for (const double u : Advantages()) {
      loss += (u > 0 ? kExpectile : 1 - kExpectile) * u * u / kRows;
    }
    return loss;
  }

  double CriticLoss() {
    const std::vector<float> next = Values(view_.next_obs);
    EXPECT_THAT(iql_.critics->Infer(view_.obs, action_), IsOk());
    double loss = 0;
    for (size_t i = 0; i < kRows; ++i) {
      const double target = view_.reward[i] + view_.discount[i] * next[i];
      for (const auto& q : iql_.critics->q()) loss += std::pow(q[i] - target, 2) / kRows;
    }
    return loss;
  }

  double ActorLoss() {
    const std::vector<double> advantages = Advantages();
    const auto outputs = iql_.policy->actor()->Infer(view_.obs);
    EXPECT_THAT(outputs, IsOk());
    double loss = 0;
    for (size_t i = 0; i < action_.size(); ++i) {
      const double z = action_[i] - std::tanh(outputs->column<float>(0)[i]);
      const double log_density = -z * z / 2 - std::log(2 * 3.14159265358979) / 2;
      loss -= std::min(100.0, std::exp(kBeta * advantages[i / 2])) * log_density / kRows;
    }
    return loss;
  }

 private:
  Iql& iql_;
  SampledTransitionReader reader_{VectorObservation(), BoxAction()};
  TransitionView view_;
  std::vector<float> action_;
};

TEST(IqlTest, LossesAgreeWithBruteForce) {
  DING_ASSERT_OK_AND_ASSIGN(Iql iql, Create(Options()));
  const Batch batch = Transitions();
  Reference reference(&iql, batch);
  std::vector<LearnStep> steps;
  ASSERT_THAT(iql.policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  EXPECT_NEAR(*steps[0].scalars.Get("value_loss"), reference.ValueLoss(), 1e-5);
  EXPECT_NEAR(*steps[0].scalars.Get("critic_loss"), reference.CriticLoss(), 1e-5);
  EXPECT_NEAR(*steps[0].scalars.Get("actor_loss"), reference.ActorLoss(), 1e-4);
}

TEST(IqlTest, TheGradientsOfActorAndStateValueAgreeWithFiniteDifferences) {
  DING_ASSERT_OK_AND_ASSIGN(Iql iql, Create(Options()));
  const Batch batch = Transitions();
  std::vector<LearnStep> steps;
  ASSERT_THAT(iql.policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  Reference reference(&iql, batch);
  Network& actor = iql.policy->actor()->network();
  ExpectGradientsOf([&] { return reference.ActorLoss(); }, actor.parameters(), actor.gradients(),
                    1.0f / 256, 4e-3);
  ExpectGradientsOf([&] { return reference.ValueLoss(); }, iql.value->parameters(),
                    iql.value->gradients(), 1.0f / 256, 4e-3);
}

TEST(IqlTest, CollectsAsItEvaluates) {
  DING_ASSERT_OK_AND_ASSIGN(Iql iql, Create(Options()));
  const Batch obs = MakeObservationBatch(VectorObservation(), kRows, 3);
  BatchBuilder best = *BatchBuilder::Create(BoxAction(), kRows);
  BatchBuilder tried = *BatchBuilder::Create(BoxAction(), kRows);
  ASSERT_THAT(iql.policy->eval_mode()->Forward(obs.view(), {}, {}, best.view()), IsOk());
  ASSERT_THAT(iql.policy->collect_mode()->Forward(obs.view(), {}, {}, tried.view()), IsOk());
  EXPECT_EQ(best.column<float>(0), tried.column<float>(0));
}

TEST(IqlTest, RefusesOptionsThatAreOutOfRange) {
  IqlOptions options = Options();
  options.expectile = 1;
  EXPECT_THAT(Create(options).status(), IsInvalid("expectile is 1"));
  options = Options();
  options.beta = -1;
  EXPECT_THAT(Create(options).status(), IsInvalid("beta is -1"));
  options = Options();
  options.base.actor_update_freq = 2;
  EXPECT_THAT(Create(options).status(), IsInvalid("actor_update_freq is 2"));
}

PolicyConfig Config(const std::string& params) {
  PolicyConfig config;
  DING_CHECK(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("type: 'iql' params { [type.googleapis.com/ding.IqlConfig] { continuous { "
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

TEST(IqlFactory, LearnsFromTheTransitionsOfADataSet) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, CreateFromConfig(""));
  EXPECT_TRUE(policy->learn_mode()->attributes().supervised);
  EXPECT_TRUE(policy->learn_mode()->attributes().transitions);
  EXPECT_THAT(policy->learn_mode()->info(), AllOf(HasSubstr("iql on mlp"), HasSubstr("2 critics"),
                                                  HasSubstr("state value, mlp")));
}

TEST(IqlFactory, EveryFieldHasAnEffect) {
  const auto learn = [](const std::string& params) {
    const auto policy = CreateFromConfig(params);
    EXPECT_THAT(policy, IsOk());
    EXPECT_THAT((*policy)->learn_mode()->SetData(OnePart(Transitions())), IsOk());
    std::vector<LearnStep> steps;
    EXPECT_THAT((*policy)->learn_mode()->Forward(Transitions(), {}, &steps), IsOk());
    return *steps[0].scalars.Get("actor_loss") + *steps[0].scalars.Get("value_loss");
  };
  const double plain = learn("");
  for (const char* const params :
       {"expectile: 0.9", "beta: 1", "normalize_obs: false", "obs_clip: 0.1"}) {
    EXPECT_NE(learn(params), plain) << params;
  }
}

TEST(IqlFactory, RefusesFieldsOutOfTheirRangesAndDiscreteActions) {
  EXPECT_THAT(CreateFromConfig("expectile: 0 beta: -1 obs_clip: -3"),
              IsInvalid("policy type 'iql'", "expectile is 0", "beta is -1", "obs_clip is -3"));
  EXPECT_THAT(CreateFromConfig("", *MakeSpec({Discrete("action", 2)})),
              IsInvalid("iql chooses continuous actions"));
}

TEST(IqlFactory, RefusesABoundOfObservationsThatAreNotNormalized) {
  EXPECT_THAT(CreateFromConfig("normalize_obs: false obs_clip: 5"),
              IsInvalid("obs_clip is 5, which has no effect without normalize_obs"));
}

TEST(IqlFactory, DescribesItsActor) {
  DING_ASSERT_OK_AND_ASSIGN(const ActorDescription actor, DescribeActor(Config(""), *BoxAction()));
  EXPECT_EQ(actor.parameters, "model/actor");
  EXPECT_EQ(actor.head, kTanhHead);
  EXPECT_EQ(actor.obs_clip, 10);
}

}  // namespace
}  // namespace ding
