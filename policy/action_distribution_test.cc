#include "ding_worker/policy/action_distribution.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Each;

constexpr uint64_t kSeed = 7;

std::unique_ptr<ActionDistribution> Make(const FieldSpec& action, double initial_log_std = 0) {
  auto made = ActionDistribution::Create(*Spec::Create({action}), initial_log_std);
  EXPECT_THAT(made, IsOk());
  return *std::move(made);
}

std::vector<float> RandomHead(int64_t size, uint64_t seed = kSeed) {
  Rng rng(seed, "head");
  std::vector<float> head;
  for (int64_t i = 0; i < size; ++i) head.push_back(static_cast<float>(rng.Uniform(-2, 2)));
  return head;
}

// Rows for Sample().
BatchBuilder Rows(const ActionDistribution& distribution, int64_t rows) {
  const auto fields = distribution.sample_fields();
  return *BatchBuilder::Create(*MakeSpec({fields.begin(), fields.end()}), rows);
}

// All actions of counts {2, 3}: category i / 3 of the first and i % 3 of the second element.
BatchBuilder AllActions(const ActionDistribution& distribution) {
  BatchBuilder rows = Rows(distribution, 6);
  for (int64_t i = 0; i < 6; ++i) {
    rows.column<int64_t>(0)[2 * i] = i / 3;
    rows.column<int64_t>(0)[2 * i + 1] = i % 3;
  }
  return rows;
}

std::vector<float> Repeat(const std::vector<float>& row, int times) {
  std::vector<float> all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), row.begin(), row.end());
  return all;
}

// Compares the gradients by Backward() of a weighted sum of log-probabilities and entropies with
// central differences.
void ExpectGradientOfFiniteDifferences(ActionDistribution* distribution, std::vector<float> head,
                                       const std::vector<uint8_t>& mask) {
  constexpr int64_t kRows = 5;
  Rng rng(kSeed, "gradient");
  const BatchBuilder taken = Rows(*distribution, kRows);
  ASSERT_THAT(distribution->Set(head, mask), IsOk());
  distribution->Sample(&rng, taken.view());
  const int field = taken.spec().size() - 1;
  std::vector<float> d_log_prob(kRows), d_entropy(kRows), log_prob(kRows), entropy(kRows);
  for (float& value : d_log_prob) value = static_cast<float>(rng.Uniform(-1, 1));
  for (float& value : d_entropy) value = static_cast<float>(rng.Uniform(-1, 1));
  const auto loss = [&] {
    EXPECT_THAT(distribution->Set(head, mask), IsOk());
    distribution->LogProb(taken.view(), field, absl::MakeSpan(log_prob));
    distribution->Entropy(absl::MakeSpan(entropy));
    double sum = 0;
    for (int64_t i = 0; i < kRows; ++i) {
      sum += static_cast<double>(d_log_prob[i]) * log_prob[i] +
             static_cast<double>(d_entropy[i]) * entropy[i];
    }
    return sum;
  };
  std::vector<float> d_head(head.size());
  distribution->Backward(taken.view(), field, d_log_prob, d_entropy, absl::MakeSpan(d_head));
  const std::vector<float> d_parameters(distribution->gradients().begin(),
                                        distribution->gradients().end());
  const auto expect_near = [&](float* value, float gradient, absl::string_view what, size_t i) {
    constexpr float kStep = 1.0f / 128;
    const float before = *value;
    *value = before + kStep;
    const double above = loss();
    *value = before - kStep;
    const double below = loss();
    *value = before;
    EXPECT_NEAR(gradient, (above - below) / (2 * kStep), 2e-3) << what << " " << i;
  };
  for (size_t i = 0; i < head.size(); ++i) expect_near(&head[i], d_head[i], "head", i);
  for (size_t i = 0; i < d_parameters.size(); ++i) {
    expect_near(&distribution->parameters()[i], d_parameters[i], "parameter", i);
  }
}

// Compares the gradient of ImitationLoss() of random actions with central differences.
void ExpectImitationGradient(ActionDistribution* distribution, std::vector<float> head,
                             const std::vector<uint8_t>& mask) {
  constexpr int64_t kRows = 5;
  Rng rng(kSeed, "imitation");
  const BatchBuilder actions = Rows(*distribution, kRows);
  ASSERT_THAT(distribution->Set(head, mask), IsOk());
  distribution->Sample(&rng, actions.view());
  std::vector<float> d_head(head.size()), ignored(head.size());
  distribution->ImitationLoss(actions.view(), 0, absl::MakeSpan(d_head));
  const auto loss_with = [&](size_t i, float value) {
    std::vector<float> moved = head;
    moved[i] = value;
    EXPECT_THAT(distribution->Set(moved, mask), IsOk());
    return distribution->ImitationLoss(actions.view(), 0, absl::MakeSpan(ignored));
  };
  for (size_t i = 0; i < head.size(); ++i) {
    constexpr float kStep = 1.0f / 128;
    const double slope =
        (loss_with(i, head[i] + kStep) - loss_with(i, head[i] - kStep)) / (2 * kStep);
    EXPECT_NEAR(d_head[i], slope, 5e-4) << i;
  }
}

TEST(ImitationLoss, GradientsAgreeWithFiniteDifferences) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  ExpectImitationGradient(Make(Discrete("action", 3)).get(), RandomHead(15), {});
  const auto multi = Make(MultiDiscrete("action", {2, 3}));
  ExpectImitationGradient(multi.get(), RandomHead(25), {});
  std::vector<uint8_t> mask;
  for (int row = 0; row < 5; ++row) mask.insert(mask.end(), {1, 1, 0, 1, 1});
  ExpectImitationGradient(multi.get(), RandomHead(25), mask);
  ExpectImitationGradient(Make(Box("action", {2}, {-1, 0}, {1, 4}), -3).get(), RandomHead(10), {});
}

TEST(ImitationLoss, IsCrossEntropyOfCategories) {
  const auto distribution = Make(MultiDiscrete("action", {2, 2}));
  const float ln3 = std::log(3.0f);
  const std::vector<float> head = {0, ln3, 0,   0,
                                   0, 0,   ln3, 0};  // 1/4 3/4, 1/2 1/2, 1/2 1/2, 3/4 1/4
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, 2);
  const std::vector<int64_t> actions = {1, 0, 0, 1};
  std::copy(actions.begin(), actions.end(), rows.column<int64_t>(0).begin());
  std::vector<float> d_head(8);
  EXPECT_NEAR(distribution->ImitationLoss(rows.view(), 0, absl::MakeSpan(d_head)),
              -(std::log(0.75 * 0.5) + std::log(0.5 * 0.25)) / 2, 1e-6);
  const std::vector<uint8_t> mask = {1, 1, 1, 1, 1, 1, 1, 0};
  ASSERT_THAT(distribution->Set(head, mask), IsOk());
  EXPECT_EQ(distribution->ImitationLoss(rows.view(), 0, absl::MakeSpan(d_head)),
            std::numeric_limits<double>::infinity())
      << "an illegal action";
}

// The error is in units of half the range of each element and does not depend on the deviation; an
// element with a single value contributes nothing.
TEST(ImitationLoss, IsTheSquaredErrorOfBoxes) {
  const auto distribution = Make(Box("action", {3}, {-1, 0, 2}, {1, 4, 2}), -5);
  const std::vector<float> head = {0.25f, -0.5f, 0, 0, 0, 0.5f};
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, 2);
  const std::vector<float> actions = {0.25f, 1, 2, 1, 4, 2};
  std::copy(actions.begin(), actions.end(), rows.column<float>(0).begin());
  std::vector<float> d_head(6);
  EXPECT_NEAR(distribution->ImitationLoss(rows.view(), 0, absl::MakeSpan(d_head)),
              (1 + 1 + 0.25) / 6, 1e-6);
}

TEST(Categorical, HasALogitPerCategory) {
  const auto discrete = Make(Discrete("action", 4));
  EXPECT_EQ(discrete->head(), Box("logit", {4}));
  EXPECT_EQ(discrete->taken_field(), Discrete("action", 4));
  EXPECT_TRUE(discrete->parameter_info().empty());
  EXPECT_EQ(Make(MultiDiscrete("action", {2, 3}))->head(), Box("logit", {5}));
}

TEST(Categorical, ProbabilitiesEqualSoftmaxAndSumToOne) {
  const auto distribution = Make(MultiDiscrete("action", {2, 3}));
  const std::vector<float> head = RandomHead(5);
  const BatchBuilder actions = AllActions(*distribution);
  const std::vector<float> heads = Repeat(head, 6);
  ASSERT_THAT(distribution->Set(heads, {}), IsOk());
  std::vector<float> log_prob(6), entropy(6);
  distribution->LogProb(actions.view(), 0, absl::MakeSpan(log_prob));
  distribution->Entropy(absl::MakeSpan(entropy));
  double sum = 0;
  double expected_entropy = 0;
  for (int i = 0; i < 6; ++i) {
    const double first = std::exp(head[i / 3]) / (std::exp(head[0]) + std::exp(head[1]));
    const double second =
        std::exp(head[2 + i % 3]) / (std::exp(head[2]) + std::exp(head[3]) + std::exp(head[4]));
    EXPECT_NEAR(std::exp(log_prob[i]), first * second, 1e-6) << i;
    sum += std::exp(log_prob[i]);
    expected_entropy -= first * second * std::log(first * second);
  }
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_THAT(entropy, Each(testing::FloatNear(static_cast<float>(expected_entropy), 1e-5f)));
}

TEST(Categorical, LargeLogitsDoNotOverflow) {
  const auto distribution = Make(Discrete("action", 2));
  const std::vector<float> head = {3e38f, -3e38f, -3e38f, -3e38f};
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  std::vector<float> entropy(2);
  distribution->Entropy(absl::MakeSpan(entropy));
  EXPECT_FLOAT_EQ(entropy[0], 0);
  EXPECT_FLOAT_EQ(entropy[1], std::log(2.0f));
}

TEST(Categorical, SampleFrequenciesEqualProbabilities) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  constexpr int kDraws = 20000;
  const auto distribution = Make(MultiDiscrete("action", {2, 3}));
  const std::vector<float> head = RandomHead(5);
  const BatchBuilder actions = AllActions(*distribution);
  const std::vector<float> heads = Repeat(head, 6);
  ASSERT_THAT(distribution->Set(heads, {}), IsOk());
  std::vector<float> log_prob(6);
  distribution->LogProb(actions.view(), 0, absl::MakeSpan(log_prob));
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  Rng rng(kSeed, "sample");
  const BatchBuilder row = Rows(*distribution, 1);
  std::vector<int> drawn(6, 0);
  for (int i = 0; i < kDraws; ++i) {
    distribution->Sample(&rng, row.view());
    ++drawn[static_cast<size_t>(row.column<int64_t>(0)[0] * 3 + row.column<int64_t>(0)[1])];
  }
  for (size_t i = 0; i < 6; ++i) {
    const double p = std::exp(log_prob[i]);
    EXPECT_NEAR(drawn[i], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << i;
  }
}

TEST(Categorical, TheModeIsTheLowestOfEquallyProbableActions) {
  const auto distribution = Make(MultiDiscrete("action", {2, 3}));
  const std::vector<float> head = {1, 1, 0, 2, 2, -1, 3, 5, 4, 3};
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, 2);
  distribution->Mode(rows.view());
  EXPECT_THAT(rows.column<int64_t>(0), testing::ElementsAre(0, 1, 1, 0));
}

TEST(Categorical, IllegalActionsHaveNoProbabilityAndNoGradient) {
  const auto distribution = Make(MultiDiscrete("action", {2, 3}));
  const std::vector<float> head = {5, 1, 9, 2, 1};
  const std::vector<uint8_t> mask = {0, 1, 0, 1, 1};
  ASSERT_THAT(distribution->Set(head, mask), IsOk());
  const BatchBuilder row = Rows(*distribution, 1);
  distribution->Mode(row.view());
  EXPECT_THAT(row.column<int64_t>(0), testing::ElementsAre(1, 1));
  Rng rng(kSeed, "masked");
  for (int i = 0; i < 1000; ++i) {
    distribution->Sample(&rng, row.view());
    ASSERT_EQ(row.column<int64_t>(0)[0], 1);
    ASSERT_NE(row.column<int64_t>(0)[1], 0);
  }
  const double p = std::exp(2.0) / (std::exp(2.0) + std::exp(1.0));
  row.column<int64_t>(0)[1] = 1;
  float log_prob = 0, entropy = 0;
  distribution->LogProb(row.view(), 0, absl::MakeSpan(&log_prob, 1));
  distribution->Entropy(absl::MakeSpan(&entropy, 1));
  EXPECT_NEAR(log_prob, std::log(p), 1e-6);
  EXPECT_NEAR(entropy, -p * std::log(p) - (1 - p) * std::log(1 - p), 1e-6);
  std::vector<float> d_head(5);
  distribution->Backward(row.view(), 0, {1.0f}, {1.0f}, absl::MakeSpan(d_head));
  EXPECT_EQ(d_head[0], 0);
  EXPECT_EQ(d_head[2], 0);
  row.column<int64_t>(0)[0] = 0;
  distribution->LogProb(row.view(), 0, absl::MakeSpan(&log_prob, 1));
  EXPECT_EQ(log_prob, -std::numeric_limits<float>::infinity());
}

TEST(Categorical, GradientsAgreeWithFiniteDifferences) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  const auto discrete = Make(Discrete("action", 3));
  ExpectGradientOfFiniteDifferences(discrete.get(), RandomHead(15), {});
  const auto multi = Make(MultiDiscrete("action", {2, 3}));
  ExpectGradientOfFiniteDifferences(multi.get(), RandomHead(25), {});
  std::vector<uint8_t> mask;
  for (int row = 0; row < 5; ++row)
    mask.insert(mask.end(), {1, static_cast<uint8_t>(row % 2), 0, 1, 1});
  ExpectGradientOfFiniteDifferences(multi.get(), RandomHead(25), mask);
}

TEST(Categorical, NamesARowThatCannotBeSampled) {
  const auto distribution = Make(Discrete("action", 2));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(distribution->Set({0, 0, nan, 0}, {}), IsInternal("'logit' of row 1 is nan"));
  EXPECT_THAT(distribution->Set({0, 0, 0, 0}, {1, 0, 0, 0}),
              IsInvalid("row 1 has no legal action"));
}

TEST(ClippedNormal, HasAMeanAndALogStdPerElement) {
  const auto distribution = Make(Box("action", {2}, {-1, 0}, {1, 4}), -0.5);
  EXPECT_EQ(distribution->head(), Box("mean", {2}));
  EXPECT_EQ(distribution->taken_field(), Box("raw_action", {2}));
  ASSERT_EQ(distribution->parameter_info().size(), 1u);
  EXPECT_EQ(distribution->parameter_info()[0].name, "log_std");
  EXPECT_THAT(distribution->parameters(), testing::ElementsAre(-0.5f, -0.5f));
}

TEST(ClippedNormal, TheActionIsTheRawOneClippedAndScaled) {
  const auto distribution = Make(Box("action", {2}, {-1, 0}, {1, 4}));
  const std::vector<float> head = {0.25f, -0.5f, 7, -7};
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, 2);
  distribution->Mode(rows.view());
  EXPECT_THAT(rows.column<float>(0), testing::ElementsAre(0.25f, 1.0f, 1.0f, 0.0f));
  Rng rng(kSeed, "clip");
  for (int i = 0; i < 100; ++i) {
    distribution->Sample(&rng, rows.view());
    for (size_t at = 0; at < 4; ++at) {
      const float inside = std::min(1.0f, std::max(-1.0f, rows.column<float>(1)[at]));
      EXPECT_FLOAT_EQ(rows.column<float>(0)[at], at % 2 == 0 ? inside : 2 * (inside + 1));
    }
  }
}

TEST(ClippedNormal, SamplesHaveMeanAndStd) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  constexpr int kDraws = 20000;
  const auto distribution = Make(Box("action", {1}, {-1}, {1}), std::log(0.5));
  const std::vector<float> head(kDraws, 0.3f);
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, kDraws);
  Rng rng(kSeed, "normal");
  distribution->Sample(&rng, rows.view());
  double sum = 0, squares = 0;
  for (const float raw : rows.column<float>(1)) sum += raw;
  for (const float raw : rows.column<float>(1)) squares += std::pow(raw - sum / kDraws, 2);
  EXPECT_NEAR(sum / kDraws, 0.3, 5 * 0.5 / std::sqrt(kDraws));
  EXPECT_NEAR(std::sqrt(squares / kDraws), 0.5, 0.015);
}

TEST(ClippedNormal, DensityIntegratesToOneAndToTheEntropy) {
  constexpr int kRows = 4000;
  const auto distribution = Make(Box("action", {1}, {-1}, {1}), -0.7);
  const std::vector<float> head(kRows, 0.2f);
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, kRows);
  for (int i = 0; i < kRows; ++i) rows.column<float>(1)[i] = -4.0f + 8.0f * i / kRows;
  std::vector<float> log_prob(kRows), entropy(kRows);
  distribution->LogProb(rows.view(), 1, absl::MakeSpan(log_prob));
  distribution->Entropy(absl::MakeSpan(entropy));
  double mass = 0, expected_entropy = 0;
  for (const float value : log_prob) {
    mass += std::exp(value) * 8 / kRows;
    expected_entropy -= std::exp(value) * value * 8 / kRows;
  }
  EXPECT_NEAR(mass, 1, 1e-4);
  EXPECT_NEAR(entropy[0], expected_entropy, 1e-3);
}

TEST(ClippedNormal, GradientsAgreeWithFiniteDifferences) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  const auto distribution = Make(Box("action", {2}, {-1}, {1}), 0.3);
  ExpectGradientOfFiniteDifferences(distribution.get(), RandomHead(10), {});
}

TEST(ActionDistribution, RefusesOtherSpaces) {
  const auto create = [](const FieldSpec& field) {
    return ActionDistribution::Create(*Spec::Create({field})).status();
  };
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(create(Box("action", {2})), IsInvalid("finite bounds"));
  EXPECT_THAT(create(Box("action", {2}, {-1}, {infinity})), IsInvalid("finite bounds"));
  EXPECT_THAT(create(Discrete("move", 2)), IsInvalid("one field 'action'"));
  FieldSpec many = Discrete("action", std::numeric_limits<int64_t>::max());
  EXPECT_THAT(create(many), IsInvalid("expected at most 1e+09"));
  many.shape = {3};
  EXPECT_THAT(create(many), IsInvalid("expected at most 1e+09"));
}

// The normal distribution of ActionDistribution that tanh squashes, against brute force in double
// precision.

constexpr uint64_t kSquashedSeed = 11;
constexpr double kTwoPi = 6.283185307179586;

FieldSpec TwoActions() { return Box("action", {2}, {-1, 0}, {1, 4}); }

std::unique_ptr<ActionDistribution> MakeSquashed(const FieldSpec& action, double log_std) {
  auto made = ActionDistribution::Create(*Spec::Create({action}), log_std, /*squash=*/true);
  EXPECT_THAT(made, IsOk());
  return *std::move(made);
}

double NormalDensity(double x, double mean, double std) {
  const double u = (x - mean) / std;
  return std::exp(-0.5 * u * u) / (std * std::sqrt(kTwoPi));
}

// The density of tanh(x) at `a`, where x is normal.
double SquashedDensity(double a, double mean, double std) {
  return NormalDensity(std::atanh(a), mean, std) / (1 - a * a);
}

// The integral of f over (-1, 1), by the midpoint rule.
template <typename F>
double Integrate(const F& f) {
  constexpr int kCells = 200000;
  double sum = 0;
  for (int i = 0; i < kCells; ++i) sum += f(-1 + 2 * (i + 0.5) / kCells);
  return 2 * sum / kCells;
}

TEST(SquashedNormal, TheActionIsTheTanhOfTheRawOneScaled) {
  const auto distribution = MakeSquashed(TwoActions(), 0.5);
  const std::vector<float> head = {0.25f, -0.5f, 30, -30};
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, 2);
  distribution->Mode(rows.view());
  EXPECT_FLOAT_EQ(rows.column<float>(0)[0], std::tanh(0.25f));
  EXPECT_FLOAT_EQ(rows.column<float>(0)[1], 2 * (std::tanh(-0.5f) + 1));
  EXPECT_EQ(rows.column<float>(0)[2], 1.0f);
  EXPECT_EQ(rows.column<float>(0)[3], 0.0f);
  Rng rng(kSquashedSeed, "squash");
  for (int i = 0; i < 100; ++i) {
    distribution->Sample(&rng, rows.view());
    for (size_t at = 0; at < 4; ++at) {
      const float inside = std::tanh(rows.column<float>(1)[at]);
      EXPECT_FLOAT_EQ(rows.column<float>(0)[at], at % 2 == 0 ? inside : 2 * (inside + 1));
    }
  }
}

TEST(SquashedNormal, LogProbIsThatOfTheSquashedDensity) {
  const double log_std = -0.4;
  const double std = std::exp(static_cast<double>(static_cast<float>(log_std)));
  // The density that the test compares with is one.
  EXPECT_NEAR(Integrate([&](double a) { return SquashedDensity(a, 0.3, std); }), 1, 1e-6);
  const auto distribution = MakeSquashed(TwoActions(), log_std);
  const std::vector<float> head = {0.3f, -0.8f, 1.5f, 0};
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, 2);
  Rng rng(kSquashedSeed, "log_prob");
  for (int i = 0; i < 50; ++i) {
    distribution->Sample(&rng, rows.view());
    std::vector<float> log_prob(2);
    distribution->LogProb(rows.view(), 1, absl::MakeSpan(log_prob));
    for (size_t row = 0; row < 2; ++row) {
      double expected = 0;
      for (size_t at = 2 * row; at < 2 * row + 2; ++at) {
        const double a = std::tanh(static_cast<double>(rows.column<float>(1)[at]));
        expected += std::log(SquashedDensity(a, head[at], std));
      }
      EXPECT_NEAR(log_prob[row], expected, 2e-5);
    }
  }
}

TEST(SquashedNormal, LogProbAndGradientsAreFiniteFarOutside) {
  const auto distribution = MakeSquashed(Box("action", {1}, {-1}, {1}), 0);
  const std::vector<float> head = {40, -40};
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, 2);
  rows.column<float>(1)[0] = 41;
  rows.column<float>(1)[1] = -41;
  std::vector<float> log_prob(2), entropy(2), d_head(2);
  distribution->LogProb(rows.view(), 1, absl::MakeSpan(log_prob));
  distribution->Entropy(absl::MakeSpan(entropy));
  distribution->Backward(rows.view(), 1, {1.0f, 1.0f}, {1.0f, 1.0f}, absl::MakeSpan(d_head));
  for (size_t row = 0; row < 2; ++row) {
    // log(1 - tanh(41)^2) is 2 log 2 - 82 within rounding, where 1 - tanh(41)^2 is 0 in float64.
    EXPECT_NEAR(log_prob[row], -0.5 - 0.5 * std::log(kTwoPi) - 2 * std::log(2.0) + 82, 1e-4);
    EXPECT_TRUE(std::isfinite(entropy[row]));
    EXPECT_TRUE(std::isfinite(d_head[row]));
  }
}

TEST(SquashedNormal, EntropyIsTheIntegralOverTheActions) {
  for (const double log_std : {-2.0, -0.5, 0.0, 0.4}) {
    const double std = std::exp(static_cast<double>(static_cast<float>(log_std)));
    const auto distribution = MakeSquashed(TwoActions(), log_std);
    const std::vector<float> head = {0.3f, -0.8f, 1.2f, 0};
    ASSERT_THAT(distribution->Set(head, {}), IsOk());
    std::vector<float> entropy(2);
    distribution->Entropy(absl::MakeSpan(entropy));
    for (size_t row = 0; row < 2; ++row) {
      double expected = 0;
      for (size_t at = 2 * row; at < 2 * row + 2; ++at) {
        expected += Integrate([&](double a) {
          const double density = SquashedDensity(a, head[at], std);
          return density > 0 ? -density * std::log(density) : 0;
        });
      }
      EXPECT_NEAR(entropy[row], expected, 1e-3) << "log std " << log_std << ", row " << row;
    }
  }
}

TEST(SquashedNormal, GradientsAgreeWithFiniteDifferences) {
  constexpr size_t kRows = 3;
  const auto distribution = MakeSquashed(TwoActions(), -0.3);
  std::vector<float> head = {0.3f, -0.8f, 1.2f, 0, -2, 0.5f};
  const std::vector<float> d_log_prob = {0.7f, -1.3f, 0.4f};
  const std::vector<float> d_entropy = {-0.5f, 0, 0.9f};
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, kRows);
  Rng rng(kSquashedSeed, "gradients");
  distribution->Sample(&rng, rows.view());
  const auto loss = [&] {
    EXPECT_THAT(distribution->Set(head, {}), IsOk());
    std::vector<float> log_prob(kRows), entropy(kRows);
    distribution->LogProb(rows.view(), 1, absl::MakeSpan(log_prob));
    distribution->Entropy(absl::MakeSpan(entropy));
    double sum = 0;
    for (size_t row = 0; row < kRows; ++row) {
      sum += static_cast<double>(d_log_prob[row]) * log_prob[row] +
             static_cast<double>(d_entropy[row]) * entropy[row];
    }
    return sum;
  };
  std::vector<float> d_head(head.size());
  distribution->Backward(rows.view(), 1, d_log_prob, d_entropy, absl::MakeSpan(d_head));
  const std::vector<float> d_log_std(distribution->gradients().begin(),
                                     distribution->gradients().end());
  const auto expect_slope = [&](float* value, float slope) {
    constexpr float kStep = 0.01f;
    const float kept = *value;
    *value = kept + kStep;
    const double above = loss();
    const double up = *value;
    *value = kept - kStep;
    const double below = loss();
    EXPECT_NEAR((above - below) / (up - *value), slope, 2e-3 * std::max(1.0f, std::abs(slope)));
    *value = kept;
  };
  for (size_t i = 0; i < head.size(); ++i) expect_slope(&head[i], d_head[i]);
  for (size_t i = 0; i < 2; ++i) expect_slope(&distribution->parameters()[i], d_log_std[i]);
}

TEST(SquashedNormal, ImitationLossIsTheErrorOfTheSquashedMean) {
  const auto distribution = MakeSquashed(TwoActions(), 0);
  std::vector<float> head = {0.3f, -0.8f};
  const BatchBuilder rows = *BatchBuilder::Create(*MakeSpec({TwoActions()}), 1);
  rows.column<float>(0)[0] = 0.5f;
  rows.column<float>(0)[1] = 1;  // -0.5 in units of half the range
  std::vector<float> d_head(2);
  const auto loss = [&] {
    EXPECT_THAT(distribution->Set(head, {}), IsOk());
    return distribution->ImitationLoss(rows.view(), 0, absl::MakeSpan(d_head));
  };
  const double expected =
      0.5 * (std::pow(std::tanh(0.3) - 0.5, 2) + std::pow(std::tanh(-0.8) + 0.5, 2));
  EXPECT_NEAR(loss(), expected, 1e-6);
  const std::vector<float> slope = d_head;
  for (size_t i = 0; i < 2; ++i) {
    const float kept = head[i];
    head[i] = kept + 0.01f;
    const double above = loss();
    head[i] = kept - 0.01f;
    EXPECT_NEAR((above - loss()) / 0.02, slope[i], 1e-3);
    head[i] = kept;
  }
}

TEST(SquashedNormal, CategoriesAreRefused) {
  EXPECT_THAT(ActionDistribution::Create(*Spec::Create({Discrete("action", 3)}), 0, true),
              IsInvalid("squash_actions is set, but the actions are categories"));
}

}  // namespace
}  // namespace ding
