#include "ding_worker/policy/loss/distributional_loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/loss/distribution_loops.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using internal_loss::DistributionLoops;
using internal_loss::DistributionLoopsFor;
using internal_loss::QuantileRow;

constexpr int kRows = 9;
constexpr int kActions = 3;

// A random batch that owns its columns. Rewards also lie outside of the support.
struct CategoricalBatch {
  CategoricalBatch(uint64_t seed, const CategoricalSupport& atoms) : support(atoms) {
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
std::vector<double> TargetOf(const CategoricalBatch& batch, int i) {
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
  CategoricalBatch batch(1, GetParam());
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

TEST_P(CategoricalLoss, TheGradientAgreesWithFiniteDifferences) {
  CategoricalBatch batch(2, GetParam());
  batch.Compute();
  const std::vector<float> d_logit = batch.d_logit;
  ExpectGradientsOf([&] { return batch.Compute().loss; }, absl::MakeSpan(batch.logit), d_logit,
                    1.0f / 64, 1e-4);
}

TEST_P(CategoricalLoss, MeansAreThoseOfTheDistributions) {
  CategoricalBatch batch(3, GetParam());
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
    CategoricalBatch batch(4, {});
    if (column == 0) batch.reward[2] = kNan;
    if (column == 1) batch.next_logit[60] = kNan;
    if (column == 2) batch.logit[static_cast<size_t>(batch.action[0] * 51 + 50)] = kNan;
    EXPECT_TRUE(std::isnan(batch.Compute().loss)) << column;
  }
}

constexpr int kQuantileRows = 7;

struct Sizes {
  int quantiles;
  int samples;
  float kappa;
};

// A random batch that owns its columns.
struct QuantileBatch {
  QuantileBatch(uint64_t seed, const Sizes& sizes) : kappa(sizes.kappa) {
    Rng rng(seed, "quantile_loss_test");
    const auto draw = [&](double low, double high) {
      return static_cast<float>(rng.Uniform(low, high));
    };
    for (int i = 0; i < kQuantileRows * kActions * sizes.quantiles; ++i) q.push_back(draw(-3, 3));
    for (int i = 0; i < sizes.quantiles; ++i) fraction.push_back(draw(0, 1));
    for (int i = 0; i < kQuantileRows * sizes.samples; ++i) next.push_back(draw(-3, 3));
    for (int i = 0; i < kQuantileRows; ++i) {
      action.push_back(static_cast<int64_t>(rng.UniformInt(kActions)));
      reward.push_back(draw(-2, 2));
      discount.push_back(rng.UniformInt(4) == 0 ? 0.0f : 0.9f);
      weight.push_back(draw(0.1, 1));
    }
    td_error.resize(kQuantileRows);
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
  QuantileBatch batch(1, GetParam());
  const TdLossResult result = batch.Compute();
  const auto [quantiles, samples, kappa] = GetParam();
  double loss = 0, mean_q = 0, mean_next = 0;
  for (int i = 0; i < kQuantileRows; ++i) {
    double row = 0;
    for (int n = 0; n < quantiles; ++n) {
      const double q = batch.q[(i * kActions + batch.action[i]) * quantiles + n];
      mean_q += q / (kQuantileRows * quantiles);
      for (int m = 0; m < samples; ++m) {
        const double u =
            batch.reward[i] + double{batch.discount[i]} * batch.next[i * samples + m] - q;
        const double huber =
            std::abs(u) <= kappa ? u * u / 2 : kappa * (std::abs(u) - double{kappa} / 2);
        row += std::abs(batch.fraction[n] - (u < 0 ? 1 : 0)) * huber / kappa / samples;
      }
    }
    for (int m = 0; m < samples; ++m)
      mean_next += batch.next[i * samples + m] / (kQuantileRows * samples);
    loss += batch.weight[i] * row / kQuantileRows;
    EXPECT_NEAR(batch.td_error[i], row / quantiles, 1e-5) << "row " << i;
  }
  EXPECT_NEAR(result.loss, loss, 1e-5 * (1 + loss));
  EXPECT_NEAR(result.mean_q, mean_q, 1e-5);
  EXPECT_NEAR(result.mean_next_value, mean_next, 1e-5);
}

TEST_P(QuantileLoss, TheGradientAgreesWithFiniteDifferences) {
  QuantileBatch batch(2, GetParam());
  batch.Compute();
  const std::vector<float> d_q = batch.d_q;
  ExpectGradientsOf([&] { return batch.Compute().loss; }, absl::MakeSpan(batch.q), d_q, 1.0f / 256,
                    1e-3);
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
  QuantileBatch batch(4, {20, 20, 1});
  batch.reward[2] = kNan;
  EXPECT_TRUE(std::isnan(batch.Compute().loss));
}

constexpr int64_t kSizes[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 51, 64, 100, 200};

std::vector<float> RandomValues(int64_t size, double scale, uint64_t stream) {
  Rng rng(size, "distribution_loops_test", stream);
  std::vector<float> values;
  for (int64_t i = 0; i < size; ++i) {
    values.push_back(static_cast<float>(rng.Uniform(-scale, scale)));
  }
  return values;
}

// Tests on every instruction set of this processor.
class DistributionLoopsTest : public testing::TestWithParam<InstructionSet> {
 protected:
  const DistributionLoops& loops_ = DistributionLoopsFor(GetParam());
};

TEST_P(DistributionLoopsTest, SoftmaxAndItsMeanEqualTheirDefinitions) {
  for (const int64_t size : kSizes) {
    for (const double scale : {0.1, 3.0, 60.0}) {
      const std::vector<float> logit = RandomValues(size, scale, 0);
      double total = 0;
      double mean = 0;
      for (const float x : logit) total += std::exp(static_cast<double>(x));
      std::vector<float> probability(logit.size());
      EXPECT_NEAR(loops_.softmax(logit.data(), size, probability.data()), std::log(total), 2e-5);
      for (int64_t i = 0; i < size; ++i) {
        const double p = std::exp(static_cast<double>(logit[i])) / total;
        EXPECT_NEAR(probability[i], p, 1e-6) << i << " of " << size;
        mean += p * (-10 + 0.4 * static_cast<double>(i));
      }
      EXPECT_NEAR(loops_.softmax_mean(logit.data(), size, -10, 0.4f), mean, 1e-4) << size;
    }
  }
}

TEST_P(DistributionLoopsTest, SoftmaxOfLargeLogitsIsFiniteAndOfNanIsNan) {
  const std::vector<float> large = {1e6f, -1e6f, 1e6f};
  std::vector<float> probability(3);
  EXPECT_NEAR(loops_.softmax(large.data(), 3, probability.data()), 1e6 + std::log(2.0), 0.1);
  EXPECT_NEAR(probability[0], 0.5f, 1e-6f);
  EXPECT_NEAR(probability[1], 0, 1e-30f);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const size_t at : {0u, 5u, 18u}) {
      std::vector<float> logit(19, 0.5f);
      logit[at] = bad;
      std::vector<float> ignored(19);
      EXPECT_TRUE(std::isnan(loops_.softmax(logit.data(), 19, ignored.data()))) << at;
      EXPECT_TRUE(std::isnan(loops_.softmax_mean(logit.data(), 19, 0, 1))) << at;
    }
  }
}

TEST_P(DistributionLoopsTest, SumEqualsItsDefinition) {
  for (const int64_t size : kSizes) {
    const std::vector<float> values = RandomValues(size, 2, 1);
    double sum = 0;
    for (const float value : values) sum += value;
    EXPECT_NEAR(loops_.sum(values.data(), size), sum, 1e-5) << size;
  }
}

TEST_P(DistributionLoopsTest, QuantileHuberEqualsItsDefinition) {
  for (const int64_t size : kSizes) {
    for (const int64_t target_size : {int64_t{1}, int64_t{5}, size}) {
      for (const float kappa : {0.25f, 1.0f}) {
        const std::vector<float> quantile = RandomValues(size, 2, 2);
        std::vector<float> fraction = RandomValues(size, 0.5, 3);
        for (float& value : fraction) value += 0.5f;
        const std::vector<float> target = RandomValues(target_size, 2, 4);
        double loss = 0;
        std::vector<double> gradient(quantile.size());
        for (int64_t i = 0; i < size; ++i) {
          for (const float sample : target) {
            const double u = static_cast<double>(sample) - quantile[i];
            const double asymmetry = std::abs(fraction[i] - (u < 0 ? 1.0 : 0.0)) / kappa;
            loss +=
                asymmetry * (std::abs(u) <= kappa ? u * u / 2 : kappa * (std::abs(u) - kappa / 2));
            gradient[i] -= asymmetry * std::clamp<double>(u, -kappa, kappa);
          }
        }
        std::vector<float> d_quantile(quantile.size());
        const QuantileRow row = {quantile.data(), fraction.data(), size,
                                 target.data(),   target_size,     kappa};
        EXPECT_NEAR(loops_.quantile_huber(row, d_quantile.data()), loss, 1e-5 * (1 + loss));
        for (int64_t i = 0; i < size; ++i) {
          EXPECT_NEAR(d_quantile[i], gradient[i], 1e-5 * (1 + std::abs(gradient[i])))
              << i << " of " << size;
        }
      }
    }
  }
}

TEST_P(DistributionLoopsTest, QuantileHuberOfNanOrInfinityIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const bool in_target : {false, true}) {
      std::vector<float> quantile(19, 0.5f);
      std::vector<float> target(19, 0.25f);
      (in_target ? target : quantile)[17] = bad;
      const std::vector<float> fraction(19, 0.5f);
      std::vector<float> d_quantile(19);
      const QuantileRow row = {quantile.data(), fraction.data(), 19, target.data(), 19, 1};
      EXPECT_FALSE(std::isfinite(loops_.quantile_huber(row, d_quantile.data()))) << in_target;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, DistributionLoopsTest,
                         testing::ValuesIn(SupportedInstructionSets().begin(),
                                           SupportedInstructionSets().end()),
                         [](const auto& info) { return InstructionSetName(info.param); });

}  // namespace
}  // namespace ding
