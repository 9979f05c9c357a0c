#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/segment.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
// Results are float32 numbers below 256, computed from float32 inputs by float64 sums: half a unit
// in the last place of 128..256 is 7.7e-6.
constexpr double kTolerance = 8e-6;

// Steps with ends of all kinds inside.
struct Steps {
  std::vector<float> behaviour_log_prob, log_prob, reward, discount, value, next_value;
  std::vector<uint8_t> end;
  VTraceOptions options;

  size_t size() const { return reward.size(); }
  VTraceInput input() const {
    return {behaviour_log_prob, log_prob, reward, discount, value, next_value, end};
  }
  bool IsEnd(size_t t) const { return t + 1 == size() || end[t] != 0 || discount[t] == 0; }

  // The definitions, in float64.
  double Ratio(size_t t) const {
    return std::exp(static_cast<double>(log_prob[t]) - behaviour_log_prob[t]);
  }
  double Rho(size_t t) const { return std::min(options.rho_bar, Ratio(t)); }
  double C(size_t t) const { return options.lambda * std::min(options.c_bar, Ratio(t)); }
  double NextValue(size_t t) const {
    if (discount[t] == 0) return 0;
    return IsEnd(t) ? next_value[t] : value[t + 1];
  }
  double Delta(size_t t) const {
    return Rho(t) * (reward[t] + discount[t] * NextValue(t) - value[t]);
  }
  double Target(size_t s) const {
    double sum = value[s];
    for (size_t t = s; t < size(); ++t) {
      double weight = 1;
      for (size_t i = s; i < t; ++i) weight *= discount[i] * C(i);
      sum += weight * Delta(t);
      if (IsEnd(t)) break;
    }
    return sum;
  }
  double Advantage(size_t t) const {
    const double next = IsEnd(t) ? NextValue(t) : Target(t + 1);
    return Rho(t) * (reward[t] + discount[t] * next - value[t]);
  }
};

Steps MakeSteps(uint64_t seed) {
  Rng rng(seed, "vtrace_test");
  Steps steps;
  const uint64_t length = 1 + rng.UniformInt(20);
  for (uint64_t t = 0; t < length; ++t) {
    steps.behaviour_log_prob.push_back(static_cast<float>(rng.Uniform(-3, 0)));
    steps.log_prob.push_back(
        static_cast<float>(steps.behaviour_log_prob.back() + 0.7 * rng.Normal()));
    steps.reward.push_back(static_cast<float>(rng.Uniform(-2, 2)));
    steps.value.push_back(static_cast<float>(rng.Uniform(-5, 5)));
    const uint64_t kind = rng.UniformInt(6);  // 0: terminated, 1: truncated, 2: both
    steps.discount.push_back(kind == 0 || kind == 2 ? 0 : static_cast<float>(rng.Uniform(0.5, 1)));
    steps.end.push_back(kind == 1 || kind == 2 ? 1 : 0);
    // A value that must not be read is NaN.
    const bool read = kind == 1 || (kind > 2 && t + 1 == length);
    steps.next_value.push_back(read ? static_cast<float>(rng.Uniform(-5, 5)) : kNaN);
  }
  steps.options.rho_bar = rng.Uniform(0.5, 1.5);
  steps.options.c_bar = rng.Uniform(0.5, 1.5);
  steps.options.lambda = rng.UniformInt(3) == 0 ? 1.0 : rng.Uniform();
  return steps;
}

struct Outputs {
  std::vector<float> target, advantage;
};

Outputs Compute(const Steps& steps) {
  Outputs outputs;
  outputs.target.resize(steps.size());
  outputs.advantage.resize(steps.size());
  ComputeVTrace(steps.input(), steps.options, absl::MakeSpan(outputs.target),
                absl::MakeSpan(outputs.advantage));
  return outputs;
}

TEST(VTrace, EqualsTheDefinitionOnRandomStepsWithEndsInside) {
  int ends_inside = 0;
  int clipped = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Steps steps = MakeSteps(seed);
    const Outputs got = Compute(steps);
    for (size_t t = 0; t < steps.size(); ++t) {
      EXPECT_NEAR(got.target[t], steps.Target(t), kTolerance) << "seed " << seed << ", step " << t;
      EXPECT_NEAR(got.advantage[t], steps.Advantage(t), kTolerance)
          << "seed " << seed << ", step " << t;
      ends_inside += t + 1 < steps.size() && steps.IsEnd(t);
      clipped += steps.Ratio(t) > steps.options.rho_bar;
    }
  }
  EXPECT_GT(ends_inside, 500);
  EXPECT_GT(clipped, 500);
}

// Calls `check` with each run of steps up to an end, as the columns of data/returns.h, and the
// first step.
template <typename Check>
void ForEachRun(const Steps& steps, Check check) {
  for (size_t begin = 0; begin < steps.size();) {
    size_t last = begin;
    while (!steps.IsEnd(last)) ++last;
    const size_t length = last + 1 - begin;
    check(
        RunColumns{absl::MakeConstSpan(steps.reward).subspan(begin, length),
                   absl::MakeConstSpan(steps.value).subspan(begin, length), steps.next_value[last],
                   steps.discount[last] == 0 ? SegmentEnd::kTerminated : SegmentEnd::kTruncated},
        begin);
    begin = last + 1;
  }
}

// Espeholt et al. 2018, below remark 1: on policy, v_s is the on-policy n-step Bellman target; with
// lambda (remark 2) it is that of TD(lambda).
TEST(VTrace, OnPolicyItEqualsNStepAndLambdaReturns) {
  constexpr float kGamma = 0.875f;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Steps steps = MakeSteps(seed);
    steps.behaviour_log_prob = steps.log_prob;
    for (float& discount : steps.discount) discount = discount == 0 ? 0 : kGamma;
    for (const double lambda : {1.0, 0.6}) {
      steps.options = {1, 1, lambda};
      const Outputs got = Compute(steps);
      ForEachRun(steps, [&](const RunColumns& run, size_t begin) {
        std::vector<float> returns(run.reward.size());
        if (lambda == 1) {
          ComputeDiscountedReturns(run, kGamma, absl::MakeSpan(returns));
        } else {
          ComputeLambdaReturns(run, kGamma, lambda, absl::MakeSpan(returns));
        }
        for (size_t t = 0; t < returns.size(); ++t) {
          EXPECT_NEAR(got.target[begin + t], returns[t], 2 * kTolerance)
              << "seed " << seed << ", step " << begin + t;
        }
      });
    }
  }
}

TEST(VTrace, EqualsNumbersComputedByHand) {
  Steps steps;
  // Ratios 2 and 1/2.
  steps.log_prob = {std::log(0.5f), std::log(0.25f)};
  steps.behaviour_log_prob = {std::log(0.25f), std::log(0.5f)};
  steps.reward = {1, 2};
  steps.discount = {0.5f, 0.5f};
  steps.value = {2, 4};
  steps.next_value = {kNaN, 8};
  steps.end = {0, 0};
  // delta_1 = .5 (2 + .5 * 8 - 4) = 1, v_1 = 5; delta_0 = 1 + .5 * 4 - 2 = 1, v_0 = 2 + 1 + .5 * 1.
  Outputs got = Compute(steps);
  EXPECT_THAT(got.target, ElementsAre(FloatEq(3.5f), FloatEq(5)));
  EXPECT_THAT(got.advantage, ElementsAre(FloatEq(1.5f), FloatEq(1)));
  // delta_1 = .5 (2 - 4) = -1, v_1 = 3; v_0 = 2 + 1 - .5 * 1.
  steps.discount[1] = 0;
  got = Compute(steps);
  EXPECT_THAT(got.target, ElementsAre(FloatEq(2.5f), FloatEq(3)));
  EXPECT_THAT(got.advantage, ElementsAre(FloatEq(0.5f), FloatEq(-1)));
  // Step 0 ends its episode: delta_0 = 1 + .5 * 6 - 2 = 2.
  steps.end[0] = 1;
  steps.next_value[0] = 6;
  got = Compute(steps);
  EXPECT_THAT(got.target, ElementsAre(FloatEq(4), FloatEq(3)));
  EXPECT_THAT(got.advantage, ElementsAre(FloatEq(2), FloatEq(-1)));
}

TEST(VTraceDeathTest, ColumnsOfDifferentLengthsEndTheProgram) {
  Steps steps = MakeSteps(1);
  steps.value.push_back(1);
  EXPECT_DEATH(Compute(steps), "value has .* rows, reward has ");
}

}  // namespace
}  // namespace ding
