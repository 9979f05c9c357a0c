#include "ding_worker/policy/loss/distribution_loops.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "gtest/gtest.h"

namespace ding::internal_loss {
namespace {

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
}  // namespace ding::internal_loss
