#include "ding_worker/policy/loss/r2d2_loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(ValueScale, IsTheFormulaOfThePaper) {
  const ValueScale scale{1e-2};
  for (const double x : {0.0, 0.3, 1.0, 24.0, 500.0, -0.3, -99.0}) {
    const double sign = x < 0 ? -1 : 1;
    EXPECT_NEAR(scale.Rescale(x), sign * (std::sqrt(std::abs(x) + 1) - 1) + 1e-2 * x, 1e-12);
  }
  EXPECT_EQ(ValueScale{std::nullopt}.Rescale(7.5), 7.5);
  EXPECT_EQ(ValueScale{std::nullopt}.Invert(7.5), 7.5);
}

TEST(ValueScale, InvertUndoesRescaleOverAllSizesOfValues) {
  for (const double eps : {0.0, 1e-12, 1e-3, 0.1, 1.0}) {
    const ValueScale scale{eps};
    for (const double x : {0.0, 1e-6, 0.01, 0.7, 3.0, 200.0, 1e5, 1e8}) {
      for (const double sign : {-1.0, 1.0}) {
        EXPECT_NEAR(scale.Invert(scale.Rescale(sign * x)), sign * x, 1e-9 * std::max(1.0, x))
            << "eps " << eps << ", x " << sign * x;
      }
    }
  }
}

TEST(ValueScale, InvertAgreesWithItsClosedFormInThePaper) {
  constexpr double kEps = 1e-2;
  for (const double y : {-7.0, -0.5, 0.0, 0.2, 3.0, 40.0}) {
    const double root = (std::sqrt(1 + 4 * kEps * (std::abs(y) + 1 + kEps)) - 1) / (2 * kEps);
    EXPECT_NEAR(ValueScale{kEps}.Invert(y), (y < 0 ? -1 : 1) * (root * root - 1), 1e-9);
  }
}

// Random sequences that own their columns: padding at the end, episodes that end by termination or
// truncation within the sequence, burn-in.
struct RandomSequences {
  RandomSequences(uint64_t seed, int64_t the_length, int64_t burn_in)
      : length(the_length), rng(seed, "r2d2_loss_test") {
    for (int64_t b = 0; b < kSequences; ++b) AddSequence();
    td_error.resize(reward.size());
    d_q.resize(q.size());
    priority.resize(kSequences);
    rows = {length, burn_in, mask, is_first};
  }

  void AddSequence() {
    const auto valid = static_cast<int64_t>(1 + rng.UniformInt(static_cast<uint64_t>(length)));
    bool begins = rng.UniformInt(2) == 0;
    for (int64_t t = 0; t < length; ++t) {
      mask.push_back(t < valid ? 1 : 0);
      is_first.push_back(begins && t < valid ? 1 : 0);
      const bool terminates = rng.UniformInt(6) == 0;
      begins = terminates || rng.UniformInt(6) == 0;
      reward.push_back(static_cast<float>(rng.Uniform(-2, 2)));
      discount.push_back(terminates ? 0.0f : static_cast<float>(rng.Uniform(0.5, 1)));
      next_value.push_back(static_cast<float>(rng.Uniform(-3, 3)));
      action.push_back(static_cast<int64_t>(rng.UniformInt(kActions)));
      for (int a = 0; a < kActions; ++a) q.push_back(static_cast<float>(rng.Uniform(-3, 3)));
    }
    weight.push_back(static_cast<float>(rng.Uniform(0.1, 1)));
  }

  // The last row of the window of row `i` of sequence `b`, by its definition.
  int64_t WindowEnd(int64_t b, int64_t t, int64_t n) const {
    int64_t last = t;
    for (int64_t next = t + 1; next < t + n && next < length; ++next) {
      const int64_t at = b * length + next;
      if (mask[at] == 0 || is_first[at] != 0 || discount[at - 1] == 0) break;
      last = next;
    }
    return last;
  }

  R2d2LossInput Input() const { return {q, action, reward, discount, next_value, weight}; }
  R2d2LossResult Compute(const R2d2LossInput& input, const R2d2LossOptions& options) {
    return ComputeR2d2Loss(rows, input, options, absl::MakeSpan(td_error), absl::MakeSpan(d_q),
                           absl::MakeSpan(priority));
  }

  static constexpr int64_t kSequences = 6;
  static constexpr int kActions = 3;
  const int64_t length;
  Rng rng;
  SequenceRows rows;
  std::vector<uint8_t> mask, is_first;
  std::vector<float> q, reward, discount, next_value, weight, td_error, d_q, priority;
  std::vector<int64_t> action;
};

TEST(SequenceReturns, AreTheSumsOfTheWindowsThatEndWithTheEpisodeAndTheSequence) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const int64_t n = static_cast<int64_t>(1 + seed % 5);
    const RandomSequences s(seed, /*length=*/7, /*burn_in=*/0);
    std::vector<float> sum(s.reward.size());
    std::vector<float> discount(s.reward.size());
    std::vector<int64_t> end(s.reward.size());
    ComputeSequenceReturns(s.rows, s.reward, s.discount, n,
                           {absl::MakeSpan(sum), absl::MakeSpan(discount), absl::MakeSpan(end)});
    for (int64_t b = 0; b < s.kSequences; ++b) {
      for (int64_t t = 0; t < s.length; ++t) {
        const int64_t row = b * s.length + t;
        if (s.mask[row] == 0) continue;
        const int64_t last = s.WindowEnd(b, t, n);
        double expected = 0;
        double scale = 1;
        for (int64_t k = t; k <= last; ++k) {
          expected += scale * s.reward[b * s.length + k];
          scale *= s.discount[b * s.length + k];
        }
        EXPECT_NEAR(sum[row], expected, 1e-6) << "seed " << seed << ", row " << row;
        EXPECT_NEAR(discount[row], scale, 1e-6) << "seed " << seed << ", row " << row;
        EXPECT_EQ(end[row], b * s.length + last) << "seed " << seed << ", row " << row;
      }
    }
  }
}

TEST(R2d2Loss, EqualsItsDefinitionAndSoDoErrorsAndPriorities) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomSequences s(seed, /*length=*/5, /*burn_in=*/static_cast<int64_t>(seed % 4));
    R2d2LossOptions options;
    options.priority_eta = 0.7;
    if (seed % 2 == 0) options.scale.eps = 1e-2;
    if (seed % 3 == 0) options.scale.eps.reset();
    const R2d2LossResult result = s.Compute(s.Input(), options);
    double loss = 0;
    double q_sum = 0;
    double value_sum = 0;
    int64_t learned = 0;
    for (int64_t b = 0; b < s.kSequences; ++b) {
      double max = 0;
      double sum = 0;
      int64_t count = 0;
      for (int64_t t = 0; t < s.length; ++t) {
        const int64_t i = b * s.length + t;
        if (t < s.rows.burn_in || s.mask[i] == 0) {
          EXPECT_EQ(s.td_error[i], 0);
          continue;
        }
        const double value = s.discount[i] == 0 ? 0 : s.next_value[i];
        const double target = options.scale.Rescale(s.reward[i] + double{s.discount[i]} *
                                                                      options.scale.Invert(value));
        const double q = s.q[i * s.kActions + s.action[i]];
        EXPECT_NEAR(s.td_error[i], q - target, 1e-6);
        loss += s.weight[b] * (q - target) * (q - target);
        q_sum += q;
        value_sum += value;
        max = std::max(max, std::abs(q - target));
        sum += std::abs(q - target);
        ++count;
      }
      learned += count;
      EXPECT_NEAR(s.priority[b], count == 0 ? 0 : 0.7 * max + 0.3 * sum / count, 1e-6);
    }
    EXPECT_EQ(result.learned_rows, learned);
    if (learned == 0) continue;
    EXPECT_NEAR(result.loss, loss / learned, 1e-5);
    EXPECT_NEAR(result.mean_q, q_sum / learned, 1e-5);
    EXPECT_NEAR(result.mean_next_value, value_sum / learned, 1e-5);
  }
}

TEST(R2d2Loss, TheGradientByQAgreesWithFiniteDifferences) {
  for (const TdLossKind kind : {TdLossKind::kMse, TdLossKind::kHuber}) {
    RandomSequences s(3, /*length=*/5, /*burn_in=*/1);
    R2d2LossOptions options;
    options.penalty = {kind, 0.75f};
    s.Compute(s.Input(), options);
    const std::vector<float> gradient = s.d_q;
    std::vector<float> moved = s.q;
    R2d2LossInput input = s.Input();
    input.q = moved;
    double norm = 0;
    for (size_t i = 0; i < moved.size(); ++i) {
      constexpr float kStep = 1.0f / 1024;
      moved[i] = s.q[i] + kStep;
      const double above = s.Compute(input, options).loss;
      moved[i] = s.q[i] - kStep;
      const double below = s.Compute(input, options).loss;
      moved[i] = s.q[i];
      EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-4) << "element " << i;
      norm += std::abs(gradient[i]);
    }
    EXPECT_GT(norm, 0.1);
  }
}

TEST(R2d2Loss, TheValueAfterATerminatedEpisodeHasNoEffectEvenIfItIsNotANumber) {
  RandomSequences s(5, /*length=*/4, /*burn_in=*/0);
  for (size_t i = 0; i < s.discount.size(); ++i) {
    if (s.discount[i] == 0) s.next_value[i] = std::numeric_limits<float>::quiet_NaN();
  }
  EXPECT_TRUE(std::isfinite(s.Compute(s.Input(), {}).loss));
}

TEST(R2d2Loss, WithoutALearningRowEverythingIsZero) {
  RandomSequences s(5, /*length=*/4, /*burn_in=*/3);
  std::fill(s.mask.begin(), s.mask.end(), 0);
  const R2d2LossResult result = s.Compute(s.Input(), {});
  EXPECT_EQ(result.learned_rows, 0);
  EXPECT_EQ(result.loss, 0);
  EXPECT_EQ(s.d_q, std::vector<float>(s.d_q.size(), 0));
  EXPECT_EQ(s.priority, std::vector<float>(s.priority.size(), 0));
}

}  // namespace
}  // namespace ding
