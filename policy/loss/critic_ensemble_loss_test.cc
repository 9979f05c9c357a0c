#include <cmath>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr size_t kRows = 13;

// Random columns of `critics` critics, with room for the results.
struct RandomColumns {
  explicit RandomColumns(size_t critics)
      : q(critics, std::vector<float>(kRows)), d_q(q), td_error(kRows) {
    Rng rng(critics, "critic_ensemble_loss_test");
    for (auto& column : q) {
      for (float& value : column) value = static_cast<float>(rng.Uniform(-3, 3));
    }
    for (size_t i = 0; i < kRows; ++i) {
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
    RandomColumns columns(critics);
    const CriticLossResult result = columns.Compute();
    double loss = 0, mean_q = 0, mean_target = 0;
    for (size_t i = 0; i < kRows; ++i) {
      const double target = columns.reward[i] + columns.discount[i] * columns.next_value[i];
      mean_target += target / kRows;
      double absolute = 0;
      for (size_t k = 0; k < critics; ++k) {
        const double td = columns.q[k][i] - target;
        loss += columns.weight[i] * td * td / kRows;
        mean_q += columns.q[k][i] / static_cast<double>(kRows * critics);
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
  RandomColumns columns(3);
  columns.Compute();
  const auto d_q = columns.d_q;
  constexpr float kStep = 1.0f / 256;  // exact in float32, so that only curvature causes an error
  for (size_t k = 0; k < columns.q.size(); ++k) {
    for (size_t i = 0; i < kRows; ++i) {
      const float q = columns.q[k][i];
      columns.q[k][i] = q + kStep;
      const double above = columns.Compute().loss;
      columns.q[k][i] = q - kStep;
      const double below = columns.Compute().loss;
      columns.q[k][i] = q;
      EXPECT_NEAR(d_q[k][i], (above - below) / (2 * kStep), 1e-4)
          << "critic " << k << ", row " << i;
    }
  }
}

TEST(CriticEnsembleLoss, WithoutAWeightColumnAllWeightsAreOne) {
  RandomColumns columns(2);
  columns.weight.assign(kRows, 1.0f);
  const double weighted = columns.Compute().loss;
  const auto d_q = columns.d_q;
  columns.weight.clear();
  EXPECT_EQ(columns.Compute().loss, weighted);
  EXPECT_EQ(columns.d_q, d_q);
}

TEST(CriticEnsembleLoss, ATerminatedRowHasNoBootstrapValue) {
  RandomColumns columns(1);
  columns.weight.clear();
  ASSERT_EQ(columns.discount[0], 0);
  columns.next_value[0] = 1e6f;
  columns.Compute();
  EXPECT_FLOAT_EQ(columns.td_error[0], std::abs(columns.q[0][0] - columns.reward[0]));
}

TEST(CriticEnsembleLoss, NanMakesTheLossNan) {
  RandomColumns columns(2);
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

}  // namespace
}  // namespace ding
