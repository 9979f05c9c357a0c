#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr size_t kRows = 7;
constexpr size_t kActions = 4;
constexpr double kAlpha = 0.3;

struct RandomColumns {
  explicit RandomColumns(bool masked) : value(kRows), mean_log_prob(kRows), d_logit(kRows * 4) {
    Rng rng(1, "discrete_sac_loss_test");
    for (size_t i = 0; i < kRows * kActions; ++i) {
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
  RandomColumns columns(GetParam());
  ComputeSoftValues(columns.Input(), kAlpha, absl::MakeSpan(columns.value));
  const double loss = columns.Loss();
  double expected_loss = 0;
  for (size_t i = 0; i < kRows; ++i) {
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
    expected_loss -= value / kRows;
  }
  EXPECT_NEAR(loss, expected_loss, 1e-6);
}

TEST_P(DiscreteSacLoss, TheGradientAgreesWithFiniteDifferences) {
  RandomColumns columns(GetParam());
  columns.Loss();
  const std::vector<float> d_logit = columns.d_logit;
  constexpr float kStep = 1.0f / 1024;
  for (size_t i = 0; i < d_logit.size(); ++i) {
    const float start = columns.logit[i];
    columns.logit[i] = start + kStep;
    const double above = columns.Loss();
    columns.logit[i] = start - kStep;
    const double below = columns.Loss();
    columns.logit[i] = start;
    EXPECT_NEAR(d_logit[i], (above - below) / (2 * kStep), 1e-5) << "logit " << i;
    if (!columns.mask.empty() && columns.mask[i] == 0) {
      EXPECT_EQ(d_logit[i], 0);
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

}  // namespace
}  // namespace ding
