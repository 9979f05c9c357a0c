#include "ding_worker/policy/continuous/critic_ensemble.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

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
  const absl::Span<float> parameters = critics->network().parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    constexpr float kStep = 1.0f / 128;
    const float start = parameters[i];
    parameters[i] = start + kStep;
    const double above = Loss(critics.get());
    parameters[i] = start - kStep;
    const double below = Loss(critics.get());
    parameters[i] = start;
    EXPECT_NEAR(critics->network().gradients()[i], (above - below) / (2 * kStep), 2e-3)
        << "parameter " << i;
  }
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
  for (size_t i = 0; i < d_action.size(); ++i) {
    constexpr float kStep = 1.0f / 128;
    const float start = action_column_[i];
    action_column_[i] = start + kStep;
    const double above = Loss(critics.get());
    action_column_[i] = start - kStep;
    const double below = Loss(critics.get());
    action_column_[i] = start;
    EXPECT_NEAR(d_action[i], (above - below) / (2 * kStep), 2e-3) << "element " << i;
  }
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
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected 1..64")));
  }
  EXPECT_THAT(
      CriticEnsemble::Create(SmallOptions(), *MakeSpec({Discrete("obs", 3)}), action_, 2, 3),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("float32")));
}

TEST_F(CriticEnsembleTest, RefusesWhatDoesNotFitInMemory) {
  EXPECT_THAT(CheckFitsInMemory(1000, 24000), IsOk());
  EXPECT_THAT(CheckFitsInMemory(1000, 23999),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("24000 bytes"), HasSubstr("23999"))));
}

}  // namespace
}  // namespace ding
