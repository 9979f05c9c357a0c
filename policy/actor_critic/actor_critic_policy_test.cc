// Tests of the common part of PPO and A2C, on networks that can be computed by hand.
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ActorCriticPolicyOptions Options() {
  ActorCriticPolicyOptions options;
  options.name = "test";
  options.update.loss = ComputePpoLoss;
  options.gamma = 0.9;
  options.gae_lambda = 0.8;
  options.adam.lr = 0.01;
  return options;
}

absl::StatusOr<std::unique_ptr<ActorCriticPolicy>> Create(
    const ActorCriticPolicyOptions& options, const SpecPtr& observation = VectorObservation(3),
    const SpecPtr& inputs = VectorObservation(3)) {
  return ActorCriticPolicy::Create(
      std::make_unique<LinearNetwork>(inputs, *MakeSpec({Box("logit", {4})}), 1),
      std::make_unique<LinearNetwork>(inputs, *MakeSpec({Box("value", {})}), 2), observation,
      DiscreteAction(4), options);
}

StateDict Saved(ActorCriticPolicy* policy) {
  StateDict state;
  EXPECT_THAT(policy->learn_mode()->SaveModel(&state), IsOk());
  EXPECT_THAT(policy->learn_mode()->SaveTrainState(&state), IsOk());
  return state;
}

bool SameState(const StateDict& a, const StateDict& b) {
  if (a.Names() != b.Names()) return false;
  return std::all_of(a.tensors().begin(), a.tensors().end(), [&b](const auto& entry) {
    return BitwiseEqual(entry.second, *b.tensors().Find(entry.first));
  });
}

// Rows as a collector returns them: observations, outputs of the collect mode, and rewards.
SegmentBatch Collected(ActorCriticPolicy* policy, const SpecPtr& observation,
                       std::vector<Segment> segments, uint64_t seed) {
  CollectMode* const collect = policy->collect_mode();
  std::vector<FieldSpec> fields(observation->fields().begin(), observation->fields().end());
  fields.insert(fields.end(), collect->output_spec()->fields().begin(),
                collect->output_spec()->fields().end());
  fields.push_back(Scalar("reward", DType::kFloat32));
  const int64_t rows = segments.back().begin + segments.back().length;
  BatchBuilder builder = *BatchBuilder::Create(*MakeSpec(fields), rows);
  CopyRows(MakeObservationBatch(observation, rows, seed).view(), builder.view(), 0);
  EXPECT_THAT(
      collect->Forward(builder.view(), {}, {},
                       builder.view().Fields(collect->output_spec().get(), observation->size())),
      IsOk());
  Rng rng(seed, "reward");
  for (float& reward : builder.column<float>(builder.spec().size() - 1)) {
    reward = static_cast<float>(rng.Uniform(-5, 5));
  }
  SegmentBatch data;
  data.rows = std::move(builder).Seal(rows);
  data.final_obs =
      MakeObservationBatch(observation, static_cast<int64_t>(segments.size()), seed + 100);
  data.segments = std::move(segments);
  return data;
}

std::vector<Segment> ThreeSegments() {
  return {{0, 0, 0, 4, SegmentEnd::kCut},
          {1, 0, 4, 3, SegmentEnd::kTerminated},
          {2, 0, 7, 5, SegmentEnd::kTruncated}};
}

absl::Span<const float> Column(const Batch& batch, const char* name) {
  return batch.column<float>(name);
}

TEST(ActorCriticPolicy, CollectsTheColumnsThatLearningNeeds) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(Options()));
  EXPECT_EQ(*policy->collect_mode()->output_spec(),
            *Spec::Create(
                {Discrete("action", 4), Box("logit", {4}), Box("log_prob", {}), Box("value", {})}));
  EXPECT_TRUE(policy->collect_mode()->attributes().on_policy);
  EXPECT_TRUE(policy->learn_mode()->attributes().on_policy);
  const SegmentBatch data = Collected(policy.get(), VectorObservation(3), ThreeSegments(), 3);
  for (int64_t row = 0; row < data.size(); ++row) {
    const absl::Span<const float> logit = Column(data.rows, "logit").subspan(row * 4, 4);
    double sum = 0;
    for (const float value : logit) sum += std::exp(value);
    const int64_t action = data.rows.column<int64_t>("action")[row];
    EXPECT_NEAR(Column(data.rows, "log_prob")[row], logit[action] - std::log(sum), 1e-5);
  }
}

TEST(ActorCriticPolicy, BootstrapsWhereASegmentWasCutOrTruncated) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(Options()));
  SegmentBatch data = Collected(policy.get(), VectorObservation(3), ThreeSegments(), 3);
  // The observation after a terminated episode is not used.
  BatchBuilder final_obs = *BatchBuilder::Create(VectorObservation(3), 3);
  CopyRows(data.final_obs.view(), final_obs.view(), 0);
  final_obs.column<float>(0)[3] = kNan;
  data.final_obs = std::move(final_obs).Seal(3);
  std::vector<float> final_value(3);
  ASSERT_THAT(policy->actor_critic().Values(data.final_obs.view(), absl::MakeSpan(final_value)),
              IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch trained,
                            policy->collect_mode()->GetTrainSample(data));
  EXPECT_EQ(trained.size(), 12);
  const absl::Span<const float> value = Column(data.rows, "value");
  for (size_t i = 0; i < 3; ++i) {
    const auto begin = static_cast<size_t>(data.segments[i].begin);
    const auto length = static_cast<size_t>(data.segments[i].length);
    std::vector<float> adv(length);
    ComputeGae({Column(data.rows, "reward").subspan(begin, length), value.subspan(begin, length),
                final_value[i], data.segments[i].end},
               0.9, 0.8, absl::MakeSpan(adv));
    for (size_t row = 0; row < length; ++row) {
      EXPECT_FLOAT_EQ(Column(trained.rows, "adv")[begin + row], adv[row]) << i;
      EXPECT_FLOAT_EQ(Column(trained.rows, "return")[begin + row], adv[row] + value[begin + row]);
    }
  }
  std::vector<LearnStep> steps;
  EXPECT_THAT(policy->learn_mode()->Forward(trained.rows, {}, &steps), IsOk());
}

TEST(ActorCriticPolicy, NamesRowsWithNonFiniteValues) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(Options()));
  SegmentBatch data = Collected(policy.get(), VectorObservation(3), ThreeSegments(), 3);
  SegmentBatch gap = data;
  gap.segments[1].begin = 5;
  EXPECT_THAT(policy->collect_mode()->GetTrainSample(gap), IsInvalid());
  BatchBuilder rows = *BatchBuilder::Create(data.rows.spec_ptr(), 12);
  CopyRows(data.rows.view(), rows.view(), 0);
  rows.column<float>(rows.spec().size() - 1)[7] = kNan;
  data.rows = std::move(rows).Seal(12);
  EXPECT_THAT(policy->collect_mode()->GetTrainSample(data),
              IsInternal("'reward', row 7 holds nan"));
}

TEST(ActorCriticPolicy, TheFirstStepHasTheRatioOne) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(Options()));
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data,
                            policy->collect_mode()->GetTrainSample(
                                Collected(policy.get(), VectorObservation(3), ThreeSegments(), 3)));
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(data.rows, {}, &steps), IsOk());
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(*steps[0].scalars.Get("approx_kl"), 0);
  EXPECT_EQ(*steps[0].scalars.Get("clip_fraction"), 0);
  EXPECT_GT(*steps[0].scalars.Get("entropy"), 0);
}

TEST(ActorCriticPolicy, EachEpochTrainsOnEachRowOnceInAnotherOrder) {
  ActorCriticPolicyOptions options = Options();
  options.adam.lr = 0;  // The policy then stays the same in all steps.
  options.update.epochs = 3;
  options.update.minibatch_size = 5;
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(options));
  options.update.epochs = 1;
  options.update.minibatch_size = 0;
  DING_ASSERT_OK_AND_ASSIGN(const auto whole, Create(options));
  const Batch batch = MakeOnPolicyBatch(VectorObservation(3), DiscreteAction(4), 12, 5);
  std::vector<LearnStep> steps;
  std::vector<LearnStep> one;
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  ASSERT_THAT(whole->learn_mode()->Forward(batch, {}, &one), IsOk());
  ASSERT_EQ(steps.size(), 9u) << "5, 5 and 2 rows, three times";
  for (const char* const name : {"total_loss", "policy_loss", "value_loss", "approx_kl"}) {
    const auto of = [&](size_t step) { return *steps[step].scalars.Get(name); };
    for (size_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_NEAR((5 * of(3 * epoch) + 5 * of(3 * epoch + 1) + 2 * of(3 * epoch + 2)) / 12,
                  *one[0].scalars.Get(name), 1e-5)
          << name << ", epoch " << epoch;
    }
    EXPECT_NE(of(0), of(3)) << name;
  }
}

TEST(ActorCriticPolicy, EndsACallAboveTheMaximalKlDivergence) {
  ActorCriticPolicyOptions options = Options();
  options.adam.lr = 0.5;
  options.update.epochs = 20;
  options.update.max_kl = 0.05;
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(options));
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data,
                            policy->collect_mode()->GetTrainSample(
                                Collected(policy.get(), VectorObservation(3), ThreeSegments(), 3)));
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(data.rows, {}, &steps), IsOk());
  EXPECT_GE(steps.size(), 1u);
  EXPECT_LT(steps.size(), 20u);
  for (const LearnStep& step : steps) EXPECT_LE(*step.scalars.Get("approx_kl"), 0.05);
}

TEST(ActorCriticPolicy, TheLearningRateFallsWithTheEnvSteps) {
  ActorCriticPolicyOptions options = Options();
  options.lr_decay_env_steps = 1000;
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(options));
  const Batch batch = MakeOnPolicyBatch(VectorObservation(3), DiscreteAction(4), 12, 5);
  std::vector<LearnStep> steps;
  for (const auto& [env_step, lr] : {std::pair(0.0, 0.01), std::pair(250.0, 0.0075),
                                     std::pair(1000.0, 0.0), std::pair(5000.0, 0.0)}) {
    const NamedValues settings = policy->command_mode()->GetSettingLearn({{"envstep", env_step}});
    ASSERT_THAT(policy->learn_mode()->Forward(batch, settings, &steps), IsOk());
    EXPECT_NEAR(*steps[0].scalars.Get("cur_lr"), lr, 1e-12);
  }
  EXPECT_THAT(policy->learn_mode()->Forward(batch, {{"lr", -1}}, &steps), IsInvalid("lr is -1"));
  DING_ASSERT_OK_AND_ASSIGN(const auto constant, Create(Options()));
  EXPECT_FALSE(constant->command_mode()->GetSettingLearn({{"envstep", 5}}).Get("lr").has_value());
}

TEST(ActorCriticPolicy, TheEntropyWeightMovesWithTheEnvSteps) {
  ActorCriticPolicyOptions options = Options();
  options.update.loss_options.entropy_coef = 0.06;
  options.entropy_decay_env_steps = 1000;
  options.final_entropy_weight = 0.02;
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(options));
  const Batch batch = MakeOnPolicyBatch(VectorObservation(3), DiscreteAction(4), 12, 5);
  std::vector<LearnStep> steps;
  // The weight that a call used, computed from its reported losses.
  const auto learned_with = [&] {
    const NamedValues& loss = steps[0].scalars;
    return (*loss.Get("policy_loss") +
            options.update.loss_options.value_coef * *loss.Get("value_loss") -
            *loss.Get("total_loss")) /
           *loss.Get("entropy");
  };
  for (const auto& [env_step, weight] : {std::pair(0.0, 0.06), std::pair(250.0, 0.05),
                                         std::pair(1000.0, 0.02), std::pair(5000.0, 0.02)}) {
    const NamedValues settings = policy->command_mode()->GetSettingLearn({{"envstep", env_step}});
    EXPECT_FALSE(settings.Get("lr").has_value());
    ASSERT_THAT(policy->learn_mode()->Forward(batch, settings, &steps), IsOk());
    EXPECT_NEAR(learned_with(), weight, 1e-9) << "env step " << env_step;
  }
  // A setting applies to its call only.
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  EXPECT_NEAR(learned_with(), 0.06, 1e-9);
  for (const double weight : {-1.0, static_cast<double>(kNan)}) {
    EXPECT_THAT(policy->learn_mode()->Forward(batch, {{"entropy_weight", weight}}, &steps),
                IsInvalid("entropy_weight is "));
  }
  DING_ASSERT_OK_AND_ASSIGN(const auto constant, Create(Options()));
  EXPECT_FALSE(constant->command_mode()
                   ->GetSettingLearn({{"envstep", 5}})
                   .Get("entropy_weight")
                   .has_value());
}

TEST(ActorCriticPolicy, AFailedStepUndoesTheStepsBeforeIt) {
  ActorCriticPolicyOptions options = Options();
  options.update.epochs = 1;
  options.update.minibatch_size = 1;
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(options));
  const Batch good = MakeOnPolicyBatch(VectorObservation(3), DiscreteAction(4), 12, 5);
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(good, {}, &steps), IsOk());
  const StateDict before = Saved(policy.get());
  BatchBuilder builder = *BatchBuilder::Create(good.spec_ptr(), 12);
  CopyRows(good.view(), builder.view(), 0);
  // This value and the loss are finite, but the gradient is not.
  builder.column<float>(*good.spec().Find("adv"))[4] = -3e38f;
  builder.column<float>(*good.spec().Find("log_prob"))[4] = -9;
  EXPECT_THAT(policy->learn_mode()->Forward(std::move(builder).Seal(12), {}, &steps),
              IsInternal("minibatch"));
  EXPECT_TRUE(SameState(before, Saved(policy.get())));
}

TEST(ActorCriticPolicy, ObeysTheActionMask) {
  const SpecPtr inputs = *MakeSpec({Box("obs/x", {3})});
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(Options(), MaskedObservation(4, 3), inputs));
  constexpr int64_t kRows = 400;
  BatchBuilder obs = *BatchBuilder::Create(MaskedObservation(4, 3), kRows);
  CopyRows(MakeObservationBatch(MaskedObservation(4, 3), kRows, 1).view(), obs.view(), 0);
  const absl::Span<uint8_t> mask = obs.column<uint8_t>(0);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t a = 0; a < 4; ++a) mask[row * 4 + a] = a == row % 4 || a == (row + 1) % 4 ? 1 : 0;
  }
  for (const bool eval : {false, true}) {
    const SpecPtr spec =
        eval ? policy->eval_mode()->output_spec() : policy->collect_mode()->output_spec();
    const BatchBuilder out = *BatchBuilder::Create(spec, kRows);
    ASSERT_THAT(eval ? policy->eval_mode()->Forward(obs.view(), {}, {}, out.view())
                     : policy->collect_mode()->Forward(obs.view(), {}, {}, out.view()),
                IsOk());
    for (int64_t row = 0; row < kRows; ++row) {
      EXPECT_NE(mask[row * 4 + out.column<int64_t>(0)[row]], 0) << row;
    }
  }
  std::fill(mask.begin() + 28, mask.begin() + 32, 0);
  const BatchBuilder out = *BatchBuilder::Create(policy->collect_mode()->output_spec(), kRows);
  EXPECT_THAT(policy->collect_mode()->Forward(obs.view(), {}, {}, out.view()),
              IsInvalid("test, collect", "row 7 has no legal action"));
}

TEST(ActorCriticPolicy, TrainsWithTheMaskOfItsRows) {
  const SpecPtr inputs = *MakeSpec({Box("obs/x", {3})});
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(Options(), MaskedObservation(4, 3), inputs));
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data,
                            policy->collect_mode()->GetTrainSample(Collected(
                                policy.get(), MaskedObservation(4, 3), ThreeSegments(), 3)));
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(data.rows, {}, &steps), IsOk());
  EXPECT_EQ(*steps[0].scalars.Get("approx_kl"), 0) << "the ratios are those of other legal actions";
}

class Normalizing : public testing::Test {
 protected:
  Normalizing() {
    options_.networks.normalize_obs = true;
    options_.scale_reward = true;
  }
  std::unique_ptr<ActorCriticPolicy> Make() {
    auto policy = Create(options_);
    EXPECT_THAT(policy, IsOk());
    return *std::move(policy);
  }
  static SegmentBatch Collect(ActorCriticPolicy* policy, uint64_t seed) {
    auto data = policy->collect_mode()->GetTrainSample(
        Collected(policy, VectorObservation(3), ThreeSegments(), seed));
    EXPECT_THAT(data, IsOk());
    return *std::move(data);
  }

  ActorCriticPolicyOptions options_ = Options();
};

TEST_F(Normalizing, NormalizesRowsWithTheStatisticsOfActing) {
  const auto policy = Make();
  const SegmentBatch raw = Collected(policy.get(), VectorObservation(3), ThreeSegments(), 1);
  const SegmentBatch first = Collect(policy.get(), 1);
  EXPECT_EQ(Column(first.rows, "obs"), Column(raw.rows, "obs")) << "there were no statistics";
  const SegmentBatch second = Collect(policy.get(), 2);
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(second.rows, {}, &steps), IsOk());
  EXPECT_EQ(*steps[0].scalars.Get("approx_kl"), 0) << "the networks see what they acted on";
  // The second rows are normalized by the statistics of the first.
  RunningNormalizer statistics(3, 10);
  statistics.Update(Column(raw.rows, "obs"));
  const Batch obs = MakeObservationBatch(VectorObservation(3), 12, 2);
  std::vector<float> expected(36);
  statistics.Normalize(obs.column<float>(0), absl::MakeSpan(expected));
  EXPECT_EQ(Column(second.rows, "obs"), absl::MakeConstSpan(expected));
}

TEST_F(Normalizing, StatisticsArePartOfTheModelAndDoNotChangeInEvaluation) {
  const auto policy = Make();
  Collect(policy.get(), 1);
  StateDict model;
  ASSERT_THAT(policy->learn_mode()->SaveModel(&model), IsOk());
  EXPECT_THAT(model.Names(), testing::Contains("model/statistics/obs/mean"));
  const auto other = Make();
  ASSERT_THAT(other->eval_mode()->LoadModel(&model), IsOk());
  const Batch obs = MakeObservationBatch(VectorObservation(3), 50, 9);
  std::vector<float> a(50), b(50);
  ASSERT_THAT(policy->actor_critic().Values(obs.view(), absl::MakeSpan(a)), IsOk());
  ASSERT_THAT(other->actor_critic().Values(obs.view(), absl::MakeSpan(b)), IsOk());
  EXPECT_EQ(a, b);
  const BatchBuilder out = *BatchBuilder::Create(DiscreteAction(4), 50);
  ASSERT_THAT(other->eval_mode()->Forward(obs.view(), {}, {}, out.view()), IsOk());
  StateDict after;
  ASSERT_THAT(other->learn_mode()->SaveModel(&after), IsOk());
  EXPECT_TRUE(SameState(model, after));
}

// Collectors in other processes: each row that is learned from counts once.
TEST_F(Normalizing, TheLearnerMergesTheStatisticsOfCollectors) {
  ActorCriticPolicyOptions options = options_;
  options_.modes.learn = false;
  const std::unique_ptr<ActorCriticPolicy> collectors[2] = {Make(), Make()};
  EXPECT_FALSE(collectors[0]->collect_mode()->attributes().keeps_statistics);
  options.modes.collect = false;
  DING_ASSERT_OK_AND_ASSIGN(const auto learner, Create(options));
  RunningNormalizer obs(3, 10), returns(1, 10);
  std::vector<LearnStep> steps;
  for (uint64_t round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 2; ++i) {
      const uint64_t seed = 2 * round + i;
      const Batch raw = MakeObservationBatch(VectorObservation(3), 12, seed);
      std::vector<float> expected(36);
      obs.Normalize(raw.column<float>(0), absl::MakeSpan(expected));
      const SegmentBatch data = Collect(collectors[i].get(), seed);
      if (i == 0) {
        EXPECT_EQ(Column(data.rows, "obs"), absl::MakeConstSpan(expected)) << "as published";
      }
      EXPECT_EQ(Column(data.rows, "raw/obs"), raw.column<float>(0));
      ASSERT_THAT(learner->learn_mode()->Forward(data.rows, {}, &steps), IsOk());
      obs.Update(raw.column<float>(0));
      returns.Update(Column(data.rows, "raw_return"));
    }
    StateDict model;
    ASSERT_THAT(learner->learn_mode()->SaveModel(&model), IsOk());
    StateDict expected;
    {
      ScopedStateWriter of_obs(&expected, "model/statistics/obs");
      ASSERT_THAT(obs.SaveState(&of_obs), IsOk());
      ScopedStateWriter of_returns(&expected, "model/return_statistics");
      ASSERT_THAT(returns.SaveState(&of_returns), IsOk());
    }
    for (const auto& [name, tensor] : expected.tensors()) {
      EXPECT_TRUE(BitwiseEqual(tensor, *model.tensors().Find(name))) << name;
    }
    for (const auto& collector : collectors) {
      ASSERT_THAT(collector->collect_mode()->LoadModel(&model), IsOk());
    }
  }
}

TEST_F(Normalizing, RowsWithoutStatisticsAreThoseOfAnotherVersion) {
  const SegmentBatch data = Collect(Make().get(), 1);
  options_.modes.collect = false;
  const auto learner = Make();
  const StateDict before = Saved(learner.get());
  std::vector<LearnStep> steps;
  EXPECT_THAT(learner->learn_mode()->Forward(data.rows, {}, &steps),
              IsInvalid("those of a worker of another version", "'raw/obs'"));
  EXPECT_TRUE(SameState(before, Saved(learner.get())));
}

TEST_F(Normalizing, SamplesThatRepeatRowsAreRefusedBesideALearnerOfAnotherProcess) {
  options_.collect.unroll_len = 4;
  options_.last_sample = LastSample::kLast;
  EXPECT_THAT(Create(options_), IsOk());
  options_.modes.learn = false;
  EXPECT_THAT(Create(options_), IsInvalid("last_sample LAST repeats rows"));
}

TEST_F(Normalizing, FrozenStatisticsDoNotChange) {
  const auto source = Make();
  Collect(source.get(), 1);
  StateDict model;
  ASSERT_THAT(source->learn_mode()->SaveModel(&model), IsOk());
  options_.freeze_statistics = true;
  const auto frozen = Make();
  ASSERT_THAT(frozen->collect_mode()->LoadModel(&model), IsOk());
  const SegmentBatch data = Collect(frozen.get(), 2);
  StateDict after;
  ASSERT_THAT(frozen->learn_mode()->SaveModel(&after), IsOk());
  EXPECT_TRUE(SameState(model, after));
  EXPECT_EQ(Column(data.rows, "obs"), Column(Collect(source.get(), 2).rows, "obs"));
}

TEST_F(Normalizing, ScalesRewardsByTheDeviationOfTheReturn) {
  const auto policy = Make();
  const SegmentBatch raw = Collected(policy.get(), VectorObservation(3), ThreeSegments(), 1);
  const SegmentBatch data = Collect(policy.get(), 1);
  std::vector<double> returns;
  for (const Segment& segment : raw.segments) {
    double running = 0;
    for (int64_t i = segment.begin; i < segment.begin + segment.length; ++i) {
      running = Column(raw.rows, "reward")[i] + 0.9 * running;
      returns.push_back(running);
    }
  }
  double mean = 0, variance = 0;
  for (const double value : returns) mean += value / 12;
  for (const double value : returns) variance += (value - mean) * (value - mean) / 12;
  for (int64_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(Column(data.rows, "reward")[i], Column(raw.rows, "reward")[i] / std::sqrt(variance),
                1e-5);
  }
}

TEST_F(Normalizing, ContinuesFromItsSavedState) {
  const auto straight = Make();
  const auto resumed = Make();
  Collect(straight.get(), 1);  // Its first stream is cut, so the running return continues.
  StateDict state;
  ASSERT_THAT(straight->learn_mode()->SaveModel(&state), IsOk());
  ASSERT_THAT(straight->collect_mode()->SaveState(&state), IsOk());
  ASSERT_THAT(resumed->learn_mode()->LoadModel(&state), IsOk());
  ASSERT_THAT(resumed->collect_mode()->LoadState(&state), IsOk());
  const SegmentBatch a = Collect(straight.get(), 2);
  const SegmentBatch b = Collect(resumed.get(), 2);
  for (int i = 0; i < a.rows.spec().size(); ++i) {
    EXPECT_EQ(a.rows.tensor(i).bytes(), b.rows.tensor(i).bytes()) << a.rows.spec().field(i).name;
  }
}

TEST(ActorCriticPolicy, RefusesNetworksThatDoNotFit) {
  const auto create = [](const char* head, int64_t width, const SpecPtr& inputs) {
    return ActorCriticPolicy::Create(
        std::make_unique<LinearNetwork>(inputs, *MakeSpec({Box(head, {width})}), 1),
        std::make_unique<LinearNetwork>(VectorObservation(3), *MakeSpec({Box("value", {})}), 2),
        VectorObservation(3), DiscreteAction(4), Options());
  };
  EXPECT_THAT(create("logit", 4, VectorObservation(3)), IsOk());
  EXPECT_THAT(create("logit", 5, VectorObservation(3)), IsInvalid("actor's outputs"));
  EXPECT_THAT(create("q", 4, VectorObservation(3)), IsInvalid("expected 'logit'"));
  EXPECT_THAT(create("logit", 4, *MakeSpec({Box("obs", {2})})), IsInvalid("actor's inputs"));
}

}  // namespace
}  // namespace ding
