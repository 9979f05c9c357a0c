#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr size_t kWidth = 2;
constexpr size_t kRows = 7;
constexpr size_t kSize = kWidth * kRows;

struct Columns {
  Columns() {
    Rng rng(3, "squashed_normal_test");
    for (size_t i = 0; i < kSize; ++i) {
      mean.push_back(static_cast<float>(rng.Uniform(-1.5, 1.5)));
      log_std.push_back(static_cast<float>(rng.Uniform(-2, 0.5)));
      noise.push_back(static_cast<float>(rng.Normal()));
      d_action.push_back(static_cast<float>(rng.Uniform(-1, 1)));
    }
    for (size_t i = 0; i < kRows; ++i) d_log_prob.push_back(static_cast<float>(rng.Uniform(-1, 1)));
  }
  void Sample() {
    distribution.Sample(mean, log_std, noise, absl::MakeSpan(action), absl::MakeSpan(log_prob));
  }
  void Backward() {
    distribution.Backward(d_action, d_log_prob, absl::MakeSpan(d_mean), absl::MakeSpan(d_log_std));
  }
  // A loss with the gradients d_action and d_log_prob.
  double Loss() {
    Sample();
    double sum = 0;
    for (size_t i = 0; i < kSize; ++i) sum += static_cast<double>(d_action[i]) * action[i];
    for (size_t i = 0; i < kRows; ++i) sum += static_cast<double>(d_log_prob[i]) * log_prob[i];
    return sum;
  }

  SquashedNormal distribution{kWidth};
  std::vector<float> mean, log_std, noise, d_action, d_log_prob;
  std::vector<float> action = std::vector<float>(kSize), d_mean = action, d_log_std = action;
  std::vector<float> log_prob = std::vector<float>(kRows);
};

TEST(SquashedNormal, AgreesWithTheDensityOfTheTransformedNormal) {
  Columns columns;
  columns.Sample();
  for (size_t row = 0; row < kRows; ++row) {
    double log_prob = 0;
    for (size_t at = row * kWidth; at < (row + 1) * kWidth; ++at) {
      const double std = std::exp(static_cast<double>(columns.log_std[at]));
      const double u = columns.mean[at] + std * columns.noise[at];
      EXPECT_NEAR(columns.action[at], std::tanh(u), 1e-6);
      const double normal = std::exp(-0.5 * columns.noise[at] * columns.noise[at]) /
                            (std * std::sqrt(2 * std::acos(-1.0)));
      log_prob += std::log(normal / (1 - std::tanh(u) * std::tanh(u)));
    }
    EXPECT_NEAR(columns.log_prob[row], log_prob, 1e-5 * std::max(1.0, std::abs(log_prob)))
        << "row " << row;
  }
}

TEST(SquashedNormal, TheDensityIntegratesToOne) {
  constexpr int kSteps = 4000;
  std::vector<float> mean(kSteps, 0.4f), log_std(kSteps, -0.3f), noise, action(kSteps),
      log_prob(kSteps);
  for (int i = 0; i < kSteps; ++i) noise.push_back(-6 + 12 * static_cast<float>(i) / kSteps);
  SquashedNormal(1).Sample(mean, log_std, noise, absl::MakeSpan(action), absl::MakeSpan(log_prob));
  double integral = 0;
  for (int i = 1; i < kSteps; ++i) {
    integral += std::exp(0.5 * (log_prob[i] + log_prob[i - 1])) * (action[i] - action[i - 1]);
  }
  EXPECT_NEAR(integral, 1, 1e-3);
}

TEST(SquashedNormal, TheGradientsAgreeWithFiniteDifferences) {
  Columns columns;
  columns.Sample();
  columns.Backward();
  const auto check = [&](std::vector<float>* values, const std::vector<float>& gradient) {
    constexpr float kStep = 1.0f / 256;
    for (size_t i = 0; i < kSize; ++i) {
      const float start = (*values)[i];
      (*values)[i] = start + kStep;
      const double above = columns.Loss();
      (*values)[i] = start - kStep;
      const double below = columns.Loss();
      (*values)[i] = start;
      const double quotient = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradient[i], quotient, 2e-3 * std::max(1.0, std::abs(quotient))) << i;
    }
  };
  check(&columns.mean, columns.d_mean);
  check(&columns.log_std, columns.d_log_std);
}

TEST(SquashedNormal, AClippedDeviationHasNoGradient) {
  Columns columns;
  columns.log_std[0] = kMaxLogStd + 1;
  columns.log_std[1] = kMinLogStd - 1;
  columns.Sample();
  columns.Backward();
  EXPECT_EQ(columns.d_log_std[0], 0);
  EXPECT_EQ(columns.d_log_std[1], 0);
  EXPECT_NE(columns.d_log_std[2], 0);
  const std::vector<float> action = columns.action;
  columns.log_std[0] = kMaxLogStd;
  columns.Sample();
  EXPECT_EQ(columns.action, action);
}

TEST(SquashedNormal, ExtremeOutputsOfANetworkGiveFiniteResults) {
  for (const float mean : {-1e30f, -300.0f, 0.0f, 300.0f, 1e30f}) {
    for (const float log_std : {-1e30f, -100.0f, 100.0f, 1e30f}) {
      std::vector<float> action(1), log_prob(1), d_mean(1), d_log_std(1);
      const std::vector<float> means = {mean}, log_stds = {log_std}, noise = {5.9f}, one = {1};
      SquashedNormal distribution(1);
      distribution.Sample(means, log_stds, noise, absl::MakeSpan(action), absl::MakeSpan(log_prob));
      distribution.Backward(one, one, absl::MakeSpan(d_mean), absl::MakeSpan(d_log_std));
      EXPECT_LE(std::abs(action[0]), 1);
      for (const float value : {log_prob[0], d_mean[0], d_log_std[0]}) {
        EXPECT_TRUE(std::isfinite(value)) << mean << " " << log_std;
      }
    }
  }
}

TEST(SquashMean, IsTanhWithItsGradient) {
  const std::vector<float> mean = {-20, -1.5f, -1e-4f, 0, 0.3f, 2, 20};
  std::vector<float> action(mean.size()), d_mean(mean.size());
  SquashMean(mean, absl::MakeSpan(action));
  const std::vector<float> two(mean.size(), 2.0f);
  SquashMeanBackward(action, two, absl::MakeSpan(d_mean));
  for (size_t i = 0; i < mean.size(); ++i) {
    const double expected = std::tanh(static_cast<double>(mean[i]));
    EXPECT_NEAR(action[i], expected, 2e-7);
    EXPECT_NEAR(d_mean[i], 2 * (1 - expected * expected), 1e-6);
  }
}

}  // namespace
}  // namespace ding
