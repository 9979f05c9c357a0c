#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ActionScale, ConvertsEachElementByItsOwnBounds) {
  const ActionScale scale(Box("action", {2}, {-2, 0}, {2, 10}));
  std::vector<float> action(4);
  scale.FromUnit({-1, -1, 0.5, 0.5}, absl::MakeSpan(action));
  EXPECT_THAT(action, ElementsAre(-2, 0, 1, 7.5));
  scale.ToUnit(action, absl::MakeSpan(action));
  EXPECT_THAT(action, ElementsAre(-1, -1, 0.5, 0.5));
}

TEST(ActionScale, OneBoundHoldsForAllElements) {
  const ActionScale scale(Box("action", {3}, {-4}, {4}));
  ASSERT_EQ(scale.width(), 3u);
  std::vector<float> action(3);
  scale.FromUnit({-1, 0, 1}, absl::MakeSpan(action));
  EXPECT_THAT(action, ElementsAre(-4, 0, 4));
}

TEST(ActionScale, ClipsWhatIsOutsideOfTheBounds) {
  const ActionScale scale(Box("action", {1}, {-0.3}, {0.7}));
  EXPECT_EQ(scale.FromUnit(1.5f, 0), 0.7f);
  EXPECT_EQ(scale.FromUnit(-7, 0), -0.3f);
}

TEST(ActionScale, AnElementWithOneLegalValueIsZero) {
  const ActionScale scale(Box("action", {1}, {3}, {3}));
  EXPECT_EQ(scale.FromUnit(0.5f, 0), 3);
  EXPECT_EQ(scale.ToUnit(3, 0), 0);
}

TEST(ActionScale, RefusesOtherActionSpaces) {
  for (const SpecPtr& spec :
       {*MakeSpec({Discrete("action", 3)}), *MakeSpec({Box("action", {2})}),
        *MakeSpec({Box("torque", {2}, {-1}, {1})}),
        *MakeSpec({Box("action", {1}, {-1}, {1}), Box("more", {1}, {-1}, {1})})}) {
    EXPECT_THAT(ActionScale::Create(*spec, "sac").status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("sac chooses continuous actions"),
                               HasSubstr(spec->field(0).name))));
  }
  EXPECT_FALSE(ActionScale::Fits(Scalar("action", DType::kFloat32)));
}

}  // namespace
}  // namespace ding
