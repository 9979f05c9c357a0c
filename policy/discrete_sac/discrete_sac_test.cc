#include "ding_worker/policy/discrete_sac/discrete_sac.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
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
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/network.h"
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

using testing::HasSubstr;

constexpr int64_t kRows = 16;
constexpr int64_t kActions = 3;
constexpr double kAlpha = 0.5;

DiscreteSacOptions Options() {
  DiscreteSacOptions options;
  options.seed = 4;
  options.alpha = kAlpha;
  options.learn.priority = true;
  return options;
}

// A policy with pointers to its networks.
struct Sac {
  std::unique_ptr<DiscreteSacPolicy> policy;
  Network* actor = nullptr;
  Network* critics[2] = {};
};

absl::StatusOr<Sac> Create(const DiscreteSacOptions& options, const SpecPtr& observation) {
  const auto make = [&](const char* head, uint64_t seed) {
    return Mlp::Create(SmallMlpOptions(), WithoutActionMask(observation),
                       *MakeSpec({Box(head, {kActions})}), seed);
  };
  DiscreteSacNetworks networks;
  DING_ASSIGN_OR_RETURN(networks.actor, make("logit", options.seed));
  DING_ASSIGN_OR_RETURN(networks.critic0, make("q", options.seed + 100));
  DING_ASSIGN_OR_RETURN(networks.critic1, make("q", options.seed + 200));
  Sac sac;
  sac.actor = networks.actor.get();
  sac.critics[0] = networks.critic0.get();
  sac.critics[1] = networks.critic1.get();
  DING_ASSIGN_OR_RETURN(sac.policy, DiscreteSacPolicy::Create(std::move(networks), observation,
                                                              DiscreteAction(kActions), options));
  return sac;
}

Batch Transitions(const SpecPtr& observation) {
  return MakeTransitionBatch(observation, DiscreteAction(kActions), kRows, 9);
}

// What a learner computes for a batch in its first iteration, where the targets equal the critics:
// an independent implementation on top of the networks.
class Reference {
 public:
  // `prefix` is "obs" or "next_obs"; the observation is masked if it has a mask.
  Reference(Sac* sac, const Batch& batch, bool masked)
      : sac_(*sac), batch_(batch), masked_(masked) {}

  double CriticLoss() {
    const std::vector<double> next = Values("next_obs");
    const absl::Span<const int64_t> action = batch_.column<int64_t>("action");
    double loss = 0;
    for (Network* const critic : sac_.critics) {
      const std::vector<float> q = Outputs(critic, "obs");
      for (size_t i = 0; i < kRows; ++i) {
        const double discount = batch_.column<float>("discount")[i];
        // A terminated episode has no value, whatever its mask.
        const double target =
            batch_.column<float>("reward")[i] + (discount == 0 ? 0 : discount * next[i]);
        const auto taken = static_cast<size_t>(action[i]);
        loss += std::pow(q[i * kActions + taken] - target, 2) / kRows;
      }
    }
    return loss;
  }

  double ActorLoss() {
    double loss = 0;
    for (const double value : Values("obs")) loss -= value / kRows;
    return loss;
  }

  double Entropy() {
    Values("obs");
    return entropy_;
  }

 private:
  std::string Name(const std::string& prefix) const { return masked_ ? prefix + "/x" : prefix; }

  std::vector<float> Outputs(Network* network, const std::string& prefix) {
    const absl::Span<const float> obs = batch_.column<float>(Name(prefix));
    BatchBuilder inputs = *BatchBuilder::Create(network->input_spec(), kRows);
    std::copy(obs.begin(), obs.end(), inputs.column<float>(0).begin());
    BatchBuilder outputs = *BatchBuilder::Create(network->output_spec(), kRows);
    EXPECT_THAT(network->Infer(inputs.view(), outputs.view()), IsOk());
    return {outputs.column<float>(0).begin(), outputs.column<float>(0).end()};
  }

  // Returns E[min q - alpha log pi] of each row.
  std::vector<double> Values(const std::string& prefix) {
    const std::vector<float> logit = Outputs(sac_.actor, prefix);
    const std::vector<float> q0 = Outputs(sac_.critics[0], prefix);
    const std::vector<float> q1 = Outputs(sac_.critics[1], prefix);
    std::vector<double> values;
    entropy_ = 0;
    for (size_t i = 0; i < kRows; ++i) {
      std::vector<size_t> legal;
      for (size_t at = i * kActions; at < (i + 1) * kActions; ++at) {
        if (!masked_ || Mask(prefix)[at] != 0) legal.push_back(at);
      }
      double sum = 0;
      for (const size_t at : legal) sum += std::exp(logit[at]);
      double value = 0;
      for (const size_t at : legal) {
        const double p = std::exp(logit[at]) / sum;
        value += p * (std::min(q0[at], q1[at]) - kAlpha * std::log(p));
        entropy_ -= p * std::log(p) / kRows;
      }
      values.push_back(value);
    }
    return values;
  }

  absl::Span<const uint8_t> Mask(const std::string& prefix) {
    return ActionMaskOf(batch_.view(), *batch_.spec().Find(prefix + "/action_mask"));
  }

  Sac& sac_;
  const Batch& batch_;
  const bool masked_;
  double entropy_ = 0;
};

TEST(DiscreteSacTest, LossesAgreeWithBruteForce) {
  for (const bool masked : {false, true}) {
    const SpecPtr observation = masked ? MaskedObservation(kActions) : VectorObservation();
    DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(Options(), observation));
    const Batch batch = Transitions(observation);
    Reference reference(&sac, batch, masked);
    const double critic_loss = reference.CriticLoss();
    const double actor_loss = reference.ActorLoss();
    const double entropy = reference.Entropy();
    std::vector<LearnStep> steps;
    ASSERT_THAT(sac.policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
    EXPECT_NEAR(*steps[0].scalars.Get("critic_loss"), critic_loss, 1e-5) << masked;
    EXPECT_NEAR(*steps[0].scalars.Get("actor_loss"), actor_loss, 1e-5) << masked;
    EXPECT_NEAR(*steps[0].scalars.Get("entropy"), entropy, 1e-5) << masked;
  }
}

TEST(DiscreteSacTest, TheActorsGradientAgreesWithFiniteDifferences) {
  DiscreteSacOptions options = Options();
  options.actor_adam.lr = 0;
  options.critic_adam.lr = 0;  // the networks stay as they are
  DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(options, VectorObservation()));
  const Batch batch = Transitions(VectorObservation());
  std::vector<LearnStep> steps;
  ASSERT_THAT(sac.policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  Reference reference(&sac, batch, /*masked=*/false);
  ExpectGradientsOf([&] { return reference.ActorLoss(); }, sac.actor->parameters(),
                    sac.actor->gradients(), 1.0f / 256, 1e-3);
}

TEST(DiscreteSacTest, TheTemperatureFollowsTheEntropy) {
  const auto alpha = [](double target, bool learn) {
    DiscreteSacOptions options = Options();
    options.target_entropy = target;
    options.learn_alpha = learn;
    absl::StatusOr<Sac> sac = Create(options, VectorObservation());
    EXPECT_THAT(sac, IsOk());
    std::vector<LearnStep> steps;
    EXPECT_THAT(sac->policy->learn_mode()->Forward(Transitions(VectorObservation()), {}, &steps),
                IsOk());
    return *steps[0].scalars.Get("alpha");
  };
  EXPECT_LT(alpha(0, true), kAlpha);
  EXPECT_GT(alpha(std::log(3.0) - 1e-6, true), kAlpha);
  EXPECT_NEAR(alpha(0, false), kAlpha, 1e-6);
}

TEST(DiscreteSacTest, ErrorsNameTheIterationAndTheRow) {
  DING_ASSERT_OK_AND_ASSIGN(Sac sac, Create(Options(), VectorObservation()));
  const Batch batch = Transitions(VectorObservation());
  const_cast<float&>(batch.column<float>("reward")[1]) = std::numeric_limits<float>::quiet_NaN();
  std::vector<LearnStep> steps;
  EXPECT_THAT(sac.policy->learn_mode()->Forward(batch, {}, &steps),
              IsInternal("discrete_sac, train iteration 1", "'reward', row 1"));
}

TEST(DiscreteSacTest, RefusesOptionsThatAreOutOfRange) {
  DiscreteSacOptions options = Options();
  options.alpha = 0;
  EXPECT_THAT(Create(options, VectorObservation()).status(), IsInvalid("alpha is 0"));
  options = Options();
  options.target_entropy = 1.2;
  EXPECT_THAT(
      Create(options, VectorObservation()).status(),
      IsInvalid("target_entropy is 1.2, must be in [0, 1.09861], the entropy of 3 equally"));
  options = Options();
  options.target_update_theta = 0;
  EXPECT_THAT(Create(options, VectorObservation()).status(), IsInvalid("theta is 0"));
}

PolicyConfig Config(const std::string& params) {
  PolicyConfig config;
  DING_CHECK(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("type: 'discrete_sac' params { [type.googleapis.com/ding.DiscreteSacConfig] { ",
                   "model { encoder_hidden_size: 8 head_layer_num: 0 } ", params, " } }"),
      &config));
  return config;
}

absl::StatusOr<std::unique_ptr<Policy>> CreateFromConfig(const std::string& params,
                                                         SpecPtr action = DiscreteAction()) {
  PolicyContext context;
  context.observation = VectorObservation();
  context.action = std::move(action);
  return create_policy(Config(params), context);
}

TEST(DiscreteSacFactory, HasTwoCriticsWithTheLayersOfTheActorOrTheirOwn) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, CreateFromConfig(""));
  EXPECT_EQ(policy->learn_mode()->info(),
            "discrete_sac on mlp 4-8, logit 3: 67 parameters; 2 critics, mlp 4-8, q 3: 67 "
            "parameters");
  DING_ASSERT_OK_AND_ASSIGN(
      const auto wide, CreateFromConfig("critic { encoder_hidden_size: 9 head_layer_num: 0 }"));
  EXPECT_THAT(wide->learn_mode()->info(), HasSubstr("2 critics, mlp 4-9, q 3"));
}

TEST(DiscreteSacFactory, EveryFieldHasAnEffect) {
  const auto learn = [](const std::string& params) {
    const auto policy = CreateFromConfig(params);
    EXPECT_THAT(policy, IsOk());
    std::vector<LearnStep> steps;
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT((*policy)->learn_mode()->Forward(Transitions(VectorObservation()), {}, &steps),
                  IsOk());
    }
    return *steps[0].scalars.Get("actor_loss") + *steps[0].scalars.Get("critic_loss") +
           *steps[0].scalars.Get("alpha");
  };
  const double plain = learn("");
  for (const char* const params :
       {"actor_learning_rate: 0.1", "critic_learning_rate: 0.1", "target_update_theta: 0.5",
        "alpha: 0.3", "learn_alpha: false", "alpha_learning_rate: 0.1",
        "target_entropy: 0.1 alpha_learning_rate: 0.1"}) {
    EXPECT_NE(learn(params), plain) << params;
  }
  EXPECT_NE(learn("target_entropy: 0.1 alpha_learning_rate: 0.1"),
            learn("alpha_learning_rate: 0.1"));
  // Adam hides the length of a gradient, unless it is as short as its eps.
  EXPECT_NE(learn("grad_clip_norm: 1e-8"), plain);
}

TEST(DiscreteSacFactory, ErrorsListAllProblems) {
  EXPECT_THAT(
      CreateFromConfig("actor_learning_rate: -1 critic_learning_rate: -2 target_update_theta: 0 "
                       "grad_clip_norm: -3 alpha: 0 alpha_learning_rate: -4 target_entropy: -5"),
      IsInvalid("policy type 'discrete_sac'", "actor_learning_rate is -1",
                "critic_learning_rate is -2", "target_update_theta is 0", "grad_clip_norm is -3",
                "alpha is 0", "alpha_learning_rate is -4", "target_entropy is -5"));
  EXPECT_THAT(
      CreateFromConfig("critic { type: 'cnn' }", *MakeSpec({Box("action", {1}, {-1}, {1})})),
      IsInvalid("critic: ", "discrete_sac chooses"));
  EXPECT_THAT(CreateFromConfig("target_entropy: 2"), IsInvalid("target_entropy is 2"));
}

TEST(DiscreteSacFactory, DescribesItsActor) {
  DING_ASSERT_OK_AND_ASSIGN(const ActorDescription actor,
                            DescribeActor(Config(""), *DiscreteAction()));
  EXPECT_EQ(actor.parameters, "model/actor");
  EXPECT_EQ(actor.head, kCategoricalHead);
}

}  // namespace
}  // namespace ding
