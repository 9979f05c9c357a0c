#include <cmath>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/loss/distributional_loss.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int kRows = 7;
constexpr int kActions = 3;

struct Sizes {
  int quantiles;
  int samples;
  float kappa;
};

// A random batch that owns its columns.
struct RandomBatch {
  RandomBatch(uint64_t seed, const Sizes& sizes) : kappa(sizes.kappa) {
    Rng rng(seed, "quantile_loss_test");
    const auto draw = [&](double low, double high) {
      return static_cast<float>(rng.Uniform(low, high));
    };
    for (int i = 0; i < kRows * kActions * sizes.quantiles; ++i) q.push_back(draw(-3, 3));
    for (int i = 0; i < sizes.quantiles; ++i) fraction.push_back(draw(0, 1));
    for (int i = 0; i < kRows * sizes.samples; ++i) next.push_back(draw(-3, 3));
    for (int i = 0; i < kRows; ++i) {
      action.push_back(static_cast<int64_t>(rng.UniformInt(kActions)));
      reward.push_back(draw(-2, 2));
      discount.push_back(rng.UniformInt(4) == 0 ? 0.0f : 0.9f);
      weight.push_back(draw(0.1, 1));
    }
    td_error.resize(kRows);
    d_q.resize(q.size());
  }
  TdLossResult Compute() {
    return ComputeQuantileLoss({q, fraction, action, reward, discount, next, weight}, kappa,
                               absl::MakeSpan(td_error), absl::MakeSpan(d_q));
  }

  float kappa;
  std::vector<float> q, fraction, next, reward, discount, weight, td_error, d_q;
  std::vector<int64_t> action;
};

class QuantileLoss : public testing::TestWithParam<Sizes> {};

TEST_P(QuantileLoss, EqualsItsDefinition) {
  RandomBatch batch(1, GetParam());
  const TdLossResult result = batch.Compute();
  const auto [quantiles, samples, kappa] = GetParam();
  double loss = 0, mean_q = 0, mean_next = 0;
  for (int i = 0; i < kRows; ++i) {
    double row = 0;
    for (int n = 0; n < quantiles; ++n) {
      const double q = batch.q[(i * kActions + batch.action[i]) * quantiles + n];
      mean_q += q / (kRows * quantiles);
      for (int m = 0; m < samples; ++m) {
        const double u =
            batch.reward[i] + double{batch.discount[i]} * batch.next[i * samples + m] - q;
        const double huber =
            std::abs(u) <= kappa ? u * u / 2 : kappa * (std::abs(u) - double{kappa} / 2);
        row += std::abs(batch.fraction[n] - (u < 0 ? 1 : 0)) * huber / kappa / samples;
      }
    }
    for (int m = 0; m < samples; ++m) mean_next += batch.next[i * samples + m] / (kRows * samples);
    loss += batch.weight[i] * row / kRows;
    EXPECT_NEAR(batch.td_error[i], row / quantiles, 1e-5) << "row " << i;
  }
  EXPECT_NEAR(result.loss, loss, 1e-5 * (1 + loss));
  EXPECT_NEAR(result.mean_q, mean_q, 1e-5);
  EXPECT_NEAR(result.mean_next_value, mean_next, 1e-5);
}

// See categorical_loss_test.cc for why the loop is written out in both.
TEST_P(QuantileLoss, TheGradientAgreesWithFiniteDifferences) {
  RandomBatch batch(2, GetParam());
  batch.Compute();
  const std::vector<float> d_q = batch.d_q;
  constexpr float kStep = 1.0f / 256;
  for (size_t i = 0; i < d_q.size(); ++i) {
    const float q = batch.q[i];
    batch.q[i] = q + kStep;
    const double above = batch.Compute().loss;
    batch.q[i] = q - kStep;
    const double below = batch.Compute().loss;
    batch.q[i] = q;
    EXPECT_NEAR(d_q[i], (above - below) / (2 * kStep), 1e-3) << "quantile " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(AllSizes, QuantileLoss,
                         testing::Values(Sizes{20, 20, 1}, Sizes{1, 4, 0.5f}, Sizes{35, 3, 0.7f}),
                         [](const auto& info) {
                           return std::to_string(info.param.quantiles) + "Quantiles";
                         });

TEST(QuantileLossTest, ItsMinimumIsTheQuantilesOfTheTarget) {
  // Descends on quantiles of the uniform distribution of 101 numbers in [0, 1].
  constexpr int kQuantiles = 4;
  std::vector<float> q(kQuantiles, 0.3f), next(101), fraction(kQuantiles), d_q(kQuantiles);
  std::vector<float> td_error(1);
  for (int m = 0; m <= 100; ++m) next[m] = static_cast<float>(m) / 100;
  FillMiddleFractions(absl::MakeSpan(fraction));
  EXPECT_EQ(fraction, (std::vector<float>{0.125f, 0.375f, 0.625f, 0.875f}));
  for (int step = 0; step < 5000; ++step) {
    ComputeQuantileLoss({q, fraction, {0}, {0}, {1}, next}, 0.001f, absl::MakeSpan(td_error),
                        absl::MakeSpan(d_q));
    for (int n = 0; n < kQuantiles; ++n) q[n] -= 0.005f * d_q[n];
  }
  for (int n = 0; n < kQuantiles; ++n) EXPECT_NEAR(q[n], fraction[n], 0.01);
  std::vector<float> mean(1);
  ComputeQuantileMeans(q, absl::MakeSpan(mean));
  EXPECT_NEAR(mean[0], 0.5, 0.01);
}

TEST(QuantileLossTest, NanMakesTheLossNan) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  RandomBatch batch(4, {20, 20, 1});
  batch.reward[2] = kNan;
  EXPECT_TRUE(std::isnan(batch.Compute().loss));
}

}  // namespace
}  // namespace ding
