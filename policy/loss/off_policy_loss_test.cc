#include "ding_worker/policy/loss/off_policy_loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

constexpr int kCqlRows = 8;
constexpr int kActions = 4;

// A random batch that owns its columns. Each row has one illegal action, which is not that of the
// data.
struct CqlBatch {
  explicit CqlBatch(uint64_t seed) : mask(kCqlRows * kActions, 1) {
    Rng rng(seed, "cql_loss_test");
    for (int i = 0; i < kCqlRows * kActions; ++i)
      q.push_back(static_cast<float>(rng.Uniform(-3, 3)));
    for (int i = 0; i < kCqlRows; ++i) {
      action.push_back(static_cast<int64_t>(rng.UniformInt(kActions)));
      mask[static_cast<size_t>(i * kActions + (action.back() + 1) % kActions)] = 0;
      weight.push_back(static_cast<float>(rng.Uniform(0.1, 1)));
    }
  }
  std::vector<float> q, weight;
  std::vector<int64_t> action;
  std::vector<uint8_t> mask;
};

TEST(CqlLoss, EqualsItsDefinition) {
  CqlBatch batch(1);
  for (const bool masked : {false, true}) {
    double expected = 0;
    for (int i = 0; i < kCqlRows; ++i) {
      double sum = 0;
      for (int a = 0; a < kActions; ++a) {
        const int at = i * kActions + a;
        if (!masked || batch.mask[at] != 0) sum += std::exp(double{batch.q[at]});
      }
      expected += 0.7 / kCqlRows * batch.weight[i] *
                  (std::log(sum) - batch.q[i * kActions + batch.action[i]]);
    }
    std::vector<float> d_q(batch.q.size());
    EXPECT_NEAR(AddCqlPenalty({batch.q, batch.action, batch.weight,
                               masked ? batch.mask : absl::Span<const uint8_t>()},
                              0.7, absl::MakeSpan(d_q)),
                expected, 1e-6);
  }
}

TEST(CqlLoss, TheGradientAgreesWithFiniteDifferencesAndIsAdded) {
  CqlBatch batch(2);
  std::vector<float> d_q(batch.q.size(), 2.0f);
  std::vector<float> ignored(batch.q.size());
  const auto penalty = [&](absl::Span<float> gradient) {
    return AddCqlPenalty({batch.q, batch.action, batch.weight, batch.mask}, 1.5, gradient);
  };
  penalty(absl::MakeSpan(d_q));
  for (float& value : d_q) value -= 2;
  ExpectGradientsOf([&] { return penalty(absl::MakeSpan(ignored)); }, absl::MakeSpan(batch.q), d_q,
                    1.0f / 256, 1e-5);
}

TEST(CqlLoss, LargeValuesAreFiniteAndNanIsNot) {
  std::vector<float> d_q(2);
  EXPECT_NEAR(AddCqlPenalty({{1e6f, -1e6f}, {0}}, 1, absl::MakeSpan(d_q)), 0, 1e-9);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(AddCqlPenalty({{1, nan}, {0}}, 1, absl::MakeSpan(d_q))));
}

constexpr size_t kEnsembleRows = 13;

// Random columns of `critics` critics, with room for the results.
struct EnsembleColumns {
  explicit EnsembleColumns(size_t critics)
      : q(critics, std::vector<float>(kEnsembleRows)), d_q(q), td_error(kEnsembleRows) {
    Rng rng(critics, "critic_ensemble_loss_test");
    for (auto& column : q) {
      for (float& value : column) value = static_cast<float>(rng.Uniform(-3, 3));
    }
    for (size_t i = 0; i < kEnsembleRows; ++i) {
      reward.push_back(static_cast<float>(rng.Uniform(-2, 2)));
      discount.push_back(i % 4 == 0 ? 0.0f : 0.9f);
      next_value.push_back(static_cast<float>(rng.Uniform(-3, 3)));
      weight.push_back(static_cast<float>(rng.Uniform(0.1, 1)));
    }
  }
  CriticLossResult Compute() {
    const CriticColumns columns(q.begin(), q.end());
    MutableCriticColumns gradients;
    for (auto& column : d_q) gradients.push_back(absl::MakeSpan(column));
    return ComputeCriticLoss({columns, reward, discount, next_value, weight},
                             absl::MakeSpan(td_error), gradients);
  }

  std::vector<std::vector<float>> q, d_q;
  std::vector<float> reward, discount, next_value, weight, td_error;
};

TEST(CriticEnsembleLoss, IsTheSumOverTheCriticsOfTheirMeanSquaredErrors) {
  for (const size_t critics : {1, 2, 5}) {
    EnsembleColumns columns(critics);
    const CriticLossResult result = columns.Compute();
    double loss = 0, mean_q = 0, mean_target = 0;
    for (size_t i = 0; i < kEnsembleRows; ++i) {
      const double target = columns.reward[i] + columns.discount[i] * columns.next_value[i];
      mean_target += target / kEnsembleRows;
      double absolute = 0;
      for (size_t k = 0; k < critics; ++k) {
        const double td = columns.q[k][i] - target;
        loss += columns.weight[i] * td * td / kEnsembleRows;
        mean_q += columns.q[k][i] / static_cast<double>(kEnsembleRows * critics);
        absolute += std::abs(td) / static_cast<double>(critics);
      }
      EXPECT_NEAR(columns.td_error[i], absolute, 1e-6) << "row " << i;
    }
    EXPECT_NEAR(result.loss, loss, 1e-6);
    EXPECT_NEAR(result.mean_q, mean_q, 1e-6);
    EXPECT_NEAR(result.mean_target, mean_target, 1e-6);
  }
}

TEST(CriticEnsembleLoss, TheGradientAgreesWithFiniteDifferences) {
  EnsembleColumns columns(3);
  columns.Compute();
  const auto d_q = columns.d_q;
  for (size_t k = 0; k < columns.q.size(); ++k) {
    SCOPED_TRACE(k);
    // The step is exact in float32, so that only curvature causes an error.
    ExpectGradientsOf([&] { return columns.Compute().loss; }, absl::MakeSpan(columns.q[k]), d_q[k],
                      1.0f / 256, 1e-4);
  }
}

TEST(CriticEnsembleLoss, WithoutAWeightColumnAllWeightsAreOne) {
  EnsembleColumns columns(2);
  columns.weight.assign(kEnsembleRows, 1.0f);
  const double weighted = columns.Compute().loss;
  const auto d_q = columns.d_q;
  columns.weight.clear();
  EXPECT_EQ(columns.Compute().loss, weighted);
  EXPECT_EQ(columns.d_q, d_q);
}

TEST(CriticEnsembleLoss, ATerminatedRowHasNoBootstrapValue) {
  EnsembleColumns columns(1);
  columns.weight.clear();
  ASSERT_EQ(columns.discount[0], 0);
  columns.next_value[0] = 1e6f;
  columns.Compute();
  EXPECT_FLOAT_EQ(columns.td_error[0], std::abs(columns.q[0][0] - columns.reward[0]));
}

TEST(CriticEnsembleLoss, NanMakesTheLossNan) {
  EnsembleColumns columns(2);
  columns.q[1][3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(columns.Compute().loss));
}

TEST(MinOverCritics, TakesTheMembersOnly) {
  const std::vector<float> a = {1, 5}, b = {3, -2}, c = {2, 9};
  std::vector<float> value(2);
  MinOverCritics({a, b, c}, {0, 1, 2}, absl::MakeSpan(value));
  EXPECT_EQ(value, (std::vector<float>{1, -2}));
  MinOverCritics({a, b, c}, {2, 1}, absl::MakeSpan(value));
  EXPECT_EQ(value, (std::vector<float>{2, -2}));
  MinOverCritics({a, b, c}, {2}, absl::MakeSpan(value));
  EXPECT_EQ(value, c);
}

constexpr size_t kDiscreteRows = 7;
constexpr double kAlpha = 0.3;

struct DiscreteColumns {
  explicit DiscreteColumns(bool masked)
      : value(kDiscreteRows), mean_log_prob(kDiscreteRows), d_logit(kDiscreteRows * 4) {
    Rng rng(1, "discrete_sac_loss_test");
    for (size_t i = 0; i < kDiscreteRows * kActions; ++i) {
      logit.push_back(static_cast<float>(rng.Uniform(-2, 2)));
      q.push_back(static_cast<float>(rng.Uniform(-5, 5)));
      if (masked) mask.push_back(i % kActions == i / kActions % kActions ? 0 : 1);
    }
  }
  SoftValueInput Input() const { return {logit, q, kActions, mask}; }
  double Loss() {
    return ComputeDiscreteSacActorLoss(Input(), kAlpha, absl::MakeSpan(mean_log_prob),
                                       absl::MakeSpan(d_logit));
  }

  std::vector<float> logit, q;
  std::vector<uint8_t> mask;
  std::vector<float> value, mean_log_prob, d_logit;
};

class DiscreteSacLoss : public testing::TestWithParam<bool> {};

TEST_P(DiscreteSacLoss, AgreesWithItsDefinition) {
  DiscreteColumns columns(GetParam());
  ComputeSoftValues(columns.Input(), kAlpha, absl::MakeSpan(columns.value));
  const double loss = columns.Loss();
  double expected_loss = 0;
  for (size_t i = 0; i < kDiscreteRows; ++i) {
    double sum = 0;
    for (size_t a = 0; a < kActions; ++a) {
      if (columns.mask.empty() || columns.mask[i * kActions + a] != 0) {
        sum += std::exp(columns.logit[i * kActions + a]);
      }
    }
    double value = 0, entropy = 0;
    for (size_t a = 0; a < kActions; ++a) {
      const size_t at = i * kActions + a;
      if (!columns.mask.empty() && columns.mask[at] == 0) continue;
      const double p = std::exp(columns.logit[at]) / sum;
      entropy -= p * std::log(p);
      value += p * (columns.q[at] - kAlpha * std::log(p));
    }
    EXPECT_NEAR(columns.value[i], value, 1e-5) << "row " << i;
    EXPECT_NEAR(columns.mean_log_prob[i], -entropy, 1e-5) << "row " << i;
    expected_loss -= value / kDiscreteRows;
  }
  EXPECT_NEAR(loss, expected_loss, 1e-6);
}

TEST_P(DiscreteSacLoss, TheGradientAgreesWithFiniteDifferences) {
  DiscreteColumns columns(GetParam());
  columns.Loss();
  const std::vector<float> d_logit = columns.d_logit;
  ExpectGradientsOf([&] { return columns.Loss(); }, absl::MakeSpan(columns.logit), d_logit,
                    1.0f / 1024, 1e-5);
  for (size_t i = 0; i < columns.mask.size(); ++i) {
    if (columns.mask[i] == 0) {
      EXPECT_EQ(d_logit[i], 0) << "logit " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Masks, DiscreteSacLoss, testing::Bool());

TEST(DiscreteSacLoss, ARowWithoutALegalActionIsWorthNothing) {
  std::vector<float> value(2);
  ComputeSoftValues({{1, 2, 0, 0}, {3, 4, 5, 5}, 2, {0, 0, 1, 1}}, 0, absl::MakeSpan(value));
  EXPECT_THAT(value, testing::ElementsAre(0, 5));
}

TEST(DiscreteSacLoss, LargeLogitsAreFiniteAndNanIsNot) {
  std::vector<float> value(1), mean_log_prob(1), d_logit(2);
  ComputeSoftValues({{1e6f, -1e6f}, {3, 4}, 2}, 1, absl::MakeSpan(value));
  EXPECT_FLOAT_EQ(value[0], 3);
  EXPECT_FLOAT_EQ(
      ComputeDiscreteSacActorLoss({{1e6f, -1e6f}, {3, 4}, 2}, 1, absl::MakeSpan(mean_log_prob),
                                  absl::MakeSpan(d_logit)),
      -3);
  EXPECT_THAT(d_logit, testing::ElementsAre(0, 0));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ComputeSoftValues({{nan, 1}, {3, 4}, 2}, 1, absl::MakeSpan(value));
  EXPECT_TRUE(std::isnan(value[0]));
}

constexpr size_t kIqlRows = 9;
constexpr size_t kWidth = 3;
constexpr double kTau = 0.8;

std::vector<float> Random(size_t size, double bound, uint64_t seed) {
  Rng rng(seed, "iql_loss_test");
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(rng.Uniform(-bound, bound));
  return values;
}

TEST(ExpectileLoss, AgreesWithItsDefinitionAndFiniteDifferences) {
  const std::vector<float> q = Random(kIqlRows, 3, 1);
  std::vector<float> v = Random(kIqlRows, 3, 2);
  std::vector<float> d_v(kIqlRows), ignored(kIqlRows);
  const ExpectileLossResult result = ComputeExpectileLoss(q, v, kTau, absl::MakeSpan(d_v));
  double expected = 0, mean = 0;
  for (size_t i = 0; i < kIqlRows; ++i) {
    const double above = std::max(0.0f, q[i] - v[i]), below = std::max(0.0f, v[i] - q[i]);
    expected += (kTau * above * above + (1 - kTau) * below * below) / kIqlRows;
    mean += v[i] / kIqlRows;
  }
  EXPECT_NEAR(result.loss, expected, 1e-6);
  EXPECT_NEAR(result.mean_value, mean, 1e-6);
  ExpectGradientsOf([&] { return ComputeExpectileLoss(q, v, kTau, absl::MakeSpan(ignored)).loss; },
                    absl::MakeSpan(v), d_v, 1.0f / 1024, 2e-4);
}

TEST(ExpectileLoss, TheMinimumIsTheExpectile) {
  // A constant v for q of 0 and 1 in equal parts: tau (1 - v) = (1 - tau) v, so v = tau.
  std::vector<float> d_v(2);
  ComputeExpectileLoss({0, 1}, {0.8f, 0.8f}, kTau, absl::MakeSpan(d_v));
  EXPECT_NEAR(d_v[0] + d_v[1], 0, 1e-6);
}

TEST(AdvantageWeights, AreExponentialAndBounded) {
  std::vector<float> weight(4);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const double mean =
      ComputeAdvantageWeights({1, 2, 1000, -1000}, {1, 1, 1, 1}, 2, absl::MakeSpan(weight));
  EXPECT_THAT(weight, testing::ElementsAre(testing::FloatEq(1), testing::FloatEq(std::exp(2.0f)),
                                           testing::FloatEq(100), testing::FloatEq(0)));
  EXPECT_NEAR(mean, (101 + std::exp(2.0)) / 4, 1e-5);
  ComputeAdvantageWeights({1, nan, 1, 1}, {1, 1, 1, 1}, 2, absl::MakeSpan(weight));
  EXPECT_TRUE(std::isnan(weight[1]));
}

TEST(WeightedLikelihoodLoss, AgreesWithItsDefinitionAndFiniteDifferences) {
  const std::vector<float> action = Random(kIqlRows * kWidth, 1, 3);
  std::vector<float> mean = Random(kIqlRows * kWidth, 1, 4);
  std::vector<float> log_std = Random(kWidth, 0.7, 5);
  std::vector<float> weight = Random(kIqlRows, 2, 6);
  for (float& value : weight) value = std::abs(value);
  std::vector<float> d_mean(mean.size()), d_log_std(kWidth);
  std::vector<float> ignored(mean.size()), ignored_std(kWidth);
  const double loss = ComputeWeightedLikelihoodLoss(
      {action, mean, log_std, weight}, absl::MakeSpan(d_mean), absl::MakeSpan(d_log_std));
  double expected = 0;
  for (size_t at = 0; at < mean.size(); ++at) {
    const double std = std::exp(log_std[at % kWidth]);
    const double z = (action[at] - mean[at]) / std;
    const double density = std::exp(-z * z / 2) / (std * std::sqrt(2 * 3.14159265358979));
    expected -= weight[at / kWidth] * std::log(density) / kIqlRows;
  }
  EXPECT_NEAR(loss, expected, 1e-5);
  const auto again = [&] {
    return ComputeWeightedLikelihoodLoss({action, mean, log_std, weight}, absl::MakeSpan(ignored),
                                         absl::MakeSpan(ignored_std));
  };
  ExpectGradientsOf(again, absl::MakeSpan(mean), d_mean, 1.0f / 1024, 2e-4);
  ExpectGradientsOf(again, absl::MakeSpan(log_std), d_log_std, 1.0f / 1024, 2e-4);
}

constexpr size_t kSacRows = 11;
constexpr size_t kCritics = 3;

struct SacColumns {
  SacColumns()
      : q(kCritics, std::vector<float>(kSacRows)),
        d_q(q),
        log_prob(kSacRows),
        d_log_prob(kSacRows) {
    Rng rng(1, "sac_loss_test");
    for (auto& column : q) {
      for (float& value : column) value = static_cast<float>(rng.Uniform(-3, 3));
    }
    for (float& value : log_prob) value = static_cast<float>(rng.Uniform(-4, 2));
  }
  SacActorLossResult Compute(CriticReduction reduction) {
    const CriticColumns columns(q.begin(), q.end());
    MutableCriticColumns gradients;
    for (auto& column : d_q) gradients.push_back(absl::MakeSpan(column));
    return ComputeSacActorLoss(columns, log_prob, kAlpha, reduction, gradients,
                               absl::MakeSpan(d_log_prob));
  }

  std::vector<std::vector<float>> q, d_q;
  std::vector<float> log_prob, d_log_prob;
};

class SacActorLoss : public testing::TestWithParam<CriticReduction> {};

TEST_P(SacActorLoss, AgreesWithItsDefinition) {
  SacColumns columns;
  const SacActorLossResult result = columns.Compute(GetParam());
  double loss = 0, mean_value = 0;
  for (size_t i = 0; i < kSacRows; ++i) {
    const double a = columns.q[0][i], b = columns.q[1][i], c = columns.q[2][i];
    const double value =
        GetParam() == CriticReduction::kMin ? std::min({a, b, c}) : (a + b + c) / 3;
    loss += (kAlpha * columns.log_prob[i] - value) / kSacRows;
    mean_value += value / kSacRows;
  }
  EXPECT_NEAR(result.loss, loss, 1e-6);
  EXPECT_NEAR(result.mean_value, mean_value, 1e-6);
}

TEST_P(SacActorLoss, TheGradientsAgreeWithFiniteDifferences) {
  SacColumns columns;
  columns.Compute(GetParam());
  const auto d_q = columns.d_q;
  const auto d_log_prob = columns.d_log_prob;
  const auto loss = [&] { return columns.Compute(GetParam()).loss; };
  ExpectGradientsOf(loss, absl::MakeSpan(columns.log_prob), d_log_prob, 1.0f / 1024, 1e-4);
  for (size_t k = 0; k < kCritics; ++k) {
    SCOPED_TRACE(k);
    ExpectGradientsOf(loss, absl::MakeSpan(columns.q[k]), d_q[k], 1.0f / 1024, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Reductions, SacActorLoss,
                         testing::Values(CriticReduction::kMin, CriticReduction::kMean));

TEST(SubtractEntropyCost, ALikelyActionIsWorthLess) {
  std::vector<float> value = {1, 2};
  SubtractEntropyCost({2, -4}, 0.5, absl::MakeSpan(value));
  EXPECT_THAT(value, testing::ElementsAre(0, 4));
}

TEST(TemperatureLoss, AgreesWithItsDefinitionAndFiniteDifferences) {
  const std::vector<float> log_prob = {1, -2, 0.5f, 3};
  constexpr double kTarget = -1.5;
  const auto loss = [&](double log_alpha) {
    return ComputeTemperatureLoss(log_prob, log_alpha, kTarget).loss;
  };
  EXPECT_NEAR(loss(0.7), -0.7 * (2.5 / 4 - 1.5), 1e-9);
  const TemperatureLossResult result = ComputeTemperatureLoss(log_prob, 0.7, kTarget);
  EXPECT_NEAR(result.d_log_alpha, (loss(0.7001) - loss(0.6999)) / 2e-4, 1e-6);
  EXPECT_NEAR(result.mean_entropy, -2.5 / 4, 1e-9);
}

TEST(TemperatureLoss, TooLittleEntropyRaisesTheTemperature) {
  EXPECT_LT(ComputeTemperatureLoss({5}, 0, -1).d_log_alpha, 0);
  EXPECT_GT(ComputeTemperatureLoss({-5}, 0, -1).d_log_alpha, 0);
}

TEST(SmoothTargetActions, ClipsNoiseAndAction) {
  std::vector<float> action = {0.1f, 0.1f, 0.1f, 0.9f, -0.9f};
  SmoothTargetActions({1, 10, -10, 2, -2}, 0.2, 0.5, absl::MakeSpan(action));
  EXPECT_THAT(action,
              ElementsAre(FloatEq(0.3f), FloatEq(0.6f), FloatEq(-0.4f), FloatEq(1), FloatEq(-1)));
}

TEST(SmoothTargetActions, WithoutNoiseActionsStay) {
  std::vector<float> action = {0.25f, -1};
  SmoothTargetActions({3, -3}, 0, 0.5, absl::MakeSpan(action));
  EXPECT_THAT(action, ElementsAre(0.25f, -1));
}

TEST(DeterministicActorLoss, IsMinusTheMeanAndAgreesWithFiniteDifferences) {
  std::vector<float> q = {3, -1, 2, 0.5f};
  std::vector<float> d_q(4);
  std::vector<float> ignored(4);
  EXPECT_NEAR(ComputeDeterministicActorLoss(q, absl::MakeSpan(d_q)), -4.5 / 4, 1e-9);
  ExpectGradientsOf([&] { return ComputeDeterministicActorLoss(q, absl::MakeSpan(ignored)); },
                    absl::MakeSpan(q), d_q, 1.0f / 256, 1e-6);
}

TEST(DeterministicActorLoss, LambdaScalesLossAndGradient) {
  std::vector<float> d_q(4);
  EXPECT_NEAR(ComputeDeterministicActorLoss({3, -1, 2, 0.5f}, absl::MakeSpan(d_q), 2), -4.5 / 2,
              1e-9);
  EXPECT_THAT(d_q, testing::Each(FloatEq(-0.5f)));
}

TEST(ValueWeight, MakesTheMeanAbsoluteValueAlpha) {
  const std::vector<float> q = {3, -1, 2, -2};
  EXPECT_DOUBLE_EQ(MeanAbsolute(q), 2);
  EXPECT_DOUBLE_EQ(ValueWeight(2.5, MeanAbsolute(q)), 1.25);
  EXPECT_DOUBLE_EQ(ValueWeight(2.5, 0), 2.5e6);
}

TEST(CloningLoss, AgreesWithFiniteDifferencesAndIsAdded) {
  std::vector<float> action = {0.5f, -0.25f, 1, 0};
  const std::vector<float> data = {0.5f, 0.75f, -1, 0.5f};
  std::vector<float> d_action(4, 2.0f);
  std::vector<float> ignored(4);
  EXPECT_NEAR(AddCloningLoss(action, data, absl::MakeSpan(d_action)), (1 + 4 + 0.25) / 4, 1e-9);
  for (float& value : d_action) value -= 2;
  ExpectGradientsOf([&] { return AddCloningLoss(action, data, absl::MakeSpan(ignored)); },
                    absl::MakeSpan(action), d_action, 1.0f / 256, 1e-5);
}

}  // namespace
}  // namespace ding
