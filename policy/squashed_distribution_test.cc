// The normal distribution of ActionDistribution that tanh squashes, against brute force in double
// precision.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_distribution.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSeed = 11;
constexpr double kTwoPi = 6.283185307179586;

FieldSpec TwoActions() { return Box("action", {2}, {-1, 0}, {1, 4}); }

std::unique_ptr<ActionDistribution> Make(const FieldSpec& action, double log_std) {
  auto made = ActionDistribution::Create(*Spec::Create({action}), log_std, /*squash=*/true);
  EXPECT_THAT(made, IsOk());
  return *std::move(made);
}

BatchBuilder Rows(const ActionDistribution& distribution, int64_t rows) {
  const auto fields = distribution.sample_fields();
  return *BatchBuilder::Create(*MakeSpec({fields.begin(), fields.end()}), rows);
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
  const auto distribution = Make(TwoActions(), 0.5);
  const std::vector<float> head = {0.25f, -0.5f, 30, -30};
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, 2);
  distribution->Mode(rows.view());
  EXPECT_FLOAT_EQ(rows.column<float>(0)[0], std::tanh(0.25f));
  EXPECT_FLOAT_EQ(rows.column<float>(0)[1], 2 * (std::tanh(-0.5f) + 1));
  EXPECT_EQ(rows.column<float>(0)[2], 1.0f);
  EXPECT_EQ(rows.column<float>(0)[3], 0.0f);
  Rng rng(kSeed, "squash");
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
  const auto distribution = Make(TwoActions(), log_std);
  const std::vector<float> head = {0.3f, -0.8f, 1.5f, 0};
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, 2);
  Rng rng(kSeed, "log_prob");
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
  const auto distribution = Make(Box("action", {1}, {-1}, {1}), 0);
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
    const auto distribution = Make(TwoActions(), log_std);
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
  const auto distribution = Make(TwoActions(), -0.3);
  std::vector<float> head = {0.3f, -0.8f, 1.2f, 0, -2, 0.5f};
  const std::vector<float> d_log_prob = {0.7f, -1.3f, 0.4f};
  const std::vector<float> d_entropy = {-0.5f, 0, 0.9f};
  ASSERT_THAT(distribution->Set(head, {}), IsOk());
  const BatchBuilder rows = Rows(*distribution, kRows);
  Rng rng(kSeed, "gradients");
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
  const auto distribution = Make(TwoActions(), 0);
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
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("squash_actions is set, but the actions are categories")));
}

}  // namespace
}  // namespace ding
