#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/loss/distributional_loss.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int kRows = 9;
constexpr int kActions = 3;

// A random batch that owns its columns. Rewards also lie outside of the support.
struct RandomBatch {
  RandomBatch(uint64_t seed, const CategoricalSupport& atoms) : support(atoms) {
    Rng rng(seed, "categorical_loss_test");
    const auto draw = [&](double low, double high) {
      return static_cast<float>(rng.Uniform(low, high));
    };
    for (int64_t i = 0; i < kRows * kActions * support.atoms; ++i) logit.push_back(draw(-2, 2));
    for (int64_t i = 0; i < kRows * support.atoms; ++i) next_logit.push_back(draw(-2, 2));
    for (int i = 0; i < kRows; ++i) {
      action.push_back(static_cast<int64_t>(rng.UniformInt(kActions)));
      reward.push_back(draw(2 * support.v_min, 2 * support.v_max));
      discount.push_back(rng.UniformInt(4) == 0 ? 0.0f : 0.9f);
      weight.push_back(draw(0.1, 1));
    }
    td_error.resize(kRows);
    d_logit.resize(logit.size());
  }
  TdLossResult Compute() {
    return ComputeCategoricalLoss({logit, action, reward, discount, next_logit, weight}, support,
                                  absl::MakeSpan(td_error), absl::MakeSpan(d_logit));
  }

  CategoricalSupport support;
  std::vector<float> logit, next_logit, reward, discount, weight, td_error, d_logit;
  std::vector<int64_t> action;
};

std::vector<double> Softmax(const float* logit, int64_t size) {
  std::vector<double> p(size);
  double total = 0;
  for (int64_t k = 0; k < size; ++k) total += p[k] = std::exp(static_cast<double>(logit[k]));
  for (double& value : p) value /= total;
  return p;
}

// The target of row `i` by its definition: each atom of the target gets the share (1 - distance /
// step) of every value closer than one step.
std::vector<double> TargetOf(const RandomBatch& batch, int i) {
  const CategoricalSupport& support = batch.support;
  const double step =
      (double{support.v_max} - support.v_min) / static_cast<double>(support.atoms - 1);
  const std::vector<double> next = Softmax(&batch.next_logit[i * support.atoms], support.atoms);
  std::vector<double> target(support.atoms);
  for (int64_t k = 0; k < support.atoms; ++k) {
    const double z = support.v_min + static_cast<double>(k) * step;
    const double value = std::clamp<double>(batch.reward[i] + double{batch.discount[i]} * z,
                                            support.v_min, support.v_max);
    for (int64_t j = 0; j < support.atoms; ++j) {
      const double atom = support.v_min + static_cast<double>(j) * step;
      target[j] += next[k] * std::clamp(1 - std::abs(value - atom) / step, 0.0, 1.0);
    }
  }
  return target;
}

class CategoricalLoss : public testing::TestWithParam<CategoricalSupport> {};

TEST_P(CategoricalLoss, EqualsItsDefinition) {
  RandomBatch batch(1, GetParam());
  const TdLossResult result = batch.Compute();
  double loss = 0, mean_q = 0, mean_next = 0;
  for (int i = 0; i < kRows; ++i) {
    const std::vector<double> target = TargetOf(batch, i);
    const int64_t chosen = (i * kActions + batch.action[i]) * GetParam().atoms;
    const std::vector<double> p = Softmax(&batch.logit[chosen], GetParam().atoms);
    const std::vector<double> next =
        Softmax(&batch.next_logit[i * GetParam().atoms], GetParam().atoms);
    double cross_entropy = 0, divergence = 0;
    for (int64_t k = 0; k < GetParam().atoms; ++k) {
      const double z = GetParam().v_min + static_cast<double>(k) * GetParam().step();
      cross_entropy -= target[k] * std::log(p[k]);
      if (target[k] > 0) divergence += target[k] * std::log(target[k] / p[k]);
      mean_q += z * p[k] / kRows;
      mean_next += z * next[k] / kRows;
    }
    loss += batch.weight[i] * cross_entropy / kRows;
    EXPECT_NEAR(batch.td_error[i], divergence, 1e-4) << "row " << i;
  }
  EXPECT_NEAR(result.loss, loss, 1e-4);
  EXPECT_NEAR(result.mean_q, mean_q, 1e-4);
  EXPECT_NEAR(result.mean_next_value, mean_next, 1e-4);
}

// The loop is written out here and in quantile_loss_test.cc: the batches share no type, and each
// loss needs its own step and bound.
TEST_P(CategoricalLoss, TheGradientAgreesWithFiniteDifferences) {
  RandomBatch batch(2, GetParam());
  batch.Compute();
  const std::vector<float> d_logit = batch.d_logit;
  constexpr float kStep = 1.0f / 64;
  for (size_t i = 0; i < d_logit.size(); ++i) {
    const float logit = batch.logit[i];
    batch.logit[i] = logit + kStep;
    const double above = batch.Compute().loss;
    batch.logit[i] = logit - kStep;
    const double below = batch.Compute().loss;
    batch.logit[i] = logit;
    EXPECT_NEAR(d_logit[i], (above - below) / (2 * kStep), 1e-4) << "logit " << i;
  }
}

TEST_P(CategoricalLoss, MeansAreThoseOfTheDistributions) {
  RandomBatch batch(3, GetParam());
  std::vector<float> mean(kRows * kActions);
  ComputeCategoricalMeans(batch.logit, GetParam(), absl::MakeSpan(mean));
  for (size_t i = 0; i < mean.size(); ++i) {
    const std::vector<double> p = Softmax(&batch.logit[i * GetParam().atoms], GetParam().atoms);
    double expected = 0;
    for (int64_t k = 0; k < GetParam().atoms; ++k) {
      expected += p[k] * (GetParam().v_min + static_cast<double>(k) * GetParam().step());
    }
    EXPECT_NEAR(mean[i], expected, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Supports, CategoricalLoss,
                         testing::Values(CategoricalSupport{-10, 10, 51},
                                         CategoricalSupport{0, 3, 7}, CategoricalSupport{-1, 1, 2},
                                         CategoricalSupport{-4, 12, 33}),
                         [](const auto& info) {
                           return std::to_string(info.param.atoms) + "Atoms";
                         });

TEST(CategoricalLossTest, TheGradientVanishesAtTheTarget) {
  // A terminated row with reward v_min + 2 steps: the target is atom 2 alone.
  const CategoricalSupport support = {0, 4, 5};
  const std::vector<float> logit = {-60, -60, 60, -60, -60};
  const std::vector<float> next_logit(5, 1.0f);
  std::vector<float> td_error(1);
  std::vector<float> d_logit(5);
  const TdLossResult result =
      ComputeCategoricalLoss({logit, {0}, {2}, {0}, next_logit}, support, absl::MakeSpan(td_error),
                             absl::MakeSpan(d_logit));
  EXPECT_NEAR(result.loss, 0, 1e-6);
  EXPECT_NEAR(result.mean_q, 2, 1e-6);
  EXPECT_NEAR(td_error[0], 0, 1e-6);
  for (const float d : d_logit) EXPECT_NEAR(d, 0, 1e-6);
}

TEST(CategoricalLossTest, NanMakesTheLossNan) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (int column = 0; column < 3; ++column) {
    RandomBatch batch(4, {});
    if (column == 0) batch.reward[2] = kNan;
    if (column == 1) batch.next_logit[60] = kNan;
    if (column == 2) batch.logit[static_cast<size_t>(batch.action[0] * 51 + 50)] = kNan;
    EXPECT_TRUE(std::isnan(batch.Compute().loss)) << column;
  }
}

}  // namespace
}  // namespace ding
