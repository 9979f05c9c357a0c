// Compares losses by autograd with ours, in all policies that take them, and tests what is refused.
#include "ding_worker/policy/torch/torch_loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ATen/ATen.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "torch/types.h"

namespace ding {
namespace {

using testing::HasSubstr;

// A policy with the loss of its own, and the same loss by autograd.
struct Case {
  std::string name;
  std::string config;  // of the policy
  std::string losses;  // its fields `loss` and `actor_loss`
  bool continuous = false;
  bool on_policy = false;
};

constexpr char kDqn[] =
    "type: 'dqn' priority: true params { [type.googleapis.com/ding.DqnConfig] { "
    "model { encoder_hidden_size: [16, 8] } ";
constexpr char kPpo[] =
    "type: 'ppo' batch_size: 6 params { [type.googleapis.com/ding.PpoConfig] { "
    "actor_critic { model { encoder_hidden_size: 16 } entropy_weight: 0.02 } ";
constexpr char kContinuous[] = "continuous { model { encoder_hidden_size: 16 } }";
constexpr char kCriticsLoss[] = "loss { type: 'critics_autograd' } ";

std::vector<Case> Cases() {
  const std::string sac =
      absl::StrCat("type: 'sac' params { [type.googleapis.com/ding.SacConfig] { ", kContinuous);
  const std::string td3 =
      absl::StrCat("type: 'td3' params { [type.googleapis.com/ding.Td3Config] { ", kContinuous,
                   " actor_update_freq: 1");
  const std::string td = "loss { type: 'td_autograd' }";
  const std::string ppo = "loss { type: 'ppo_autograd' }";
  return {
      {"DoubleDqn", absl::StrCat(kDqn, "double_dqn: true } }"), td},
      {"ThreeStepDqn", absl::StrCat("nstep: 3 ", kDqn, "double_dqn: false } }"), td},
      {"Ppo", absl::StrCat(kPpo, "epoch_per_collect: 1 } }"), ppo, false, true},
      {"PpoWithClippedValues",
       absl::StrCat(kPpo, "epoch_per_collect: 2 value_clip: 0.3 target_entropy: 0.5 } }"), ppo,
       true, true},
      {"Sac", absl::StrCat(sac, "} }"),
       absl::StrCat(kCriticsLoss, "actor_loss { type: 'sac_actor_autograd' }"), true},
      {"Td3", absl::StrCat(td3, "} }"),
       absl::StrCat(kCriticsLoss, "actor_loss { type: 'td3_actor_autograd' }"), true},
  };
}

PolicyConfig ConfigOf(const std::string& text) {
  PolicyConfig config;
  DING_CHECK(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

SpecPtr ActionOf(const Case& of) { return of.continuous ? BoxAction() : DiscreteAction(); }
SpecPtr ObservationOf(const Case& of) {
  return of.continuous ? VectorObservation() : MaskedObservation(3);
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const Case& of, const std::string& losses,
                                               uint64_t seed = 3,
                                               PolicyModes modes = PolicyModes()) {
  return create_policy(ConfigOf(absl::StrCat(of.config, " ", losses)),
                       {ObservationOf(of), ActionOf(of), seed, modes});
}

Batch BatchOf(const Case& of, int64_t rows, uint64_t seed) {
  return of.on_policy ? MakeOnPolicyBatch(ObservationOf(of), ActionOf(of), rows, seed)
                      : MakeTransitionBatch(ObservationOf(of), ActionOf(of), rows, seed);
}

StateDict StateOf(Policy* policy) {
  StateDict state;
  EXPECT_THAT(policy->learn_mode()->SaveModel(&state), IsOk());
  EXPECT_THAT(policy->learn_mode()->SaveTrainState(&state), IsOk());
  return state;
}

std::string CaseName(const testing::TestParamInfo<Case>& info) { return info.param.name; }

class AutogradPolicy : public testing::TestWithParam<Case> {};

// After one step the first moments of Adam are a tenth of the gradients.
TEST_P(AutogradPolicy, HasTheGradientsOfTheLossByHand) {
  Case of = GetParam();
  const int64_t rows = of.on_policy ? 6 : 32;  // one minibatch
  for (uint64_t seed = 0; seed < 5; ++seed) {
    DING_ASSERT_OK_AND_ASSIGN(const auto by_hand, Create(of, ""));
    DING_ASSERT_OK_AND_ASSIGN(const auto autograd, Create(of, of.losses));
    const Batch batch = BatchOf(of, rows, seed);
    std::vector<LearnStep> a, b;
    ASSERT_THAT(by_hand->learn_mode()->Forward(batch, {}, &a), IsOk());
    ASSERT_THAT(autograd->learn_mode()->Forward(batch, {}, &b), IsOk());
    ASSERT_EQ(a.size(), b.size());
    for (const std::string& name : by_hand->learn_mode()->monitor_vars()) {
      const double expected = *a[0].scalars.Get(name);
      EXPECT_NEAR(*b[0].scalars.Get(name), expected, 1e-5 * (1 + std::abs(expected))) << name;
    }
    EXPECT_EQ(a[0].priority, b[0].priority);
    if (a.size() > 1) continue;  // later steps begin at other parameters
    const StateDict expected = StateOf(by_hand.get());
    const StateDict found = StateOf(autograd.get());
    int compared = 0;
    for (const auto& [name, tensor] : expected.tensors()) {
      if (!absl::EndsWith(name, "first_moment")) continue;
      const absl::Span<const float> x = tensor.data<float>();
      const absl::Span<const float> y = found.tensors().Find(name)->data<float>();
      float largest = 0;
      for (const float value : x) largest = std::max(largest, std::abs(value));
      ASSERT_GT(largest, 0) << name;
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-5 * largest) << name;
      ++compared;
    }
    EXPECT_GT(compared, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AutogradPolicy, testing::ValuesIn(Cases()), CaseName);

// Equal seeds give equal bytes, a resumed training equals an uninterrupted one, and so on.
std::vector<PolicyConformanceCase> ConformanceCases() {
  std::vector<PolicyConformanceCase> cases;
  for (const Case& of : Cases()) {
    PolicyConformanceCase made = {
        of.name,
        [of](uint64_t seed, PolicyModes modes) { return Create(of, of.losses, seed, modes); },
        ObservationOf(of), ActionOf(of)};
    if (of.on_policy) {
      made.make_batch = MakeOnPolicyBatch;
      made.needed_column = kColumnAdvantage;
    }
    cases.push_back(std::move(made));
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Autograd, PolicyConformance, testing::ValuesIn(ConformanceCases()),
                         testing::PrintToStringParamName());

// What the loss "faulty" does in this process: return the loss of dqn, or something wrong.
enum class Fault { kNone, kNoGradient, kShape, kNan, kDevice, kThrows, kOperation };
Fault fault = Fault::kNone;

TorchLossValue Faulty(const TorchBatch&, const Outputs& outputs, const Outputs&) {
  torch::Tensor sum;
  for (const auto& output : outputs.all()) {
    const auto squares = torch::square(output.second).reshape({output.second.size(0), -1}).sum(1);
    sum = sum.defined() ? sum + squares : squares;
  }
  switch (fault) {
    case Fault::kNoGradient:
      return sum.detach();
    case Fault::kShape:
      return sum.unsqueeze(1);
    case Fault::kNan:
      return sum / 0 - sum / 0;
    case Fault::kDevice:
      return sum.to(torch::Device("meta"));
    case Fault::kThrows:
      return outputs["no_such_output"];
    case Fault::kOperation:
      return sum + torch::zeros({7, 3, 5});
    case Fault::kNone:
      break;
  }
  return sum;
}
DING_REGISTER(LossRegistry(), "faulty", TorchLoss(Faulty), "as the test says");

torch::Tensor ReadsTargetQ(const TorchBatch&, const Outputs& outputs, const Outputs& target) {
  return torch::square(outputs["q"] - target["q"]).sum(1);
}
DING_REGISTER(LossRegistry(), "reads_target_q", TorchLoss(ReadsTargetQ), "without asking for it");

torch::Tensor ReadsTheValue(const TorchBatch& batch, const Outputs& outputs, const Outputs&) {
  return torch::square(outputs["value"] - batch["return"]);
}
DING_REGISTER(LossRegistry(), "reads_the_value", TorchLoss(ReadsTheValue), "of actor-critics");

struct FaultCase {
  Fault fault;
  std::string error;
};

class FaultyLoss : public testing::TestWithParam<Case> {};

TEST_P(FaultyLoss, IsRefusedWithItsIterationAndChangesNothing) {
  const Case& of = GetParam();
  const std::string rows = of.on_policy ? "6" : "32";
  const std::vector<FaultCase> faults = {
      {Fault::kNoGradient,
       "loss 'faulty': returned a loss without a gradient, expected one that depends on an output"},
      {Fault::kShape,
       absl::StrCat("loss 'faulty': returned a loss Float[", rows,
                    ", 1], expected a scalar or one number for each of the ", rows, " rows")},
      {Fault::kNan, "loss 'faulty': the loss of row 0 is nan, expected a finite number"},
      {Fault::kDevice, "loss 'faulty': returned a loss on meta, expected it on cpu"},
      {Fault::kThrows, "loss 'faulty': there is no outputs[\"no_such_output\"], expected one of: "},
      {Fault::kOperation,
       "loss 'faulty': libtorch refuses an operation of the function: The size of"},
      {Fault::kOperation, "; the function was given batch "},
  };
  const std::vector<std::string> places =
      absl::StrContains(of.losses, "actor_loss")
          ? std::vector<std::string>{"loss { type: 'faulty' }", "actor_loss { type: 'faulty' }"}
          : std::vector<std::string>{"loss { type: 'faulty' }"};
  for (const std::string& place : places) {
    for (const FaultCase& each : faults) {
      DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(of, place));
      DING_ASSERT_OK_AND_ASSIGN(const auto twin, Create(of, place));
      const Batch batch = BatchOf(of, of.on_policy ? 6 : 32, 1);
      std::vector<LearnStep> steps;
      for (int i = 0; i < 2; ++i) {
        ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
        ASSERT_THAT(twin->learn_mode()->Forward(batch, {}, &steps), IsOk());
      }
      fault = each.fault;
      const absl::Status status = policy->learn_mode()->Forward(batch, {}, &steps);
      fault = Fault::kNone;
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(status.message()), HasSubstr(each.error));
      // A learner adds the iteration to the errors of on-policy policies, which do not count.
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(of.on_policy ? "ppo, learn: minibatch 1: " : ", train iteration 3: "));
      ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
      ASSERT_THAT(twin->learn_mode()->Forward(batch, {}, &steps), IsOk());
      const StateDict found = StateOf(policy.get());
      const StateDict expected = StateOf(twin.get());
      for (const auto& [name, tensor] : expected.tensors()) {
        EXPECT_TRUE(BitwiseEqual(tensor, *found.tensors().Find(name))) << name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FaultyLoss, testing::ValuesIn(Cases()), CaseName);

TEST(LossForAnotherPolicy, IsRefusedWhenThePolicyIsMade) {
  const std::vector<Case> cases = Cases();
  const auto create = [&cases](size_t index, const std::string& losses) {
    return std::string(Create(cases[index], losses).status().message());
  };
  ASSERT_EQ(cases[2].name, "Ppo");
  EXPECT_THAT(create(2, "loss { type: 'munchausen_autograd' }"),
              HasSubstr("policy type 'ppo': loss 'munchausen_autograd' does not fit this policy: "
                        "there is no batch[\"action\"], expected one of: adv, return, weight"));
  EXPECT_THAT(create(0, "loss { type: 'ppo_autograd' }"),
              HasSubstr("loss 'ppo_autograd' does not fit this policy: there is no "));
  ASSERT_EQ(cases[5].name, "Td3");
  EXPECT_THAT(create(5, "actor_loss { type: 'sac_actor_autograd' }"),
              HasSubstr("there is no outputs[\"q1\"], expected one of: action, q0"));
  ASSERT_EQ(cases[4].name, "Sac");
  EXPECT_EQ(create(4, "actor_loss { type: 'sac_actor_autograd' }"), "");
  EXPECT_THAT(create(4, "actor_loss { type: 'critics_autograd' }"),
              HasSubstr("policy type 'sac': loss 'critics_autograd' does not fit this policy"));
  for (const size_t index : {4, 5}) {
    EXPECT_THAT(create(index, "loss { type: 'sac_actor_autograd' }"),
                HasSubstr("loss 'sac_actor_autograd' does not fit this policy: there is no "));
  }
  EXPECT_THAT(create(0, "loss { type: 'reads_target_q' }"),
              HasSubstr("there is no target[\"q\"], expected one of: next_q, next_value; a loss "
                        "with reads_target_of_obs has it, too: register TorchLoss("));
  const Case a2c = {"A2c", "type: 'a2c'", "", false, true};
  EXPECT_THAT(std::string(Create(a2c, "loss { type: 'td_autograd' }").status().message()),
              HasSubstr("policy type 'a2c': loss 'td_autograd' does not fit this policy"));
  EXPECT_THAT(Create(a2c, "loss { type: 'reads_the_value' }"), IsOk());
}

// The loss of dqn by hand, as one's own.
class TdByHand : public LossFunction {
 public:
  absl::StatusOr<LossValue> Compute(const LossInput& input) override {
    const auto floats = [](const LossColumn& column) {
      return std::get<absl::Span<const float>>(column.values);
    };
    LossValue value;
    value.td_error.resize(static_cast<size_t>(input.rows));
    value.loss =
        ComputeTdLoss(
            {input.outputs[0].values, std::get<absl::Span<const int64_t>>(input.batch[0].values),
             floats(input.batch[1]), floats(input.batch[2]), floats(input.target[1]), input.weight},
            {}, absl::MakeSpan(value.td_error), input.outputs[0].gradient)
            .loss;
    return value;
  }
};

std::unique_ptr<LossFunction> Registered(const std::string& type) {
  LossConfig config;
  config.set_type(type);
  return *LossRegistry().Create(config);
}

TEST(GradientCheck, AutogradAgreesWithTheLossByHandAndFiniteDifferences) {
  RandomLossInput columns(RandomLossInput::kDqn, 32, 1);
  TdByHand by_hand;
  ExpectGradientsOf(&by_hand, columns.input());
  ExpectSameLoss(Registered("td_autograd").get(), &by_hand, columns.input());
}

TEST(GradientCheck, AllLossesByAutogradAgreeWithFiniteDifferences) {
  const std::pair<const char*, RandomLossInput::Place> kLosses[] = {
      {"td_autograd", RandomLossInput::kDqn},
      {"munchausen_autograd", RandomLossInput::kDqn},
      {"ppo_autograd", RandomLossInput::kActorCritic},
      {"critics_autograd", RandomLossInput::kCritics},
      {"sac_actor_autograd", RandomLossInput::kActor},
      {"td3_actor_autograd", RandomLossInput::kActor}};
  for (const auto& [type, place] : kLosses) {
    SCOPED_TRACE(type);
    // The loss is float32 here: a small step would be lost in it.
    RandomLossInput columns(place, 16, 2);
    ExpectGradientsOf(Registered(type).get(), columns.input(), 1.0f / 256, 3e-3);
  }
}

TEST(TorchLoss, RowsAreWeightedAndPaddingDoesNotCount) {
  RandomLossInput columns(RandomLossInput::kActorCritic, 4, 1);  // the last row is padding
  const std::vector<float> weight = {1, 0.5f, 2, 9};
  columns.mutable_input()->weight = weight;
  const auto loss = MakeTorchLoss("mine", [](const TorchBatch&, const Outputs& outputs,
                                             const Outputs&) { return 3 * outputs["value"]; });
  DING_ASSERT_OK_AND_ASSIGN(const LossValue value, loss->Compute(columns.input()));
  const LossOutput& output = columns.input().outputs[2];
  EXPECT_THAT(output.gradient, testing::ElementsAre(1, 0.5f, 2, 0));
  EXPECT_NEAR(value.loss, output.values[0] + 0.5 * output.values[1] + 2 * output.values[2], 1e-5);
  EXPECT_THAT(columns.input().outputs[0].gradient, testing::Each(0)) << "it is not used";
}

TEST(TorchLoss, TdErrorsOfTheLossArePriorities) {
  Case of = Cases()[0];
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(of, "loss { type: 'munchausen_autograd' }"));
  DING_ASSERT_OK_AND_ASSIGN(const auto plain, Create(of, ""));
  const Batch batch = BatchOf(of, 32, 1);
  std::vector<LearnStep> a, b;
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &a), IsOk());
  ASSERT_THAT(plain->learn_mode()->Forward(batch, {}, &b), IsOk());
  ASSERT_EQ(a[0].priority.size(), 32u);
  EXPECT_NE(a[0].priority, b[0].priority);
  double sum = 0;
  for (const double priority : a[0].priority) sum += priority;
  EXPECT_NEAR(*a[0].scalars.Get("td_error"), sum / 32, 1e-5);
}

TEST(TorchLoss, WrongReportsAreRefused) {
  RandomLossInput columns(RandomLossInput::kDqn, 8, 1);
  const auto error = [&](const TorchLossFunction& function) {
    return std::string(
        MakeTorchLoss("mine", function)->Compute(columns.input()).status().message());
  };
  EXPECT_EQ(error([](const TorchBatch&, const Outputs& outputs, const Outputs&) {
              TorchLossValue value(outputs["q"].sum());
              value.td_error = outputs["q"];
              return value;
            }),
            "loss 'mine': returned a td_error Float[8, 3], expected one number for each of the 8 "
            "rows, of floating point");
  EXPECT_EQ(error([](const TorchBatch&, const Outputs& outputs, const Outputs&) {
              TorchLossValue value(outputs["q"].sum());
              value.scalars = {{"x", outputs["q"]}};
              return value;
            }),
            "loss 'mine': returned a scalar 'x' Float[8, 3], expected a scalar, of floating point");
  EXPECT_EQ(
      error([](const TorchBatch&, const Outputs&, const Outputs&) {
        return TorchLossValue(torch::Tensor());
      }),
      "loss 'mine': returned no loss, expected a scalar or one number for each of the 8 rows");
  EXPECT_EQ(error([](const TorchBatch&, const Outputs& outputs, const Outputs&) {
              return torch::sqrt(outputs["q"] * 0).sum();
            }),
            "loss 'mine': the gradient of output 'q' in row 0 is nan, expected a finite number");
  EXPECT_EQ(error([](const TorchBatch& batch, const Outputs& outputs, const Outputs&) {
              return outputs["q"].sum() * batch.number("clip_ratio");
            }),
            "loss 'mine': there is no batch.number(\"clip_ratio\"), expected one of: none");
}

TEST(OwnLoss, IsRefusedByPoliciesThatTakeNone) {
  const PolicyContext context = {VectorObservation(), DiscreteAction(), 0, PolicyModes()};
  const auto error = [&](const std::string& text) {
    return create_policy(ConfigOf(text), context).status();
  };
  EXPECT_THAT(error("type: 'c51' loss { type: 'td_autograd' }"),
              IsInvalid("policy type 'c51' takes no loss of your own, found 'td_autograd'",
                        "dqn, ppo, a2c, sac, td3, ddpg"));
  EXPECT_THAT(error("type: 'dqn' actor_loss { type: 'td_autograd' }"),
              IsInvalid("policy type 'dqn' takes no actor_loss of your own", "sac, td3, ddpg"));
  EXPECT_THAT(error("type: 'dqn' loss { type: 'td_autograt' }").message(),
              HasSubstr("unknown loss type 'td_autograt'"));
  EXPECT_THAT(error("type: 'dqn' loss { type: 'td_autograd' params { "
                    "[type.googleapis.com/ding.LossConfig] { type: 'x' } } }"),
              IsInvalid("loss", "td_autograd"));
}

}  // namespace
}  // namespace ding
