#include <algorithm>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr size_t kRows = 11;
constexpr size_t kCritics = 3;
constexpr double kAlpha = 0.3;

struct RandomColumns {
  RandomColumns()
      : q(kCritics, std::vector<float>(kRows)), d_q(q), log_prob(kRows), d_log_prob(kRows) {
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
  RandomColumns columns;
  const SacActorLossResult result = columns.Compute(GetParam());
  double loss = 0, mean_value = 0;
  for (size_t i = 0; i < kRows; ++i) {
    const double a = columns.q[0][i], b = columns.q[1][i], c = columns.q[2][i];
    const double value =
        GetParam() == CriticReduction::kMin ? std::min({a, b, c}) : (a + b + c) / 3;
    loss += (kAlpha * columns.log_prob[i] - value) / kRows;
    mean_value += value / kRows;
  }
  EXPECT_NEAR(result.loss, loss, 1e-6);
  EXPECT_NEAR(result.mean_value, mean_value, 1e-6);
}

TEST_P(SacActorLoss, TheGradientsAgreeWithFiniteDifferences) {
  RandomColumns columns;
  columns.Compute(GetParam());
  const auto d_q = columns.d_q;
  const auto d_log_prob = columns.d_log_prob;
  constexpr float kStep = 1.0f / 1024;
  const auto quotient = [&](float* value) {
    const float start = *value;
    *value = start + kStep;
    const double above = columns.Compute(GetParam()).loss;
    *value = start - kStep;
    const double below = columns.Compute(GetParam()).loss;
    *value = start;
    return (above - below) / (2 * kStep);
  };
  for (size_t i = 0; i < kRows; ++i) {
    EXPECT_NEAR(d_log_prob[i], quotient(&columns.log_prob[i]), 1e-4) << "row " << i;
    for (size_t k = 0; k < kCritics; ++k) {
      EXPECT_NEAR(d_q[k][i], quotient(&columns.q[k][i]), 1e-4) << "critic " << k << ", row " << i;
    }
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

}  // namespace
}  // namespace ding
