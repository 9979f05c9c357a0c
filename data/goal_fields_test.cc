#include "ding_worker/data/goal_fields.h"

#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

absl::Status Check(const std::vector<FieldSpec>& fields) {
  return CheckGoalFields(*MakeSpec(fields).value());
}

TEST(GoalFieldsTest, WhatIsMissingIsNamed) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(Check({Box(kAchievedGoalField, {2}), Box(kDesiredGoalField, {2})}), IsOk());
  EXPECT_THAT(Check({Box("obs", {2})}),
              StatusIs(invalid, HasSubstr("there is no 'obs/achieved_goal'")));
  EXPECT_THAT(Check({Box(kAchievedGoalField, {2}), Box(kGoalObservationField, {2})}),
              StatusIs(invalid, HasSubstr("'obs/desired_goal'")));
  EXPECT_THAT(Check({Box(kAchievedGoalField, {2}), Box(kDesiredGoalField, {3})}),
              StatusIs(invalid, HasSubstr("expected the same shape")));
  EXPECT_THAT(Check({Box(kAchievedGoalField, {2}), Discrete(kDesiredGoalField, 3)}),
              StatusIs(invalid, HasSubstr("expected float32")));
}

TEST(GoalFieldsTest, TheRewardIsPaidWithinTheRadius) {
  const std::vector<float> from = {1, 2};
  const std::vector<float> to = {4, 6};
  EXPECT_EQ(GoalDistance(from, to), 5);
  EXPECT_EQ(SparseGoalReward(from, to, 5), 0);
  EXPECT_EQ(SparseGoalReward(from, to, 4.999), -1);
}

}  // namespace
}  // namespace ding
