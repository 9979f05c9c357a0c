#include "ding_worker/data/returns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
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

struct RandomSegment {
  std::vector<float> reward;
  std::vector<float> value;
  float final_value;
  SegmentEnd end;
  double gamma;
  double lambda;

  int64_t length() const { return static_cast<int64_t>(reward.size()); }
  RunColumns columns() const { return {reward, value, final_value, end}; }
  // Returns V_t, for t from 0 to T.
  double V(int64_t t) const {
    if (t < length()) return value[t];
    return end == SegmentEnd::kTerminated ? 0 : final_value;
  }
  double Delta(int64_t t) const { return reward[t] + gamma * V(t + 1) - V(t); }
  // Returns the n-step return of row t by its definition.
  double NStep(int64_t t, int64_t n) const {
    double sum = std::pow(gamma, n) * V(t + n);
    for (int64_t l = 0; l < n; ++l) sum += std::pow(gamma, l) * reward[t + l];
    return sum;
  }
};

RandomSegment MakeRun(uint64_t seed) {
  Rng rng(seed, "returns_test");
  RandomSegment run;
  const auto length = static_cast<int64_t>(1 + rng.UniformInt(12));
  for (int64_t t = 0; t < length; ++t) {
    run.reward.push_back(static_cast<float>(rng.Uniform(-2, 2)));
    run.value.push_back(static_cast<float>(rng.Uniform(-5, 5)));
  }
  run.end = static_cast<SegmentEnd>(rng.UniformInt(3));
  // The value after a terminated episode must not be used.
  run.final_value =
      run.end == SegmentEnd::kTerminated ? kNaN : static_cast<float>(rng.Uniform(-5, 5));
  run.gamma = rng.UniformInt(4) == 0 ? 1.0 : rng.Uniform();
  run.lambda = rng.UniformInt(4) == 0 ? 1.0 : rng.Uniform();
  return run;
}

// Runs `check` on some 80 runs of each kind of end and some 20 of length 1.
template <typename Check>
void ForEachRun(Check check) {
  for (uint64_t seed = 0; seed < 250; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    check(MakeRun(seed));
  }
}

TEST(OnRandomRuns, EveryEndAndRunsOfOneRowOccur) {
  std::vector<int> ends(3);
  int single_rows = 0;
  ForEachRun([&](const RandomSegment& run) {
    ++ends[static_cast<int>(run.end)];
    single_rows += run.length() == 1;
  });
  for (const int count : ends) EXPECT_GT(count, 50);
  EXPECT_GT(single_rows, 5);
}

// Each component is the return of a run of it alone, bit for bit.
TEST(OnRandomRuns, NStepReturnsOfComponentsAreThoseOfEach) {
  constexpr size_t kComponents = 3;
  ForEachRun([](const RandomSegment& run) {
    std::vector<std::vector<float>> of_component(kComponents);
    std::vector<float> all;
    for (const float reward : run.reward) {
      for (size_t c = 0; c < kComponents; ++c) {
        all.push_back(static_cast<float>(c + 1) * reward - static_cast<float>(c));
        of_component[c].push_back(all.back());
      }
    }
    for (int64_t n = 1; n <= run.length() + 2; ++n) {
      std::vector<float> sums(kComponents, kNaN);
      const NStepReturn got = ComputeNStepReturns(all, run.end, n, run.gamma, absl::MakeSpan(sums));
      for (size_t c = 0; c < kComponents; ++c) {
        const NStepReturn one = ComputeNStepReturn(of_component[c], run.end, n, run.gamma);
        EXPECT_EQ(sums[c], one.reward) << "component " << c << ", n " << n;
        EXPECT_EQ(got.bootstrap_discount, one.bootstrap_discount);
        EXPECT_EQ(got.steps, one.steps);
      }
    }
  });
}

TEST(OnRandomRuns, NStepReturnEqualsItsDefinition) {
  ForEachRun([](const RandomSegment& run) {
    for (int64_t t = 0; t < run.length(); ++t) {
      for (int64_t n = 1; n <= run.length() + 2; ++n) {
        const NStepReturn got = ComputeNStepReturn(
            absl::MakeConstSpan(run.reward).subspan(static_cast<size_t>(t)), run.end, n, run.gamma);
        const int64_t k = std::min(n, run.length() - t);
        EXPECT_EQ(got.steps, k);
        double expected = 0;
        for (int64_t l = 0; l < k; ++l) expected += std::pow(run.gamma, l) * run.reward[t + l];
        EXPECT_NEAR(got.reward, expected, kTolerance) << "row " << t << ", n " << n;
        const bool reaches_end = t + k == run.length();
        const double discount =
            reaches_end && run.end == SegmentEnd::kTerminated ? 0 : std::pow(run.gamma, k);
        EXPECT_NEAR(got.bootstrap_discount, discount, kTolerance) << "row " << t << ", n " << n;
      }
    }
  });
}

TEST(OnRandomRuns, DiscountedReturnsEqualTheirDefinition) {
  ForEachRun([](const RandomSegment& run) {
    std::vector<float> got(run.reward.size());
    ComputeDiscountedReturns(run.columns(), run.gamma, absl::MakeSpan(got));
    for (int64_t t = 0; t < run.length(); ++t) {
      EXPECT_NEAR(got[t], run.NStep(t, run.length() - t), kTolerance) << "row " << t;
    }
  });
}

// The lambda-return is a weighted mean of all n-step returns (eq. 12.3).
TEST(OnRandomRuns, LambdaReturnsEqualTheirDefinition) {
  ForEachRun([](const RandomSegment& run) {
    std::vector<float> got(run.reward.size());
    ComputeLambdaReturns(run.columns(), run.gamma, run.lambda, absl::MakeSpan(got));
    for (int64_t t = 0; t < run.length(); ++t) {
      const int64_t left = run.length() - t;
      double expected = std::pow(run.lambda, left - 1) * run.NStep(t, left);
      for (int64_t n = 1; n < left; ++n) {
        expected += (1 - run.lambda) * std::pow(run.lambda, n - 1) * run.NStep(t, n);
      }
      EXPECT_NEAR(got[t], expected, kTolerance) << "row " << t;
    }
  });
}

TEST(OnRandomRuns, GaeEqualsItsDefinition) {
  ForEachRun([](const RandomSegment& run) {
    std::vector<float> got(run.reward.size());
    ComputeGae(run.columns(), run.gamma, run.lambda, absl::MakeSpan(got));
    for (int64_t t = 0; t < run.length(); ++t) {
      double expected = 0;
      for (int64_t l = 0; t + l < run.length(); ++l) {
        expected += std::pow(run.gamma * run.lambda, l) * run.Delta(t + l);
      }
      EXPECT_NEAR(got[t], expected, kTolerance) << "row " << t;
    }
  });
}

TEST(NStepReturn, EqualsNumbersComputedByHand) {
  const std::vector<float> reward = {1, 2, 4};
  const auto expect = [&](SegmentEnd end, int64_t n, float sum, float discount, int64_t steps) {
    const NStepReturn got = ComputeNStepReturn(reward, end, n, 0.5);
    EXPECT_THAT(got.reward, FloatEq(sum));
    EXPECT_THAT(got.bootstrap_discount, FloatEq(discount));
    EXPECT_EQ(got.steps, steps);
  };
  expect(SegmentEnd::kTerminated, 1, 1, 0.5f, 1);
  expect(SegmentEnd::kTerminated, 2, 2, 0.25f, 2);
  expect(SegmentEnd::kTerminated, 3, 3, 0, 3);
  expect(SegmentEnd::kTerminated, 5, 3, 0, 3);
  // DI-engine has gamma^2 here, one power too few.
  expect(SegmentEnd::kTruncated, 5, 3, 0.125f, 3);
  expect(SegmentEnd::kTruncated, 3, 3, 0.125f, 3);
  expect(SegmentEnd::kCut, 5, 3, 0.125f, 3);
}

TEST(Gae, EqualsNumbersComputedByHand) {
  const std::vector<float> reward = {1, 1};
  const std::vector<float> value = {2, 4};
  std::vector<float> advantage(2);
  // delta_1 = 1 + .5 * 8 - 4 = 1;  delta_0 = 1 + .5 * 4 - 2 = 1;  A_0 = 1 + .25 * 1.
  ComputeGae({reward, value, 8, SegmentEnd::kTruncated}, 0.5, 0.5, absl::MakeSpan(advantage));
  EXPECT_THAT(advantage, ElementsAre(FloatEq(1.25f), FloatEq(1)));
  // delta_1 = 1 - 4 = -3;  A_0 = 1 - .75.
  ComputeGae({reward, value, 8, SegmentEnd::kTerminated}, 0.5, 0.5, absl::MakeSpan(advantage));
  EXPECT_THAT(advantage, ElementsAre(FloatEq(0.25f), FloatEq(-3)));
}

TEST(DiscountedReturns, SegmentsOfACutEpisodeGiveTheReturnsOfTheWhole) {
  const std::vector<float> reward = {1, -2, 3, 5, 7};
  std::vector<float> whole(5);
  ComputeDiscountedReturns({reward, {}, 0, SegmentEnd::kTerminated}, 0.9, absl::MakeSpan(whole));
  std::vector<float> head(2);
  ComputeDiscountedReturns({absl::MakeConstSpan(reward).first(2), {}, whole[2], SegmentEnd::kCut},
                           0.9, absl::MakeSpan(head));
  EXPECT_FLOAT_EQ(head[0], whole[0]);
  EXPECT_FLOAT_EQ(head[1], whole[1]);
}

TEST(ReturnsDeathTest, ColumnsOfDifferentLengthsEndTheProgram) {
  const std::vector<float> reward = {1, 2};
  const std::vector<float> value = {1};
  std::vector<float> advantage(2);
  EXPECT_DEATH(
      ComputeGae({reward, value, 0, SegmentEnd::kCut}, 0.9, 0.9, absl::MakeSpan(advantage)),
      "value has 1 rows, reward has 2");
}

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
