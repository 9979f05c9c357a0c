#include <vector>

#include "absl/types/span.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

TEST(SmoothTargetActions, ClipsNoiseAndAction) {
  std::vector<float> action = {0.1f, 0.1f, 0.1f, 0.9f, -0.9f};
  SmoothTargetActions({1, 10, -10, 2, -2}, 0.2, 0.5, absl::MakeSpan(action));
  EXPECT_THAT(action,
              ElementsAre(FloatEq(0.3f), FloatEq(0.6f), FloatEq(-0.4f), FloatEq(1), FloatEq(-1)));
}

TEST(SmoothTargetActions, WithoutNoiseActionsStay) {
  std::vector<float> action = {0.25f, -1};
  SmoothTargetActions({3, -3}, 0, 0.5, absl::MakeSpan(action));
  EXPECT_THAT(action, ElementsAre(0.25f, -1));
}

TEST(DeterministicActorLoss, IsMinusTheMeanAndAgreesWithFiniteDifferences) {
  std::vector<float> q = {3, -1, 2, 0.5f};
  std::vector<float> d_q(4);
  std::vector<float> ignored(4);
  EXPECT_NEAR(ComputeDeterministicActorLoss(q, absl::MakeSpan(d_q)), -4.5 / 4, 1e-9);
  constexpr float kStep = 1.0f / 256;
  for (size_t i = 0; i < q.size(); ++i) {
    const float start = q[i];
    q[i] = start + kStep;
    const double above = ComputeDeterministicActorLoss(q, absl::MakeSpan(ignored));
    q[i] = start - kStep;
    const double below = ComputeDeterministicActorLoss(q, absl::MakeSpan(ignored));
    q[i] = start;
    EXPECT_NEAR(d_q[i], (above - below) / (2 * kStep), 1e-6) << "row " << i;
  }
}

TEST(DeterministicActorLoss, LambdaScalesLossAndGradient) {
  std::vector<float> d_q(4);
  EXPECT_NEAR(ComputeDeterministicActorLoss({3, -1, 2, 0.5f}, absl::MakeSpan(d_q), 2), -4.5 / 2,
              1e-9);
  EXPECT_THAT(d_q, testing::Each(FloatEq(-0.5f)));
}

TEST(ValueWeight, MakesTheMeanAbsoluteValueAlpha) {
  const std::vector<float> q = {3, -1, 2, -2};
  EXPECT_DOUBLE_EQ(MeanAbsolute(q), 2);
  EXPECT_DOUBLE_EQ(ValueWeight(2.5, MeanAbsolute(q)), 1.25);
  EXPECT_DOUBLE_EQ(ValueWeight(2.5, 0), 2.5e6);
}

TEST(CloningLoss, AgreesWithFiniteDifferencesAndIsAdded) {
  std::vector<float> action = {0.5f, -0.25f, 1, 0};
  const std::vector<float> data = {0.5f, 0.75f, -1, 0.5f};
  std::vector<float> d_action(4, 2.0f);
  std::vector<float> ignored(4);
  EXPECT_NEAR(AddCloningLoss(action, data, absl::MakeSpan(d_action)), (1 + 4 + 0.25) / 4, 1e-9);
  constexpr float kStep = 1.0f / 256;
  for (size_t i = 0; i < action.size(); ++i) {
    const float start = action[i];
    action[i] = start + kStep;
    const double above = AddCloningLoss(action, data, absl::MakeSpan(ignored));
    action[i] = start - kStep;
    const double below = AddCloningLoss(action, data, absl::MakeSpan(ignored));
    action[i] = start;
    EXPECT_NEAR(d_action[i] - 2, (above - below) / (2 * kStep), 1e-5) << "element " << i;
  }
}

}  // namespace
}  // namespace ding
