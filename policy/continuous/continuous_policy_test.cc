#include "ding_worker/policy/continuous/continuous_policy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/critic_ensemble.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Each;

constexpr int64_t kRows = 21;
constexpr size_t kWidth = 2;

MlpOptions SmallOptions() {
  MlpOptions options;
  options.encoder_hidden_size = {9, 7};
  options.head_layer_num = 0;
  options.activation = MlpOptions::Activation::kTanh;  // smooth: finite differences hold
  return options;
}

class CriticEnsembleTest : public testing::Test {
 protected:
  std::unique_ptr<CriticEnsemble> Create(int num_critics) {
    auto made = CriticEnsemble::Create(SmallOptions(), observation_, action_, num_critics, 3);
    EXPECT_THAT(made, IsOk());
    return *std::move(made);
  }
  // Sum over critics and rows of q times a weight that depends on both.
  double Loss(CriticEnsemble* critics) {
    EXPECT_THAT(critics->Infer(obs_.view(), action_column_), IsOk());
    double sum = 0;
    for (size_t k = 0; k < critics->q().size(); ++k) {
      for (size_t i = 0; i < critics->q()[k].size(); ++i) sum += Weight(k, i) * critics->q()[k][i];
    }
    return sum;
  }
  static float Weight(size_t k, size_t i) {
    return (static_cast<float>(i % 5) - 1.5f) * (k == 0 ? 1.0f : -0.5f);
  }
  static void SetGradients(CriticEnsemble* critics) {
    for (size_t k = 0; k < critics->d_q().size(); ++k) {
      for (size_t i = 0; i < critics->d_q()[k].size(); ++i) critics->d_q()[k][i] = Weight(k, i);
    }
  }

  const SpecPtr observation_ = *MakeSpec({Box("obs/a", {3}), Box("obs/b", {})});
  const FieldSpec action_ = Box("action", {kWidth}, {-1}, {1});
  const Batch obs_ = MakeObservationBatch(observation_, kRows, 1);
  const Batch actions_ = MakeObservationBatch(*MakeSpec({action_}), kRows, 2);
  std::vector<float> action_column_{actions_.column<float>(0).begin(),
                                    actions_.column<float>(0).end()};
};

TEST_F(CriticEnsembleTest, CriticsHaveParametersOfTheirOwn) {
  const auto critics = Create(3);
  ASSERT_THAT(critics->Infer(obs_.view(), action_column_), IsOk());
  EXPECT_NE(critics->q()[0], critics->q()[1]);
  EXPECT_NE(critics->q()[1], critics->q()[2]);
  EXPECT_EQ(critics->info(),
            "3 critics, mlp 6-9-7 tanh for each head, q0 1, q1 1, q2 1: 423 parameters");
  // Changing the last critic leaves the others alone.
  const std::vector<float> first(critics->q()[0].begin(), critics->q()[0].end());
  const std::vector<float> last(critics->q()[2].begin(), critics->q()[2].end());
  critics->network().parameters().back() += 1;
  ASSERT_THAT(critics->Infer(obs_.view(), action_column_), IsOk());
  EXPECT_EQ(critics->q()[0], absl::MakeConstSpan(first));
  EXPECT_NE(critics->q()[2], absl::MakeConstSpan(last));
}

TEST_F(CriticEnsembleTest, GradientsOfParametersAgreeWithFiniteDifferences) {
  const auto critics = Create(2);
  ASSERT_THAT(critics->Forward(obs_.view(), action_column_), IsOk());
  SetGradients(critics.get());
  ASSERT_THAT(critics->Backward(), IsOk());
  ExpectGradientsOf([&] { return Loss(critics.get()); }, critics->network().parameters(),
                    critics->network().gradients(), 1.0f / 128, 2e-3);
}

TEST_F(CriticEnsembleTest, GradientsOfActionsAgreeWithFiniteDifferences) {
  const auto critics = Create(2);
  const absl::Span<float> gradients = critics->network().gradients();
  absl::c_fill(gradients, -77.0f);
  ASSERT_THAT(critics->Forward(obs_.view(), action_column_), IsOk());
  SetGradients(critics.get());
  std::vector<float> d_action(action_column_.size());
  ASSERT_THAT(critics->BackwardToActions(absl::MakeSpan(d_action)), IsOk());
  EXPECT_THAT(critics->network().gradients(), Each(-77.0f)) << "nobody reads them";
  ExpectGradientsOf([&] { return Loss(critics.get()); }, absl::MakeSpan(action_column_), d_action,
                    1.0f / 128, 2e-3);
}

TEST_F(CriticEnsembleTest, TheFirstCriticAloneIsTheFirstOfAll) {
  const auto critics = Create(2);
  ASSERT_THAT(critics->Forward(obs_.view(), action_column_), IsOk());
  const std::vector<float> q(critics->q()[0].begin(), critics->q()[0].end());
  SetGradients(critics.get());
  const absl::Span<float> second = critics->d_q()[1];
  absl::c_fill(second, 0.0f);
  std::vector<float> expected(action_column_.size());
  ASSERT_THAT(critics->BackwardToActions(absl::MakeSpan(expected)), IsOk());
  ASSERT_THAT(critics->ForwardFirst(obs_.view(), action_column_), IsOk());
  EXPECT_EQ(critics->q()[0], absl::MakeConstSpan(q));
  SetGradients(critics.get());
  std::vector<float> d_action(action_column_.size());
  ASSERT_THAT(critics->BackwardFirstToActions(absl::MakeSpan(d_action)), IsOk());
  EXPECT_THAT(d_action, testing::Pointwise(testing::FloatNear(1e-6f), expected));
}

TEST_F(CriticEnsembleTest, ACloneHasTheSameValuesAndItsOwnParameters) {
  const auto critics = Create(2);
  DING_ASSERT_OK_AND_ASSIGN(const auto clone, critics->Clone());
  EXPECT_EQ(Loss(clone.get()), Loss(critics.get()));
  const double before = Loss(clone.get());
  const absl::Span<float> parameters = critics->network().parameters();
  absl::c_fill(parameters, 0.5f);
  EXPECT_EQ(Loss(clone.get()), before);
  ASSERT_THAT(clone->ForwardFirst(obs_.view(), action_column_), IsOk());
}

TEST_F(CriticEnsembleTest, EveryCriticDropsItsOwnFeatures) {
  MlpOptions options = SmallOptions();
  options.dropout = 0.5;
  options.layer_norm = true;
  DING_ASSERT_OK_AND_ASSIGN(const auto critics,
                            CriticEnsemble::Create(options, observation_, action_, 2, 3));
  EXPECT_TRUE(critics->has_dropout());
  EXPECT_FALSE(Create(2)->has_dropout());
  // Both critics have the same parameters, so that they differ by their masks only.
  const absl::Span<float> parameters = critics->network().parameters();
  const size_t half = parameters.size() / 2;
  absl::c_copy(parameters.first(half), parameters.begin() + static_cast<int64_t>(half));
  const double plain = Loss(critics.get());
  EXPECT_EQ(critics->q()[0], critics->q()[1]);
  std::vector<uint64_t> keys(kRows);
  std::iota(keys.begin(), keys.end(), 1);
  critics->set_dropout_keys(keys);
  EXPECT_NE(Loss(critics.get()), plain);
  EXPECT_NE(critics->q()[0], critics->q()[1]);
  // The first critic alone has the masks of the first one.
  const std::vector<float> first(critics->q()[0].begin(), critics->q()[0].end());
  ASSERT_THAT(critics->ForwardFirst(obs_.view(), action_column_), IsOk());
  EXPECT_EQ(critics->q()[0], absl::MakeConstSpan(first));
  DING_ASSERT_OK_AND_ASSIGN(const auto clone, critics->Clone());
  EXPECT_TRUE(clone->has_dropout());
  EXPECT_EQ(Loss(clone.get()), plain) << "a clone has no keys";
}

TEST_F(CriticEnsembleTest, RefusesNumbersOfCriticsAndObservationsThatDoNotFit) {
  for (const int num_critics : {-1, 0, 65}) {
    EXPECT_THAT(CriticEnsemble::Create(SmallOptions(), observation_, action_, num_critics, 3),
                IsInvalid("expected 1..64"));
  }
  EXPECT_THAT(
      CriticEnsemble::Create(SmallOptions(), *MakeSpec({Discrete("obs", 3)}), action_, 2, 3),
      IsInvalid("float32"));
}

TEST_F(CriticEnsembleTest, RefusesWhatDoesNotFitInMemory) {
  EXPECT_THAT(CheckFitsInMemory(1000, 24000), IsOk());
  EXPECT_THAT(CheckFitsInMemory(1000, 23999), IsResourceExhausted("24000 bytes", "23999"));
}

struct Noise {
  std::vector<float> first;
  std::vector<float> second;
};

class RowNoiseTest : public testing::Test {
 protected:
  // Draws `width` numbers for each row.
  Noise Draw(const Batch& batch, int64_t train_iter, size_t width, uint64_t seed = 1) {
    SampledTransitionReader reader(observation_, action_);
    const auto view = reader.Read(batch);
    EXPECT_THAT(view, IsOk());
    const size_t size = static_cast<size_t>(batch.rows()) * width;
    Noise noise{std::vector<float>(size), std::vector<float>(size)};
    RowNoise(seed).Draw(*view, train_iter, absl::MakeSpan(noise.first),
                        absl::MakeSpan(noise.second));
    return noise;
  }

  const SpecPtr observation_ = *MakeSpec({Box("obs", {3})});
  const SpecPtr action_ = *MakeSpec({Box("action", {2}, {-1}, {1})});
  const Batch batch_ = MakeTransitionBatch(observation_, action_, 40, 7);
};

TEST_F(RowNoiseTest, BelongsToTheContentOfARowNotToItsPlace) {
  const Noise whole = Draw(batch_, 3, 2);
  const Noise part = Draw(batch_.Slice(10, 20), 3, 2);
  for (size_t i = 0; i < part.first.size(); ++i) {
    EXPECT_EQ(part.first[i], whole.first[20 + i]);
    EXPECT_EQ(part.second[i], whole.second[20 + i]);
  }
}

TEST_F(RowNoiseTest, RowsIterationsAndSeedsDiffer) {
  const Noise noise = Draw(batch_, 3, 1);
  std::vector<float> sorted = noise.first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()) - sorted.begin(), 40);
  const Noise later = Draw(batch_, 4, 1);
  const Noise other = Draw(batch_, 3, 1, /*seed=*/2);
  for (size_t i = 0; i < noise.first.size(); ++i) {
    EXPECT_NE(noise.first[i], later.first[i]);
    EXPECT_NE(noise.first[i], other.first[i]);
  }
}

TEST_F(RowNoiseTest, KeysDifferForRowsIterationsAndUses) {
  SampledTransitionReader reader(observation_, action_);
  RowNoise noise(1);
  // The keys of the last `rows` rows of the batch.
  const auto keys = [&](int64_t rows, int64_t train_iter, uint32_t use) {
    const auto view = reader.Read(batch_.Slice(40 - rows, rows));
    EXPECT_THAT(view, IsOk());
    std::vector<float> numbers(static_cast<size_t>(2 * rows));
    const auto all = absl::MakeSpan(numbers);
    noise.Draw(*view, 77, all.first(rows), all.last(rows));
    std::vector<uint64_t> drawn(static_cast<size_t>(rows));
    noise.DrawKeys(train_iter, use, absl::MakeSpan(drawn));
    return drawn;
  };
  const std::vector<uint64_t> whole = keys(40, 3, 0);
  EXPECT_EQ(keys(40, 3, 0), whole);
  EXPECT_EQ(keys(20, 3, 0), std::vector<uint64_t>(whole.begin() + 20, whole.end()));
  std::set<uint64_t> different;
  for (const auto& drawn : {whole, keys(40, 3, 1), keys(40, 4, 0), keys(40, 4, 1)}) {
    different.insert(drawn.begin(), drawn.end());
  }
  EXPECT_EQ(different.size(), 160u);
}

TEST_F(RowNoiseTest, IsStandardNormalAndTheTwoAreIndependent) {
  constexpr size_t kWidth = 3;
  double sum = 0, squares = 0, fourth = 0, product = 0, neighbours = 0;
  size_t count = 0;
  for (int64_t iteration = 0; iteration < 400; ++iteration) {
    const Noise noise = Draw(batch_, iteration, kWidth);
    for (size_t i = 0; i < noise.first.size(); ++i) {
      for (const double value : {noise.first[i], noise.second[i]}) {
        sum += value;
        squares += value * value;
        fourth += value * value * value * value;
      }
      product += noise.first[i] * noise.second[i];
      if (i > 0) neighbours += noise.first[i] * noise.first[i - 1];
    }
    count += noise.first.size();
  }
  const auto n = static_cast<double>(count);
  // Each bound is about four standard deviations of the mean of 48,000 or 96,000 numbers.
  EXPECT_NEAR(sum / (2 * n), 0, 0.013);
  EXPECT_NEAR(squares / (2 * n), 1, 0.02);
  EXPECT_NEAR(fourth / (2 * n), 3, 0.13);
  EXPECT_NEAR(product / n, 0, 0.02);
  EXPECT_NEAR(neighbours / n, 0, 0.02);
}

constexpr size_t kNormalRows = 7;
constexpr size_t kSize = kWidth * kNormalRows;

struct Columns {
  Columns() {
    Rng rng(3, "squashed_normal_test");
    for (size_t i = 0; i < kSize; ++i) {
      mean.push_back(static_cast<float>(rng.Uniform(-1.5, 1.5)));
      log_std.push_back(static_cast<float>(rng.Uniform(-2, 0.5)));
      noise.push_back(static_cast<float>(rng.Normal()));
      d_action.push_back(static_cast<float>(rng.Uniform(-1, 1)));
    }
    for (size_t i = 0; i < kNormalRows; ++i)
      d_log_prob.push_back(static_cast<float>(rng.Uniform(-1, 1)));
  }
  void Sample() {
    distribution.Sample(mean, log_std, noise, absl::MakeSpan(action), absl::MakeSpan(log_prob));
  }
  void Backward() {
    distribution.Backward(d_action, d_log_prob, absl::MakeSpan(d_mean), absl::MakeSpan(d_log_std));
  }
  // A loss with the gradients d_action and d_log_prob.
  double Loss() {
    Sample();
    double sum = 0;
    for (size_t i = 0; i < kSize; ++i) sum += static_cast<double>(d_action[i]) * action[i];
    for (size_t i = 0; i < kNormalRows; ++i)
      sum += static_cast<double>(d_log_prob[i]) * log_prob[i];
    return sum;
  }

  SquashedNormal distribution{kWidth};
  std::vector<float> mean, log_std, noise, d_action, d_log_prob;
  std::vector<float> action = std::vector<float>(kSize), d_mean = action, d_log_std = action;
  std::vector<float> log_prob = std::vector<float>(kNormalRows);
};

TEST(SquashedNormal, AgreesWithTheDensityOfTheTransformedNormal) {
  Columns columns;
  columns.Sample();
  for (size_t row = 0; row < kNormalRows; ++row) {
    double log_prob = 0;
    for (size_t at = row * kWidth; at < (row + 1) * kWidth; ++at) {
      const double std = std::exp(static_cast<double>(columns.log_std[at]));
      const double u = columns.mean[at] + std * columns.noise[at];
      EXPECT_NEAR(columns.action[at], std::tanh(u), 1e-6);
      const double normal = std::exp(-0.5 * columns.noise[at] * columns.noise[at]) /
                            (std * std::sqrt(2 * std::acos(-1.0)));
      log_prob += std::log(normal / (1 - std::tanh(u) * std::tanh(u)));
    }
    EXPECT_NEAR(columns.log_prob[row], log_prob, 1e-5 * std::max(1.0, std::abs(log_prob)))
        << "row " << row;
  }
}

TEST(SquashedNormal, TheDensityIntegratesToOne) {
  constexpr int kSteps = 4000;
  std::vector<float> mean(kSteps, 0.4f), log_std(kSteps, -0.3f), noise, action(kSteps),
      log_prob(kSteps);
  for (int i = 0; i < kSteps; ++i) noise.push_back(-6 + 12 * static_cast<float>(i) / kSteps);
  SquashedNormal(1).Sample(mean, log_std, noise, absl::MakeSpan(action), absl::MakeSpan(log_prob));
  double integral = 0;
  for (int i = 1; i < kSteps; ++i) {
    integral += std::exp(0.5 * (log_prob[i] + log_prob[i - 1])) * (action[i] - action[i - 1]);
  }
  EXPECT_NEAR(integral, 1, 1e-3);
}

TEST(SquashedNormal, TheGradientsAgreeWithFiniteDifferences) {
  Columns columns;
  columns.Sample();
  columns.Backward();
  const auto check = [&](std::vector<float>* values, const std::vector<float>& gradient) {
    constexpr float kStep = 1.0f / 256;
    for (size_t i = 0; i < kSize; ++i) {
      const float start = (*values)[i];
      (*values)[i] = start + kStep;
      const double above = columns.Loss();
      (*values)[i] = start - kStep;
      const double below = columns.Loss();
      (*values)[i] = start;
      const double quotient = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradient[i], quotient, 2e-3 * std::max(1.0, std::abs(quotient))) << i;
    }
  };
  check(&columns.mean, columns.d_mean);
  check(&columns.log_std, columns.d_log_std);
}

TEST(SquashedNormal, AClippedDeviationHasNoGradient) {
  Columns columns;
  columns.log_std[0] = kMaxLogStd + 1;
  columns.log_std[1] = kMinLogStd - 1;
  columns.Sample();
  columns.Backward();
  EXPECT_EQ(columns.d_log_std[0], 0);
  EXPECT_EQ(columns.d_log_std[1], 0);
  EXPECT_NE(columns.d_log_std[2], 0);
  const std::vector<float> action = columns.action;
  columns.log_std[0] = kMaxLogStd;
  columns.Sample();
  EXPECT_EQ(columns.action, action);
}

TEST(SquashedNormal, ExtremeOutputsOfANetworkGiveFiniteResults) {
  for (const float mean : {-1e30f, -300.0f, 0.0f, 300.0f, 1e30f}) {
    for (const float log_std : {-1e30f, -100.0f, 100.0f, 1e30f}) {
      std::vector<float> action(1), log_prob(1), d_mean(1), d_log_std(1);
      const std::vector<float> means = {mean}, log_stds = {log_std}, noise = {5.9f}, one = {1};
      SquashedNormal distribution(1);
      distribution.Sample(means, log_stds, noise, absl::MakeSpan(action), absl::MakeSpan(log_prob));
      distribution.Backward(one, one, absl::MakeSpan(d_mean), absl::MakeSpan(d_log_std));
      EXPECT_LE(std::abs(action[0]), 1);
      for (const float value : {log_prob[0], d_mean[0], d_log_std[0]}) {
        EXPECT_TRUE(std::isfinite(value)) << mean << " " << log_std;
      }
    }
  }
}

TEST(SquashMean, IsTanhWithItsGradient) {
  const std::vector<float> mean = {-20, -1.5f, -1e-4f, 0, 0.3f, 2, 20};
  std::vector<float> action(mean.size()), d_mean(mean.size());
  SquashMean(mean, absl::MakeSpan(action));
  const std::vector<float> two(mean.size(), 2.0f);
  SquashMeanBackward(action, two, absl::MakeSpan(d_mean));
  for (size_t i = 0; i < mean.size(); ++i) {
    const double expected = std::tanh(static_cast<double>(mean[i]));
    EXPECT_NEAR(action[i], expected, 2e-7);
    EXPECT_NEAR(d_mean[i], 2 * (1 - expected * expected), 1e-6);
  }
}

}  // namespace
}  // namespace ding
