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
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/impala/impala.pb.h"
#include "ding_worker/policy/loss/actor_critic_loss.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/allocation.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

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
  EXPECT_THAT(LearnWith<uint8_t>("burn_in", 7, 1), IsInvalid("row 7 is burn-in"));
  EXPECT_THAT(LearnWith<int32_t>("n_step", 3, 2),
              IsInvalid("row 3 sums the rewards of 2 steps, expected 1"));
  EXPECT_THAT(LearnWith<uint8_t>("mask", 2, 0), IsInvalid("row 3 of sequence 0 follows padding"));
  EXPECT_THAT(LearnWith<uint8_t>("mask", 6, 0),
              IsInvalid("sequence 1 begins with padding (row 6)"));
  EXPECT_THAT(LearnWith<float>("log_prob", 4, NAN), IsInternal("'log_prob', row 4 holds nan"));
  EXPECT_THAT(LearnWith<int64_t>("action", 4, 3), IsInvalid("row 4 holds 3"));
}

TEST_F(ImpalaBatches, ImportanceWeightsAreRefused) {
  const Batch batch = MakeBatch();
  std::vector<FieldSpec> fields(batch.spec().fields().begin(), batch.spec().fields().end());
  fields.push_back(Scalar(kColumnWeight, DType::kFloat32));
  BatchBuilder builder = *BatchBuilder::Create(*MakeSpec(std::move(fields)), batch.rows());
  CopyRows(batch.view(), builder.view(), 0);
  for (float& weight : builder.column<float>(batch.spec().size())) weight = 1;
  EXPECT_THAT(Learn(std::move(builder).Seal(24).AsSequences(6)), IsInvalid("importance weights"));
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
              IsInvalid("entropy_weight is -1"));
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

// B sequences of T rows; sequence b has padding after its first counts[b] rows.
struct Case {
  size_t length = 5;
  std::vector<size_t> counts = {5, 3, 1};
  std::vector<float> behaviour_log_prob, log_prob, entropy, reward, discount, value, next_value;
  std::vector<uint8_t> end, mask;
  ImpalaLossOptions options;

  explicit Case(uint64_t seed) {
    Rng rng(seed, "impala_loss_test");
    const auto column = [&](std::vector<float>* values, double low, double high) {
      values->resize(length * counts.size());
      for (float& value : *values) value = static_cast<float>(rng.Uniform(low, high));
    };
    column(&behaviour_log_prob, -3, 0);
    column(&log_prob, -3, 0);
    column(&entropy, 0, 1);
    column(&reward, -1, 1);
    column(&discount, 0.5, 1);
    column(&value, -2, 2);
    column(&next_value, -2, 2);
    for (size_t i = 0; i < reward.size(); ++i) {
      mask.push_back(i % length < counts[i / length] ? 1 : 0);
      end.push_back(rng.UniformInt(4) == 0 ? 1 : 0);
      if (end.back() != 0 && rng.UniformInt(2) == 0) discount[i] = 0;
    }
    options.vtrace = {1.2, 0.9, 0.95};
    options.value_coef = 0.7;
    options.entropy_coef = 0.3;
  }

  // Targets and advantages of the definition in data/returns.h, in float64.
  double Ratio(size_t i) const {
    return options.use_vtrace ? std::exp(static_cast<double>(log_prob[i]) - behaviour_log_prob[i])
                              : 1;
  }
  double Rho(size_t i) const { return std::min(options.vtrace.rho_bar, Ratio(i)); }
  bool IsEnd(size_t i) const { return end[i] != 0 || (i + 1) % length == 0 || mask[i + 1] == 0; }
  double Delta(size_t i) const {
    return Rho(i) *
           (reward[i] + discount[i] * (IsEnd(i) ? next_value[i] : value[i + 1]) - value[i]);
  }
  double Target(size_t i) const {
    double sum = value[i];
    double weight = 1;
    for (size_t j = i;; ++j) {
      sum += weight * Delta(j);
      if (IsEnd(j)) return sum;
      weight *= discount[j] * options.vtrace.lambda * std::min(options.vtrace.c_bar, Ratio(j));
    }
  }
  double Advantage(size_t i) const {
    return Rho(i) *
           (reward[i] + discount[i] * (IsEnd(i) ? next_value[i] : Target(i + 1)) - value[i]);
  }

  struct Got {
    ImpalaLossResult result;
    std::vector<float> target, advantage, d_log_prob, d_entropy, d_value;
  };
  Got Compute() const {
    Got got;
    for (auto* const column :
         {&got.target, &got.advantage, &got.d_log_prob, &got.d_entropy, &got.d_value}) {
      column->resize(reward.size());
    }
    got.result = ComputeImpalaLoss(
        {static_cast<int64_t>(length),
         {behaviour_log_prob, log_prob, reward, discount, value, next_value, end},
         entropy,
         mask},
        options,
        {absl::MakeSpan(got.target), absl::MakeSpan(got.advantage), absl::MakeSpan(got.d_log_prob),
         absl::MakeSpan(got.d_entropy), absl::MakeSpan(got.d_value)});
    return got;
  }
};

// The loss for these targets and advantages, in float64.
double Loss(const Case& c, const std::vector<double>& target,
            const std::vector<double>& advantage) {
  double sum = 0;
  double rows = 0;
  for (size_t i = 0; i < target.size(); ++i) {
    if (c.mask[i] == 0) continue;
    const double error = c.value[i] - target[i];
    sum += -advantage[i] * c.log_prob[i] + c.options.value_coef * 0.5 * error * error -
           c.options.entropy_coef * c.entropy[i];
    rows += 1;
  }
  return sum / rows;
}

TEST(ImpalaLoss, LossAndGradientAgreeWithTheDefinitionAndFiniteDifferences) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const bool use_vtrace : {true, false}) {
      Case c(seed);
      c.options.use_vtrace = use_vtrace;
      if (!use_vtrace) c.options.vtrace = {1, 1, 0.95};
      std::vector<double> target, advantage;
      for (size_t i = 0; i < c.reward.size(); ++i) {
        target.push_back(c.mask[i] == 0 ? 0 : c.Target(i));
        advantage.push_back(c.mask[i] == 0 ? 0 : c.Advantage(i));
      }
      const Case::Got got = c.Compute();
      EXPECT_NEAR(got.result.loss, Loss(c, target, advantage), 1e-5);
      EXPECT_EQ(got.result.rows, 9);
      // No gradient flows into targets and advantages, so they stay as they are.
      const auto slope = [&](float* input) {
        constexpr float kStep = 1.0f / 64;
        const float before = *input;
        *input = before + kStep;
        const double above = Loss(c, target, advantage);
        *input = before - kStep;
        const double below = Loss(c, target, advantage);
        *input = before;
        return (above - below) / (2 * kStep);
      };
      for (size_t i = 0; i < c.reward.size(); ++i) {
        EXPECT_NEAR(got.d_log_prob[i], slope(&c.log_prob[i]), 1e-5) << i;
        EXPECT_NEAR(got.d_value[i], slope(&c.value[i]), 1e-5) << i;
        EXPECT_NEAR(got.d_entropy[i], slope(&c.entropy[i]), 1e-5) << i;
        if (c.mask[i] == 0) continue;
        EXPECT_NEAR(got.target[i], target[i], 1e-5) << i;
        EXPECT_NEAR(got.advantage[i], advantage[i], 1e-5) << i;
      }
    }
  }
}

TEST(ImpalaLoss, ReportsRatiosOfTheRowsThatCount) {
  const Case c(3);
  const Case::Got got = c.Compute();
  double ratio = 0, kl = 0, clipped = 0, entropy = 0;
  for (size_t i = 0; i < c.reward.size(); ++i) {
    if (c.mask[i] == 0) continue;
    ratio += c.Ratio(i) / 9;
    kl += (c.Ratio(i) - 1 - std::log(c.Ratio(i))) / 9;
    clipped += (c.Ratio(i) > 1.2 ? 1.0 : 0.0) / 9;
    entropy += c.entropy[i] / 9;
  }
  EXPECT_GT(clipped, 0);
  EXPECT_LT(clipped, 1);
  EXPECT_NEAR(got.result.mean_ratio, ratio, 1e-5);
  EXPECT_NEAR(got.result.approx_kl, kl, 1e-5);
  EXPECT_NEAR(got.result.clip_fraction, clipped, 1e-5);
  EXPECT_NEAR(got.result.entropy, entropy, 1e-5);
}

TEST(ImpalaLoss, WithoutAMaskAllRowsCount) {
  Case c(4);
  c.counts = {5, 5, 5};
  c.mask.assign(15, 1);
  const Case::Got masked = c.Compute();
  c.mask.clear();
  const Case::Got got = c.Compute();
  EXPECT_EQ(got.result.rows, 15);
  EXPECT_EQ(got.result.loss, masked.result.loss);
  EXPECT_EQ(got.d_log_prob, masked.d_log_prob);
}

TEST(ImpalaLossDeathTest, MistakesOfTheCallerEndTheProgram) {
  Case c(5);
  c.entropy.pop_back();
  EXPECT_DEATH(c.Compute(), "columns of different lengths; reward has 15");
  c = Case(5);
  c.mask.assign(15, 0);
  EXPECT_DEATH(c.Compute(), "all 15 rows are padding");
  c = Case(5);
  c.length = 4;
  EXPECT_DEATH(c.Compute(), "15 rows as sequences of 4");
}

// Learning and acting must not allocate while sizes repeat: the allocator would take as much time
// as a layer, and fragment memory over billions of calls.

TEST(ImpalaAllocation, AllocatesNothingWhileSizesRepeat) {
  const SpecPtr observation = *MakeSpec({Box("obs", {4})});
  const SpecPtr action = *MakeSpec({Discrete("action", 2)});
  MlpOptions mlp;
  mlp.encoder_hidden_size = {32, 16};
  ImpalaOptions options;
  options.policy.grad_clip_norm = 0.5;
  options.policy.networks.normalize_obs = true;
  const auto policy = *ImpalaPolicy::Create(
      *Mlp::Create(mlp, observation, *MakeSpec({Box("logit", {2})}), 0),
      *Mlp::Create(mlp, observation, *MakeSpec({ActorCritic::ValueField()}), 1), observation,
      action, options);
  const Batch batch = MakeImpalaTestBatch(observation, action, 64, 16, 1);
  const Batch obs = MakeObservationBatch(observation, 8, 1);
  ExpectAllocatesNothingWhileSizesRepeat(policy.get(), batch, obs);
}

}  // namespace
}  // namespace ding
