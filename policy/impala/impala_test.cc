// IMPALA on the networks that it is used with, made by the factories.
#include "ding_worker/policy/impala/impala.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/impala/impala.pb.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr double kRhoBar = 1.1;
constexpr double kCBar = 0.9;
constexpr double kLambda = 0.95;
constexpr double kEntropyWeight = 0.05;

struct Space {
  std::string name;
  SpecPtr observation;
  SpecPtr action;
  bool critic;  // of its own
  bool normalize;
  bool v_trace = true;

  double rho_bar() const { return v_trace ? kRhoBar : 1; }
  double c_bar() const { return v_trace ? kCBar : 1; }
};

absl::StatusOr<std::unique_ptr<Policy>> Create(const Space& space, uint64_t seed,
                                               PolicyModes modes) {
  ImpalaConfig impala;
  ActorCriticConfig& common = *impala.mutable_actor_critic();
  // Smooth: finite differences hold.
  common.mutable_model()->set_activation(NetworkConfig::TANH);
  common.mutable_model()->add_encoder_hidden_size(12);
  common.set_entropy_weight(kEntropyWeight);
  if (!space.action->field(0).is_discrete()) common.set_initial_log_std(-0.5);
  common.set_normalize_obs(space.normalize);
  common.set_gae_lambda(kLambda);
  common.set_grad_clip_norm(0);
  if (space.critic) *common.mutable_critic() = common.model();
  impala.set_rho_bar(space.rho_bar());
  impala.set_c_bar(space.c_bar());
  impala.set_v_trace(space.v_trace);
  PolicyConfig config;
  config.set_type("impala");
  config.mutable_params()->PackFrom(impala);
  return create_policy(config, {space.observation, space.action, seed, modes});
}

std::vector<Space> Spaces() {
  const SpecPtr discrete = DiscreteAction();
  const SpecPtr multi = *MakeSpec({MultiDiscrete("action", {2, 3})});
  const SpecPtr box = *MakeSpec({Box("action", {2}, {-1, 0}, {1, 5})});
  return {{"discrete", VectorObservation(), discrete, true, false},
          {"discrete_shared", VectorObservation(), discrete, false, true},
          {"multi_discrete_masked", MaskedObservation(5), multi, true, true},
          {"box", VectorObservation(), box, true, true},
          {"box_shared", VectorObservation(), box, false, false},
          {"without_v_trace", VectorObservation(), discrete, true, false, /*v_trace=*/false}};
}

// Returns `batch` as `edit` changes it.
Batch Edited(const Batch& batch, const std::function<void(const BatchBuilder&)>& edit) {
  BatchBuilder builder = *BatchBuilder::Create(batch.spec_ptr(), batch.rows());
  CopyRows(batch.view(), builder.view(), 0);
  edit(builder);
  return std::move(builder).Seal(batch.rows()).AsSequences(batch.sequence_length());
}

class ImpalaMlp : public testing::TestWithParam<Space> {
 protected:
  static constexpr int64_t kLength = 6;
  static constexpr int64_t kRows = 4 * kLength;

  void SetUp() override {
    DING_ASSERT_OK_AND_ASSIGN(made_, Create(GetParam(), 5, PolicyModes()));
    policy_ = static_cast<ImpalaPolicy*>(made_.get());
  }
  Batch MakeBatch(uint64_t seed) const {
    return MakeImpalaTestBatch(GetParam().observation, GetParam().action, kRows, kLength, seed);
  }
  // Returns MakeBatch(seed) with the actions that the policy takes now, and their
  // log-probabilities.
  Batch ActOn(uint64_t seed) {
    return Edited(MakeBatch(seed), [this](const BatchBuilder& builder) {
      CollectMode& collect = *policy_->collect_mode();
      const Spec& output = *collect.output_spec();
      const BatchBuilder out = *BatchBuilder::Create(collect.output_spec(), kRows);
      ASSERT_THAT(collect.Forward(builder.view(), {}, {}, out.view()), IsOk());
      for (int i = 0; i < output.size(); ++i) {
        const int to = *builder.spec().Find(output.field(i).name);
        const std::byte* const from = out.view().raw_column(i);
        std::copy(from, from + kRows * output.row_bytes(i), builder.view().raw_column(to));
      }
    });
  }

  std::unique_ptr<Policy> made_;
  ImpalaPolicy* policy_ = nullptr;
};

// What the loss is by its definition, in float64. Targets and advantages are those of the
// parameters with which it is made.
class Definition {
 public:
  Definition(const Space& space, const Batch& batch, ActorCritic* networks)
      : space_(space),
        batch_(batch),
        networks_(*networks),
        length_(batch.sequence_length()),
        log_prob_(static_cast<size_t>(batch.rows())),
        entropy_(log_prob_.size()),
        value_(log_prob_.size()),
        next_value_(log_prob_.size()) {
    const int next_obs = *batch.spec().Find(NextObsColumn(space.observation->field(0).name));
    EXPECT_THAT(networks_.Values(batch.view().Fields(space.observation.get(), next_obs),
                                 absl::MakeSpan(next_value_)),
                IsOk());
    Evaluate();
    for (int64_t i = 0; i < batch.rows(); ++i) {
      ratio_.push_back(space.v_trace ? std::exp(log_prob_[i] - Column("log_prob")[i]) : 1);
    }
    for (int64_t i = 0; i < batch.rows(); ++i) {
      target_.push_back(Counts(i) ? Target(i) : 0);
      advantage_.push_back(Counts(i) ? Advantage(i) : 0);
    }
  }

  double Loss() {
    Evaluate();
    double sum = 0;
    double rows = 0;
    for (int64_t i = 0; i < batch_.rows(); ++i) {
      if (!Counts(i)) continue;
      sum += -advantage_[i] * log_prob_[i] + 0.25 * std::pow(value_[i] - target_[i], 2) -
             kEntropyWeight * entropy_[i];
      rows += 1;
    }
    return sum / rows;
  }
  const std::vector<double>& ratio() const { return ratio_; }

 private:
  absl::Span<const float> Column(const char* name) const { return batch_.column<float>(name); }
  bool Counts(int64_t i) const { return batch_.column<uint8_t>("mask")[i] != 0; }
  bool IsEnd(int64_t i) const {
    return (i + 1) % length_ == 0 || !Counts(i + 1) || Column("discount")[i] == 0 ||
           batch_.column<uint8_t>("is_first")[i + 1] != 0;
  }
  double Delta(int64_t i) const {
    const double next = IsEnd(i) ? next_value_[i] : value_[i + 1];
    return std::min(space_.rho_bar(), ratio_[i]) *
           (Column("reward")[i] + Column("discount")[i] * next - value_[i]);
  }
  double Target(int64_t i) const {
    double sum = value_[i];
    double weight = 1;
    for (int64_t j = i;; ++j) {
      sum += weight * Delta(j);
      if (IsEnd(j)) return sum;
      weight *= Column("discount")[j] * kLambda * std::min(space_.c_bar(), ratio_[j]);
    }
  }
  double Advantage(int64_t i) const {
    const double next = IsEnd(i) ? next_value_[i] : Target(i + 1);
    return std::min(space_.rho_bar(), ratio_[i]) *
           (Column("reward")[i] + Column("discount")[i] * next - value_[i]);
  }
  void Evaluate() {
    const int taken = *batch_.spec().Find(networks_.distribution().taken_field().name);
    EXPECT_THAT(networks_.Act(batch_.view(), absl::MakeSpan(value_)), IsOk());
    networks_.distribution().LogProb(batch_.view(), taken, absl::MakeSpan(log_prob_));
    networks_.distribution().Entropy(absl::MakeSpan(entropy_));
  }

  const Space& space_;
  const Batch batch_;
  ActorCritic& networks_;
  const int64_t length_;
  std::vector<float> log_prob_, entropy_, value_, next_value_;
  std::vector<double> ratio_, target_, advantage_;
};

// The policy that acted is several updates old: ratios are far from 1, above rho_bar and below
// c_bar.
TEST_P(ImpalaMlp, TheGradientOnStaleDataAgreesWithTheDefinitionByFiniteDifferences) {
  ActorCritic& networks = policy_->actor_critic();
  const Batch stale = ActOn(9);
  std::vector<LearnStep> steps;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    ASSERT_THAT(policy_->learn_mode()->Forward(MakeBatch(seed), {{"lr", 0.03}}, &steps), IsOk());
  }
  Definition definition(GetParam(), stale, &networks);
  const double expected_loss = definition.Loss();
  if (GetParam().v_trace) {
    EXPECT_GT(*std::max_element(definition.ratio().begin(), definition.ratio().end()), 1.3);
    EXPECT_LT(*std::min_element(definition.ratio().begin(), definition.ratio().end()), 0.7);
  }
  const std::vector<ParameterGroup> groups = networks.Groups();
  std::vector<std::vector<double>> expected;
  for (const ParameterGroup& group : groups) {
    expected.emplace_back();
    for (float& parameter : group.parameters) {
      constexpr float kStep = 1.0f / 512;
      const float before = parameter;
      parameter = before + kStep;
      const double above = definition.Loss();
      parameter = before - kStep;
      const double below = definition.Loss();
      parameter = before;
      expected.back().push_back((above - below) / (2 * kStep));
    }
  }
  ASSERT_THAT(policy_->learn_mode()->Forward(stale, {{"lr", 0}}, &steps), IsOk());
  EXPECT_NEAR(*steps[0].scalars.Get("total_loss"), expected_loss, 1e-5);
  double largest = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < expected[g].size(); ++i) {
      EXPECT_NEAR(groups[g].gradients[i], expected[g][i], 2e-3) << groups[g].name << " " << i;
      largest = std::max(largest, std::abs(expected[g][i]));
    }
  }
  EXPECT_GT(largest, 0.05) << "the tolerance would hide an error";
}

TEST_P(ImpalaMlp, AllRatiosOfTheCurrentPolicyAreOne) {
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy_->learn_mode()->Forward(ActOn(3), {}, &steps), IsOk());
  EXPECT_NEAR(*steps[0].scalars.Get("mean_ratio"), 1, 1e-5);
  EXPECT_NEAR(*steps[0].scalars.Get("approx_kl"), 0, 1e-5);
  EXPECT_EQ(*steps[0].scalars.Get("clip_fraction"), 0) << "rho_bar is above 1, or nothing differs";
}

TEST_P(ImpalaMlp, PaddingChangesNothing) {
  DING_ASSERT_OK_AND_ASSIGN(const auto other, Create(GetParam(), 5, PolicyModes()));
  const Batch batch = MakeBatch(1);
  const Batch changed = Edited(batch, [](const BatchBuilder& builder) {
    const auto mask = builder.column<uint8_t>(*builder.spec().Find(kColumnMask));
    const auto reward = builder.column<float>(*builder.spec().Find(kColumnReward));
    const auto obs = builder.column<float>(
        *builder.spec().Find(WithoutActionMask(GetParam().observation)->field(0).name));
    const size_t width = obs.size() / mask.size();
    int padding = 0;
    for (size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] != 0) continue;
      reward[i] = 100;
      for (size_t j = 0; j < width; ++j) obs[i * width + j] = -0.5f;
      ++padding;
    }
    ASSERT_GT(padding, 0);
  });
  std::vector<LearnStep> steps, steps_of_changed;
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(policy_->learn_mode()->Forward(batch, {}, &steps), IsOk());
    ASSERT_THAT(other->learn_mode()->Forward(changed, {}, &steps_of_changed), IsOk());
    EXPECT_NEAR(*steps[0].scalars.Get("total_loss"), *steps_of_changed[0].scalars.Get("total_loss"),
                1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Spaces, ImpalaMlp, testing::ValuesIn(Spaces()),
                         [](const auto& info) { return info.param.name; });

class ImpalaBatches : public testing::Test {
 protected:
  ImpalaBatches() : policy_(*Create(Spaces()[0], 1, PolicyModes())) {}
  Batch MakeBatch() const {
    return MakeImpalaTestBatch(Spaces()[0].observation, Spaces()[0].action, 24, 6, 1);
  }
  absl::Status Learn(const Batch& batch) {
    std::vector<LearnStep> steps;
    return policy_->learn_mode()->Forward(batch, {}, &steps);
  }
  // Sets row `row` of column `name` of a batch, and learns from it.
  template <typename T>
  absl::Status LearnWith(const char* name, size_t row, T value) {
    return Learn(Edited(MakeBatch(), [&](const BatchBuilder& builder) {
      builder.column<T>(*builder.spec().Find(name))[row] = value;
    }));
  }
  std::unique_ptr<Policy> policy_;
};

TEST_F(ImpalaBatches, BatchesThatCannotBeLearnedFromAreRefused) {
  EXPECT_THAT(Learn(MakeBatch()), IsOk());
  EXPECT_THAT(LearnWith<uint8_t>("burn_in", 7, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("row 7 is burn-in")));
  EXPECT_THAT(LearnWith<int32_t>("n_step", 3, 2),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("row 3 sums the rewards of 2 steps, expected 1")));
  EXPECT_THAT(LearnWith<uint8_t>("mask", 2, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("row 3 of sequence 0 follows padding")));
  EXPECT_THAT(LearnWith<uint8_t>("mask", 6, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("sequence 1 begins with padding (row 6)")));
  EXPECT_THAT(LearnWith<float>("log_prob", 4, NAN),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("'log_prob', row 4 holds nan")));
  EXPECT_THAT(LearnWith<int64_t>("action", 4, 3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("row 4 holds 3")));
}

TEST_F(ImpalaBatches, ImportanceWeightsAreRefused) {
  const Batch batch = MakeBatch();
  std::vector<FieldSpec> fields(batch.spec().fields().begin(), batch.spec().fields().end());
  fields.push_back(Scalar(kColumnWeight, DType::kFloat32));
  BatchBuilder builder = *BatchBuilder::Create(*MakeSpec(std::move(fields)), batch.rows());
  CopyRows(batch.view(), builder.view(), 0);
  for (float& weight : builder.column<float>(batch.spec().size())) weight = 1;
  EXPECT_THAT(Learn(std::move(builder).Seal(24).AsSequences(6)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("importance weights")));
}

TEST_F(ImpalaBatches, EntropyWeightAndLearningRateAreThoseOfTheCall) {
  std::vector<LearnStep> steps;
  const auto learn = [&](const NamedValues& settings) {
    EXPECT_THAT(policy_->learn_mode()->Forward(MakeBatch(), settings, &steps), IsOk());
    const NamedValues& scalars = steps.at(0).scalars;
    return (*scalars.Get("policy_loss") + 0.5 * *scalars.Get("value_loss") -
            *scalars.Get("total_loss")) /
           *scalars.Get("entropy");
  };
  EXPECT_NEAR(learn({{"entropy_weight", 0.5}, {"lr", 0}}), 0.5, 1e-9);
  EXPECT_EQ(*steps[0].scalars.Get("cur_lr"), 0);
  EXPECT_NEAR(learn({}), kEntropyWeight, 1e-9);
  EXPECT_EQ(*steps[0].scalars.Get("cur_lr"), 0.0003);
  EXPECT_THAT(policy_->learn_mode()->Forward(MakeBatch(), {{"entropy_weight", -1}}, &steps),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("entropy_weight is -1")));
}

std::vector<PolicyConformanceCase> Cases() {
  std::vector<PolicyConformanceCase> cases;
  for (const Space& space : Spaces()) {
    cases.push_back(
        {space.name,
         [space](uint64_t seed, PolicyModes modes) { return Create(space, seed, modes); },
         space.observation, space.action, /*learns=*/true,
         [](const SpecPtr& observation, const SpecPtr& action, int64_t rows, uint64_t seed) {
           return MakeImpalaTestBatch(observation, action, rows, /*length=*/4, seed);
         },
         kColumnLogProb});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Impala, PolicyConformance, testing::ValuesIn(Cases()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace ding
