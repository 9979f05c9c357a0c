#include "ding_worker/policy/random_policy.h"

#include <array>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

SpecPtr SpecOf(FieldSpec field) { return *MakeSpec({std::move(field)}); }

// Returns actions for `rows` observations.
Batch Act(CollectMode* mode, int64_t rows) {
  const BatchBuilder obs = *BatchBuilder::Create(SpecOf(Box("obs", {1})), rows);
  BatchBuilder out = *BatchBuilder::Create(mode->output_spec(), rows);
  EXPECT_THAT(mode->Forward(obs.view(), {}, {}, out.view()), IsOk());
  return std::move(out).Seal(rows);
}

std::unique_ptr<RandomCollectMode> Make(const SpecPtr& action, uint64_t seed = 5) {
  return *RandomCollectMode::Create(action, seed, {});
}

TEST(RandomCollectMode, DiscreteActionsAreUniform) {
  const auto mode = Make(SpecOf(Discrete("action", 3)));
  std::array<int, 3> count{};
  const Batch actions = Act(mode.get(), 9000);
  for (const int64_t action : actions.column<int64_t>(0)) ++count.at(action);
  // The standard deviation of Binomial(9000, 1/3) is 45; five of these are allowed.
  for (const int n : count) EXPECT_NEAR(n, 3000, 225);
}

TEST(RandomCollectMode, DrawsFromTheCategoriesOfEachElement) {
  const auto mode = Make(SpecOf(MultiDiscrete("action", {2, 5})));
  std::array<int, 2> first{};
  std::array<int, 5> second{};
  const Batch actions = Act(mode.get(), 5000);
  const absl::Span<const int64_t> values = actions.column<int64_t>(0);
  for (size_t i = 0; i < values.size(); i += 2) {
    ++first.at(static_cast<size_t>(values[i]));
    ++second.at(static_cast<size_t>(values[i + 1]));
  }
  for (const int n : first) EXPECT_NEAR(n, 2500, 180);  // Five standard deviations.
  for (const int n : second) EXPECT_NEAR(n, 1000, 142);
}

TEST(RandomCollectMode, ObeysTheActionMask) {
  const SpecPtr observation = SpecOf(ActionMaskSpec(5));
  DING_ASSERT_OK_AND_ASSIGN(
      const auto mode,
      RandomCollectMode::Create(SpecOf(MultiDiscrete("action", {2, 3})), 5, {}, observation));
  const BatchBuilder obs = *BatchBuilder::Create(observation, 2000);
  for (size_t i = 0; i < obs.column<uint8_t>(0).size(); ++i) {
    obs.column<uint8_t>(0)[i] = i % 5 == 0 || i % 5 == 3 ? 0 : 1;  // {1} and {0, 2}.
  }
  const BatchBuilder out = *BatchBuilder::Create(mode->output_spec(), 2000);
  ASSERT_THAT(mode->Forward(obs.view(), {}, {}, out.view()), IsOk());
  std::array<int, 3> second{};
  for (int64_t row = 0; row < 2000; ++row) {
    EXPECT_EQ(out.column<int64_t>(0)[2 * row], 1);
    ++second.at(static_cast<size_t>(out.column<int64_t>(0)[2 * row + 1]));
  }
  EXPECT_NEAR(second[0], 1000, 112);  // Five standard deviations.
  EXPECT_EQ(second[1], 0);
  for (size_t i = 10; i < 12; ++i) obs.column<uint8_t>(0)[i] = 0;
  EXPECT_THAT(mode->Forward(obs.view(), {}, {}, out.view()),
              IsInvalid("row 2: the action mask forbids all 2 categories of 'action' element 0"));
}

TEST(RandomCollectMode, ElementsOfAMultiDiscreteActionAreIndependent) {
  const auto mode = Make(SpecOf(MultiDiscrete("action", {2, 2})));
  std::array<int, 4> count{};
  const Batch actions = Act(mode.get(), 8000);
  const absl::Span<const int64_t> values = actions.column<int64_t>(0);
  for (size_t i = 0; i < values.size(); i += 2) ++count.at(2 * values[i] + values[i + 1]);
  for (const int n : count) EXPECT_NEAR(n, 2000, 200);  // Five standard deviations.
}

TEST(RandomCollectMode, BoxActionsFillTheBoundsOfEachElement) {
  const auto mode = Make(SpecOf(Box("action", {2}, {-1, 10}, {1, 30})));
  const Batch actions = Act(mode.get(), 4000);
  const absl::Span<const float> values = actions.column<float>(0);
  double sum[2] = {0, 0};
  for (size_t i = 0; i < values.size(); ++i) {
    const double low = i % 2 == 0 ? -1 : 10;
    const double high = i % 2 == 0 ? 1 : 30;
    ASSERT_GE(values[i], low);
    ASSERT_LE(values[i], high);
    sum[i % 2] += values[i];
  }
  // The standard deviation of the mean of n uniforms is width / sqrt(12 n); five of these are
  // allowed.
  EXPECT_NEAR(sum[0] / 4000, 0, 5 * 2 / 219.0);
  EXPECT_NEAR(sum[1] / 4000, 20, 5 * 20 / 219.0);
}

TEST(RandomCollectMode, RoundingDoesNotLeaveTheBox) {
  // The narrow boxes contain at most one float32; 0.1 is not a float32 and rounds up.
  const auto upper = Make(SpecOf(Box("action", {1}, {0.1 - 1e-8}, {0.1})));
  const auto lower = Make(SpecOf(Box("action", {1}, {-0.1}, {-0.1 + 1e-8})));
  const Batch upper_actions = Act(upper.get(), 100);
  const Batch lower_actions = Act(lower.get(), 100);
  for (const float value : upper_actions.column<float>(0)) EXPECT_LE(value, 0.1);
  for (const float value : lower_actions.column<float>(0)) EXPECT_GE(value, -0.1);
}

TEST(RandomCollectMode, RefusesSpacesThatCannotBeSampled) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const FieldSpec& field :
       {Box("action", {2}), Box("action", {2}, {-1, -kInfinity}, {1, 1}),
        Scalar("action", DType::kFloat32), Scalar("action", DType::kUint8)}) {
    EXPECT_THAT(RandomCollectMode::Create(SpecOf(field), 0, {}),
                IsInvalid("field 'action'", "finite bounds"));
  }
  EXPECT_THAT(RandomCollectMode::Create(SpecOf(Discrete("move", 2)), 0, {}),
              IsInvalid("no first field 'action'"));
}

TEST(RandomCollectMode, RefusesAnOutputOfAnotherLayoutOrTooFewRows) {
  const auto mode = Make(SpecOf(Discrete("action", 3)));
  const BatchBuilder obs = *BatchBuilder::Create(SpecOf(Box("obs", {1})), 2);
  const BatchBuilder box = *BatchBuilder::Create(SpecOf(Box("action", {1})), 2);
  EXPECT_THAT(mode->Forward(obs.view(), {}, {}, box.view()), IsInvalid("action"));
  const BatchBuilder one = *BatchBuilder::Create(mode->output_spec(), 1);
  EXPECT_THAT(mode->Forward(obs.view(), {}, {}, one.view()), IsInvalid("1 rows for 2"));
}

TEST(RandomPolicyFactory, CreatesTheRequestedModes) {
  PolicyConfig config;
  config.set_type("random");
  config.set_n_sample(8);
  PolicyContext context;
  context.action = SpecOf(Discrete("action", 2));
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, create_policy(config, context));
  EXPECT_EQ(policy->learn_mode(), nullptr) << "there is nothing to learn";
  ASSERT_NE(policy->collect_mode(), nullptr);
  EXPECT_EQ(policy->collect_mode()->attributes().n_sample, 8);
  EXPECT_NE(policy->eval_mode(), nullptr);
  EXPECT_NE(policy->command_mode(), nullptr);
}

TEST(RandomPolicyFactory, ReportsAllProblemsAtOnce) {
  PolicyConfig config;
  config.set_type("random");
  config.set_batch_size(0);
  PolicyContext context;
  context.action = SpecOf(Box("action", {1}));
  EXPECT_THAT(create_policy(config, context), IsInvalid("batch_size is 0"));
  config.clear_batch_size();
  config.mutable_params()->PackFrom(ScheduleConfig());
  EXPECT_THAT(create_policy(config, context),
              IsInvalid("type 'random' takes none", "finite bounds"));
}

absl::StatusOr<std::unique_ptr<Policy>> CreateForConformance(const SpecPtr& action, uint64_t seed,
                                                             PolicyModes modes) {
  RandomPolicyOptions options;
  options.action = action;
  options.seed = seed;
  options.modes = modes;
  return CreateRandomPolicy(options);
}

PolicyConformanceCase Case(const std::string& name, FieldSpec action) {
  const SpecPtr spec = SpecOf(std::move(action));
  return {
      name,
      [spec](uint64_t seed, PolicyModes modes) { return CreateForConformance(spec, seed, modes); },
      SpecOf(Box("obs", {2})), spec, /*learns=*/false};
}

INSTANTIATE_TEST_SUITE_P(Random, PolicyConformance,
                         testing::Values(Case("discrete", Discrete("action", 3)),
                                         Case("multi_discrete", MultiDiscrete("action", {2, 5})),
                                         Case("box", Box("action", {2}, {-1, 0}, {1, 3}))),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace ding
