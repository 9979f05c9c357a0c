#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr size_t kRows = 9;
constexpr size_t kWidth = 3;
constexpr double kTau = 0.8;

std::vector<float> Random(size_t size, double bound, uint64_t seed) {
  Rng rng(seed, "iql_loss_test");
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(rng.Uniform(-bound, bound));
  return values;
}

// Expects `gradient` to be that of `loss` by `values`.
template <typename Loss>
void ExpectGradient(const std::vector<float>& gradient, std::vector<float>* values,
                    const Loss& loss) {
  constexpr float kStep = 1.0f / 1024;
  for (size_t i = 0; i < values->size(); ++i) {
    float& value = (*values)[i];
    const float start = value;
    value = start + kStep;
    const double above = loss();
    value = start - kStep;
    const double below = loss();
    value = start;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 2e-4) << "element " << i;
  }
}

TEST(ExpectileLoss, AgreesWithItsDefinitionAndFiniteDifferences) {
  const std::vector<float> q = Random(kRows, 3, 1);
  std::vector<float> v = Random(kRows, 3, 2);
  std::vector<float> d_v(kRows), ignored(kRows);
  const ExpectileLossResult result = ComputeExpectileLoss(q, v, kTau, absl::MakeSpan(d_v));
  double expected = 0, mean = 0;
  for (size_t i = 0; i < kRows; ++i) {
    const double above = std::max(0.0f, q[i] - v[i]), below = std::max(0.0f, v[i] - q[i]);
    expected += (kTau * above * above + (1 - kTau) * below * below) / kRows;
    mean += v[i] / kRows;
  }
  EXPECT_NEAR(result.loss, expected, 1e-6);
  EXPECT_NEAR(result.mean_value, mean, 1e-6);
  ExpectGradient(d_v, &v,
                 [&] { return ComputeExpectileLoss(q, v, kTau, absl::MakeSpan(ignored)).loss; });
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
  const std::vector<float> action = Random(kRows * kWidth, 1, 3);
  std::vector<float> mean = Random(kRows * kWidth, 1, 4);
  std::vector<float> log_std = Random(kWidth, 0.7, 5);
  std::vector<float> weight = Random(kRows, 2, 6);
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
    expected -= weight[at / kWidth] * std::log(density) / kRows;
  }
  EXPECT_NEAR(loss, expected, 1e-5);
  const auto again = [&] {
    return ComputeWeightedLikelihoodLoss({action, mean, log_std, weight}, absl::MakeSpan(ignored),
                                         absl::MakeSpan(ignored_std));
  };
  ExpectGradient(d_mean, &mean, again);
  ExpectGradient(d_log_std, &log_std, again);
}

}  // namespace
}  // namespace ding
