#include "ding_worker/policy/loss/actor_critic_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/gradient_check.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int kRows = 40;

// A random batch that owns its columns, with ratios on both sides of the clip.
struct RandomBatch {
  explicit RandomBatch(uint64_t seed) {
    Rng rng(seed, "actor_critic_loss_test");
    const auto fill = [&rng](std::vector<float>* column, double low, double high) {
      for (int i = 0; i < kRows; ++i) {
        column->push_back(static_cast<float>(rng.Uniform(low, high)));
      }
    };
    fill(&log_prob, -2, 0);
    fill(&old_log_prob, -2, 0);
    fill(&entropy, 0, 1);
    fill(&value, -2, 2);
    fill(&old_value, -2, 2);
    fill(&advantage, -2, 2);
    fill(&returns, -2, 2);
    d_log_prob.resize(kRows);
    d_entropy.resize(kRows);
    d_value.resize(kRows);
  }
  ActorCriticLossInput input() const {
    return {log_prob, entropy, value, old_log_prob, old_value, advantage, returns};
  }
  ActorCriticLossGradient gradient() {
    return {absl::MakeSpan(d_log_prob), absl::MakeSpan(d_entropy), absl::MakeSpan(d_value)};
  }

  std::vector<float> log_prob, old_log_prob, entropy, value, old_value, advantage, returns;
  std::vector<float> d_log_prob, d_entropy, d_value;
};

using LossFunction = ActorCriticLossResult (*)(const ActorCriticLossInput&,
                                               const ActorCriticLossOptions&,
                                               const ActorCriticLossGradient&);

void ExpectGradientOfFiniteDifferences(LossFunction loss, const ActorCriticLossOptions& options) {
  RandomBatch batch(3);
  loss(batch.input(), options, batch.gradient());
  const RandomBatch first = batch;
  const auto again = [&] { return loss(batch.input(), options, batch.gradient()).loss; };
  constexpr float kStep = 1.0f / 1024;
  ExpectGradientsOf(again, absl::MakeSpan(batch.log_prob), first.d_log_prob, kStep, 1e-4);
  ExpectGradientsOf(again, absl::MakeSpan(batch.entropy), first.d_entropy, kStep, 1e-4);
  ExpectGradientsOf(again, absl::MakeSpan(batch.value), first.d_value, kStep, 1e-4);
}

TEST(PpoLoss, EqualsTheClippedObjectiveOfThePaper) {
  RandomBatch batch(1);
  const ActorCriticLossOptions options{0.5, 0.01, 0, 0.2};
  const ActorCriticLossResult result = ComputePpoLoss(batch.input(), options, batch.gradient());
  double policy = 0, value = 0, entropy = 0, kl = 0, clipped = 0;
  for (int i = 0; i < kRows; ++i) {
    const double ratio = std::exp(batch.log_prob[i]) / std::exp(batch.old_log_prob[i]);
    const double limited = std::max(0.8, std::min(1.2, ratio));
    policy -= std::min(ratio * batch.advantage[i], limited * batch.advantage[i]) / kRows;
    value += std::pow(batch.value[i] - batch.returns[i], 2) / 2 / kRows;
    entropy += batch.entropy[i] / kRows;
    kl += (ratio - 1 - std::log(ratio)) / kRows;
    clipped += (ratio != limited ? 1.0 : 0.0) / kRows;
  }
  EXPECT_NEAR(result.policy_loss, policy, 1e-6);
  EXPECT_NEAR(result.value_loss, value, 1e-6);
  EXPECT_NEAR(result.entropy, entropy, 1e-6);
  EXPECT_NEAR(result.approx_kl, kl, 1e-6);
  EXPECT_NEAR(result.clip_fraction, clipped, 1e-9);
  EXPECT_NEAR(result.loss, policy + 0.5 * value - 0.01 * entropy, 1e-6);
}

TEST(PpoLoss, AClippedRatioHasNoGradient) {
  const std::vector<float> zero = {0, 0, 0, 0};
  const std::vector<float> log_prob = {0.5f, 0.5f, -0.5f, -0.5f};
  const std::vector<float> advantage = {1, -1, 1, -1};
  std::vector<float> d_log_prob(4), d_entropy(4), d_value(4);
  ComputePpoLoss({log_prob, zero, zero, zero, zero, advantage, zero}, {},
                 {absl::MakeSpan(d_log_prob), absl::MakeSpan(d_entropy), absl::MakeSpan(d_value)});
  EXPECT_EQ(d_log_prob[0], 0) << "already likelier, and good";
  EXPECT_FLOAT_EQ(d_log_prob[1], std::exp(0.5f) / 4) << "likelier, but bad";
  EXPECT_FLOAT_EQ(d_log_prob[2], -std::exp(-0.5f) / 4) << "less likely, but good";
  EXPECT_EQ(d_log_prob[3], 0) << "already less likely, and bad";
}

TEST(PpoLoss, TheClippedValueLossIsTheLargerOne) {
  RandomBatch batch(2);
  const ActorCriticLossOptions options{1, 0, 0.3, 0.2};
  const double found = ComputePpoLoss(batch.input(), options, batch.gradient()).value_loss;
  double expected = 0;
  for (int i = 0; i < kRows; ++i) {
    const float move = std::max(-0.3f, std::min(0.3f, batch.value[i] - batch.old_value[i]));
    expected += std::max(std::pow(batch.value[i] - batch.returns[i], 2),
                         std::pow(batch.old_value[i] + move - batch.returns[i], 2)) /
                2 / kRows;
  }
  EXPECT_NEAR(found, expected, 1e-6);
}

TEST(PpoLoss, GradientsAgreeWithFiniteDifferences) {
  ExpectGradientOfFiniteDifferences(ComputePpoLoss, {0.7, 0.03, 0, 0.2});
  ExpectGradientOfFiniteDifferences(ComputePpoLoss, {0.7, 0.03, 0.4, 0.2});
}

TEST(A2cLoss, EqualsThePolicyGradient) {
  RandomBatch batch(4);
  const ActorCriticLossResult result =
      ComputeA2cLoss(batch.input(), {0.5, 0.01, 0, 0.2}, batch.gradient());
  double policy = 0;
  for (int i = 0; i < kRows; ++i) policy -= batch.log_prob[i] * batch.advantage[i] / kRows;
  EXPECT_NEAR(result.policy_loss, policy, 1e-6);
  EXPECT_EQ(result.clip_fraction, 0);
  ExpectGradientOfFiniteDifferences(ComputeA2cLoss, {0.7, 0.03, 0, 0.2});
}

// Every third row is padding, with values that would show.
TEST(ActorCriticLosses, RowsOfPaddingAreAsIfTheyWereNotThere) {
  for (const LossFunction loss : {ComputePpoLoss, ComputeA2cLoss}) {
    const ActorCriticLossOptions options{0.7, 0.03, 0.4, 0.2};
    RandomBatch padded(6);
    RandomBatch rows = padded;
    const std::vector<std::vector<float>*> all = {
        &padded.log_prob,  &padded.old_log_prob, &padded.entropy, &padded.value,
        &padded.old_value, &padded.advantage,    &padded.returns};
    const std::vector<std::vector<float>*> kept = {
        &rows.log_prob,  &rows.old_log_prob, &rows.entropy, &rows.value,
        &rows.old_value, &rows.advantage,    &rows.returns};
    std::vector<uint8_t> mask;
    for (int i = 0; i < kRows; ++i) mask.push_back(i % 3 == 1 ? 0 : 1);
    for (size_t column = 0; column < all.size(); ++column) {
      kept[column]->clear();
      for (int i = 0; i < kRows; ++i) {
        if (mask[i] != 0) {
          kept[column]->push_back((*all[column])[i]);
        } else {
          (*all[column])[i] = std::numeric_limits<float>::quiet_NaN();
        }
      }
    }
    ActorCriticLossInput input = padded.input();
    input.mask = mask;
    NormalizeAdvantages(absl::MakeSpan(padded.advantage), mask);
    NormalizeAdvantages(absl::MakeSpan(rows.advantage));
    for (std::vector<float>* const d : {&rows.d_log_prob, &rows.d_entropy, &rows.d_value}) {
      d->resize(rows.log_prob.size());
    }
    const ActorCriticLossResult found = loss(input, options, padded.gradient());
    const ActorCriticLossResult expected = loss(rows.input(), options, rows.gradient());
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.policy_loss, expected.policy_loss);
    EXPECT_EQ(found.value_loss, expected.value_loss);
    EXPECT_EQ(found.entropy, expected.entropy);
    EXPECT_EQ(found.approx_kl, expected.approx_kl);
    EXPECT_EQ(found.clip_fraction, expected.clip_fraction);
    size_t row = 0;
    for (int i = 0; i < kRows; ++i) {
      const bool real = mask[i] != 0;
      EXPECT_EQ(padded.d_log_prob[i], real ? rows.d_log_prob[row] : 0) << i;
      EXPECT_EQ(padded.d_entropy[i], real ? rows.d_entropy[row] : 0) << i;
      EXPECT_EQ(padded.d_value[i], real ? rows.d_value[row] : 0) << i;
      if (real) ++row;
    }
  }
}

TEST(NormalizeAdvantages, GivesMeanZeroAndStdOne) {
  std::vector<float> advantage = RandomBatch(5).advantage;
  for (float& value : advantage) value = 100 + 7 * value;
  const std::vector<float> before = advantage;
  NormalizeAdvantages(absl::MakeSpan(advantage));
  double sum = 0, squares = 0;
  for (const float value : advantage) sum += value;
  for (const float value : advantage) squares += value * value;
  EXPECT_NEAR(sum / kRows, 0, 1e-5);
  EXPECT_NEAR(squares / kRows, 1, 1e-5);
  EXPECT_EQ(std::max_element(before.begin(), before.end()) - before.begin(),
            std::max_element(advantage.begin(), advantage.end()) - advantage.begin());
  std::vector<float> one = {3};
  NormalizeAdvantages(absl::MakeSpan(one));
  EXPECT_EQ(one[0], 0);
}

}  // namespace
}  // namespace ding
