#include "ding_worker/policy/loss/td_loss.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/policy/gradient_check.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// A random batch that owns its columns.
struct RandomBatch {
  RandomBatch(uint64_t seed, int rows, int actions) {
    Rng rng(seed, "td_loss_test");
    for (int i = 0; i < rows * actions; ++i) q.push_back(static_cast<float>(rng.Uniform(-3, 3)));
    for (int i = 0; i < rows; ++i) {
      action.push_back(static_cast<int64_t>(rng.UniformInt(actions)));
      reward.push_back(static_cast<float>(rng.Uniform(-2, 2)));
      discount.push_back(rng.UniformInt(4) == 0 ? 0.0f : 0.9f);
      next_value.push_back(static_cast<float>(rng.Uniform(-3, 3)));
      weight.push_back(static_cast<float>(rng.Uniform(0.1, 1)));
    }
    td_error.resize(rows);
    d_q.resize(q.size());
  }
  TdLossInput input() const { return {q, action, reward, discount, next_value, weight}; }
  TdLossResult Compute(const TdLossOptions& options) {
    return ComputeTdLoss(input(), options, absl::MakeSpan(td_error), absl::MakeSpan(d_q));
  }

  std::vector<float> q, reward, discount, next_value, weight, td_error, d_q;
  std::vector<int64_t> action;
};

TEST(TdLoss, MseEqualsTheWeightedMeanOfSquaredErrors) {
  constexpr int kRows = 33;
  constexpr int kActions = 5;
  RandomBatch batch(1, kRows, kActions);
  const TdLossResult result = batch.Compute({});
  double loss = 0, q_sum = 0, value_sum = 0;
  for (int i = 0; i < kRows; ++i) {
    const double q = batch.q[i * kActions + batch.action[i]];
    const double target = batch.reward[i] + batch.discount[i] * batch.next_value[i];
    loss += batch.weight[i] * (q - target) * (q - target);
    q_sum += q;
    value_sum += batch.next_value[i];
    EXPECT_NEAR(batch.td_error[i], q - target, 1e-6) << "row " << i;
  }
  EXPECT_NEAR(result.loss, loss / kRows, 1e-6);
  EXPECT_NEAR(result.mean_q, q_sum / kRows, 1e-6);
  EXPECT_NEAR(result.mean_next_value, value_sum / kRows, 1e-6);
}

TEST(TdLoss, HuberIsQuadraticInsideDeltaAndLinearOutside) {
  const TdLossOptions options{TdLossKind::kHuber, 0.5f};
  const std::vector<float> zero = {0};
  const std::vector<int64_t> action = {0};
  float td_error = 0, d_q = 0;
  const auto loss_of = [&](float q) {
    return ComputeTdLoss({{q}, action, zero, zero, zero}, options, absl::MakeSpan(&td_error, 1),
                         absl::MakeSpan(&d_q, 1))
        .loss;
  };
  EXPECT_NEAR(loss_of(0.25f), 0.5 * 0.25 * 0.25, 1e-7);
  EXPECT_FLOAT_EQ(d_q, 0.25f);
  EXPECT_NEAR(loss_of(-2.0f), 0.5 * (2.0 - 0.25), 1e-7);
  EXPECT_FLOAT_EQ(d_q, -0.5f);
  EXPECT_FLOAT_EQ(td_error, -2.0f) << "the error itself is not clipped";
}

TEST(TdLoss, WithoutAWeightColumnAllWeightsAreOne) {
  RandomBatch batch(2, 9, 3);
  TdLossInput input = batch.input();
  input.weight = {};
  const TdLossResult without =
      ComputeTdLoss(input, {}, absl::MakeSpan(batch.td_error), absl::MakeSpan(batch.d_q));
  const std::vector<float> d_q = batch.d_q;
  batch.weight.assign(9, 1.0f);
  EXPECT_EQ(batch.Compute({}).loss, without.loss);
  EXPECT_EQ(batch.d_q, d_q);
}

class TdLossGradient : public testing::TestWithParam<TdLossKind> {};

TEST_P(TdLossGradient, AgreesWithFiniteDifferences) {
  const TdLossOptions options{GetParam(), 0.7f};
  RandomBatch batch(3, 8, 4);
  batch.Compute(options);
  const std::vector<float> d_q = batch.d_q;
  // The step is exact in float32, so that only curvature causes an error.
  ExpectGradientsOf([&] { return batch.Compute(options).loss; }, absl::MakeSpan(batch.q), d_q,
                    1.0f / 256, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TdLossGradient,
                         testing::Values(TdLossKind::kMse, TdLossKind::kHuber));

// Returns the target of a row at the end of an episode of three rewards, with n = 5.
float TargetAt(SegmentEnd end, float next_value) {
  const std::vector<float> reward = {1, 2, 4};
  const NStepReturn nstep = ComputeNStepReturn(reward, end, 5, 0.5);
  const std::vector<float> q = {0};
  const std::vector<int64_t> action = {0};
  float td_error = 0, d_q = 0;
  ComputeTdLoss({q, action, {nstep.reward}, {nstep.bootstrap_discount}, {next_value}}, {},
                absl::MakeSpan(&td_error, 1), absl::MakeSpan(&d_q, 1));
  return -td_error;
}

TEST(TdLoss, BootstrapsAfterATimeLimitButNotAfterATermination) {
  EXPECT_FLOAT_EQ(TargetAt(SegmentEnd::kTruncated, 8), 1 + 1 + 1 + 8.0f / 8);
  EXPECT_FLOAT_EQ(TargetAt(SegmentEnd::kTerminated, 8), 1 + 1 + 1);
}

TEST(TdLoss, AnInfiniteErrorMakesTheLossInfinite) {
  RandomBatch batch(4, 4, 2);
  batch.reward[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(batch.Compute({}).loss));
}

TEST(SelectValue, DoubleQUsesTheOnlineChoiceAndTheTargetValue) {
  const std::vector<float> online = {1, 5, 3, /**/ 9, 2, 2};
  const std::vector<float> target = {7, 4, 6, /**/ 1, 8, 3};
  std::vector<float> value(2);
  SelectDoubleQValue(online, target, 3, absl::MakeSpan(value));
  EXPECT_EQ(value, (std::vector<float>{4, 1}));
  SelectMaxValue(target, 3, absl::MakeSpan(value));
  EXPECT_EQ(value, (std::vector<float>{7, 8}));
}

TEST(SelectValue, TakesLegalActionsOnly) {
  const std::vector<float> online = {5, 2, 3, 1, 9, 2, 4, 5, 6};
  const std::vector<float> target = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<uint8_t> mask = {0, 1, 1, 1, 0, 1, 0, 0, 0};
  std::vector<float> value(3);
  SelectMaxValue(online, 3, absl::MakeSpan(value), mask);
  EXPECT_EQ(value, (std::vector<float>{3, 2, 0}));
  SelectDoubleQValue(online, target, 3, absl::MakeSpan(value), mask);
  EXPECT_EQ(value, (std::vector<float>{3, 6, 0}));
}

}  // namespace
}  // namespace ding
