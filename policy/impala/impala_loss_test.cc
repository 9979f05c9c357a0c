#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/loss/actor_critic_loss.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// B sequences of T rows; sequence b has padding after its first counts[b] rows.
struct Case {
  size_t length = 5;
  std::vector<size_t> counts = {5, 3, 1};
  std::vector<float> behaviour_log_prob, log_prob, entropy, reward, discount, value, next_value;
  std::vector<uint8_t> end, mask;
  ImpalaLossOptions options;

  explicit Case(uint64_t seed) {
    Rng rng(seed, "impala_loss_test");
    const auto column = [&](std::vector<float>* values, double low, double high) {
      values->resize(length * counts.size());
      for (float& value : *values) value = static_cast<float>(rng.Uniform(low, high));
    };
    column(&behaviour_log_prob, -3, 0);
    column(&log_prob, -3, 0);
    column(&entropy, 0, 1);
    column(&reward, -1, 1);
    column(&discount, 0.5, 1);
    column(&value, -2, 2);
    column(&next_value, -2, 2);
    for (size_t i = 0; i < reward.size(); ++i) {
      mask.push_back(i % length < counts[i / length] ? 1 : 0);
      end.push_back(rng.UniformInt(4) == 0 ? 1 : 0);
      if (end.back() != 0 && rng.UniformInt(2) == 0) discount[i] = 0;
    }
    options.vtrace = {1.2, 0.9, 0.95};
    options.value_coef = 0.7;
    options.entropy_coef = 0.3;
  }

  // Targets and advantages of the definition in data/returns.h, in float64.
  double Ratio(size_t i) const {
    return options.use_vtrace ? std::exp(static_cast<double>(log_prob[i]) - behaviour_log_prob[i])
                              : 1;
  }
  double Rho(size_t i) const { return std::min(options.vtrace.rho_bar, Ratio(i)); }
  bool IsEnd(size_t i) const { return end[i] != 0 || (i + 1) % length == 0 || mask[i + 1] == 0; }
  double Delta(size_t i) const {
    return Rho(i) *
           (reward[i] + discount[i] * (IsEnd(i) ? next_value[i] : value[i + 1]) - value[i]);
  }
  double Target(size_t i) const {
    double sum = value[i];
    double weight = 1;
    for (size_t j = i;; ++j) {
      sum += weight * Delta(j);
      if (IsEnd(j)) return sum;
      weight *= discount[j] * options.vtrace.lambda * std::min(options.vtrace.c_bar, Ratio(j));
    }
  }
  double Advantage(size_t i) const {
    return Rho(i) *
           (reward[i] + discount[i] * (IsEnd(i) ? next_value[i] : Target(i + 1)) - value[i]);
  }

  struct Got {
    ImpalaLossResult result;
    std::vector<float> target, advantage, d_log_prob, d_entropy, d_value;
  };
  Got Compute() const {
    Got got;
    for (auto* const column :
         {&got.target, &got.advantage, &got.d_log_prob, &got.d_entropy, &got.d_value}) {
      column->resize(reward.size());
    }
    got.result = ComputeImpalaLoss(
        {static_cast<int64_t>(length),
         {behaviour_log_prob, log_prob, reward, discount, value, next_value, end},
         entropy,
         mask},
        options,
        {absl::MakeSpan(got.target), absl::MakeSpan(got.advantage), absl::MakeSpan(got.d_log_prob),
         absl::MakeSpan(got.d_entropy), absl::MakeSpan(got.d_value)});
    return got;
  }
};

// The loss for these targets and advantages, in float64.
double Loss(const Case& c, const std::vector<double>& target,
            const std::vector<double>& advantage) {
  double sum = 0;
  double rows = 0;
  for (size_t i = 0; i < target.size(); ++i) {
    if (c.mask[i] == 0) continue;
    const double error = c.value[i] - target[i];
    sum += -advantage[i] * c.log_prob[i] + c.options.value_coef * 0.5 * error * error -
           c.options.entropy_coef * c.entropy[i];
    rows += 1;
  }
  return sum / rows;
}

TEST(ImpalaLoss, LossAndGradientAgreeWithTheDefinitionAndFiniteDifferences) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const bool use_vtrace : {true, false}) {
      Case c(seed);
      c.options.use_vtrace = use_vtrace;
      if (!use_vtrace) c.options.vtrace = {1, 1, 0.95};
      std::vector<double> target, advantage;
      for (size_t i = 0; i < c.reward.size(); ++i) {
        target.push_back(c.mask[i] == 0 ? 0 : c.Target(i));
        advantage.push_back(c.mask[i] == 0 ? 0 : c.Advantage(i));
      }
      const Case::Got got = c.Compute();
      EXPECT_NEAR(got.result.loss, Loss(c, target, advantage), 1e-5);
      EXPECT_EQ(got.result.rows, 9);
      // No gradient flows into targets and advantages, so they stay as they are.
      const auto slope = [&](float* input) {
        constexpr float kStep = 1.0f / 64;
        const float before = *input;
        *input = before + kStep;
        const double above = Loss(c, target, advantage);
        *input = before - kStep;
        const double below = Loss(c, target, advantage);
        *input = before;
        return (above - below) / (2 * kStep);
      };
      for (size_t i = 0; i < c.reward.size(); ++i) {
        EXPECT_NEAR(got.d_log_prob[i], slope(&c.log_prob[i]), 1e-5) << i;
        EXPECT_NEAR(got.d_value[i], slope(&c.value[i]), 1e-5) << i;
        EXPECT_NEAR(got.d_entropy[i], slope(&c.entropy[i]), 1e-5) << i;
        if (c.mask[i] == 0) continue;
        EXPECT_NEAR(got.target[i], target[i], 1e-5) << i;
        EXPECT_NEAR(got.advantage[i], advantage[i], 1e-5) << i;
      }
    }
  }
}

TEST(ImpalaLoss, ReportsRatiosOfTheRowsThatCount) {
  const Case c(3);
  const Case::Got got = c.Compute();
  double ratio = 0, kl = 0, clipped = 0, entropy = 0;
  for (size_t i = 0; i < c.reward.size(); ++i) {
    if (c.mask[i] == 0) continue;
    ratio += c.Ratio(i) / 9;
    kl += (c.Ratio(i) - 1 - std::log(c.Ratio(i))) / 9;
    clipped += (c.Ratio(i) > 1.2 ? 1.0 : 0.0) / 9;
    entropy += c.entropy[i] / 9;
  }
  EXPECT_GT(clipped, 0);
  EXPECT_LT(clipped, 1);
  EXPECT_NEAR(got.result.mean_ratio, ratio, 1e-5);
  EXPECT_NEAR(got.result.approx_kl, kl, 1e-5);
  EXPECT_NEAR(got.result.clip_fraction, clipped, 1e-5);
  EXPECT_NEAR(got.result.entropy, entropy, 1e-5);
}

TEST(ImpalaLoss, WithoutAMaskAllRowsCount) {
  Case c(4);
  c.counts = {5, 5, 5};
  c.mask.assign(15, 1);
  const Case::Got masked = c.Compute();
  c.mask.clear();
  const Case::Got got = c.Compute();
  EXPECT_EQ(got.result.rows, 15);
  EXPECT_EQ(got.result.loss, masked.result.loss);
  EXPECT_EQ(got.d_log_prob, masked.d_log_prob);
}

TEST(ImpalaLossDeathTest, MistakesOfTheCallerEndTheProgram) {
  Case c(5);
  c.entropy.pop_back();
  EXPECT_DEATH(c.Compute(), "columns of different lengths; reward has 15");
  c = Case(5);
  c.mask.assign(15, 0);
  EXPECT_DEATH(c.Compute(), "all 15 rows are padding");
  c = Case(5);
  c.length = 4;
  EXPECT_DEATH(c.Compute(), "15 rows as sequences of 4");
}

}  // namespace
}  // namespace ding
