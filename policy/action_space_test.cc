#include "ding_worker/policy/action_space.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

FieldSpec Mask(absl::string_view name, int64_t width, DType dtype = DType::kBool) {
  FieldSpec field = Scalar(name, dtype);
  field.shape = {width};
  return field;
}

TEST(FindActionMask, FindsBytesOfTheWidthOfTheAction) {
  const Spec discrete = *Spec::Create({Discrete("action", 3)});
  const Spec multi = *Spec::Create({MultiDiscrete("action", {2, 3})});
  const Spec continuous = *Spec::Create({Box("action", {3})});
  const auto find = [](std::vector<FieldSpec> fields, const Spec& action) {
    return FindActionMask(*Spec::Create(std::move(fields)), action);
  };
  EXPECT_EQ(*find({Box("obs", {4})}, discrete), std::nullopt);
  EXPECT_EQ(*find({Box("obs/action_masks", {4})}, discrete), std::nullopt);
  EXPECT_EQ(*find({Box("obs/x", {4}), Mask("obs/action_mask", 3)}, discrete), 1);
  EXPECT_EQ(*find({Mask("obs/action_mask", 5, DType::kUint8), Box("obs/x", {4})}, multi), 0);
  // A field of another name is not an action mask.
  EXPECT_EQ(*find({Mask("obs/unit/action_mask", 3)}, discrete), std::nullopt);
  EXPECT_THAT(find({Mask("obs/action_mask", 3)}, multi), IsInvalid("expected bool[5]"));
  EXPECT_THAT(find({Mask("obs/action_mask", 3, DType::kFloat32)}, discrete),
              IsInvalid("is float32[3]"));
  EXPECT_THAT(find({Mask("obs/action_mask", 3)}, continuous), IsInvalid("is not discrete"));
}

TEST(WithoutActionMask, KeepsTheOtherFieldsInOrder) {
  const SpecPtr plain = *MakeSpec({Box("obs", {4})});
  EXPECT_EQ(WithoutActionMask(plain), plain);
  const SpecPtr masked =
      *MakeSpec({Box("obs/a", {1}), Mask("obs/action_mask", 3), Box("obs/b", {2})});
  EXPECT_EQ(*WithoutActionMask(masked), *Spec::Create({Box("obs/a", {1}), Box("obs/b", {2})}));
}

TEST(CategoryCounts, HasOneCountPerElement) {
  EXPECT_THAT(CategoryCounts(Discrete("action", 3)), ElementsAre(3));
  EXPECT_THAT(CategoryCounts(MultiDiscrete("action", {2, 5, 3})), ElementsAre(2, 5, 3));
}

TEST(CheckLegal, NamesTheRowAndTheElement) {
  EXPECT_THAT(CheckLegal({}, {3}), IsOk());
  EXPECT_THAT(CheckLegal({1, 0, 0, 1}, {2}), IsOk());
  EXPECT_THAT(CheckLegal({1, 0, 0, 0}, {2}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                      "action mask: row 1 has no legal action"));
  EXPECT_THAT(CheckLegal({1, 0, 1, 1, 1, 0, 0, 0}, {2, 2}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "action mask: row 1 has no legal action for element 1"));
}

TEST(CheckTaken, NamesTheRowAndTheElement) {
  EXPECT_THAT(CheckTaken({}, {3}, {1, 2}), IsOk());
  EXPECT_THAT(CheckTaken({1, 0, 0, 1}, {2}, {0, 1}), IsOk());
  EXPECT_THAT(
      CheckTaken({1, 0, 0, 1}, {2}, {0, 0}),
      StatusIs(absl::StatusCode::kInvalidArgument, "action mask: action 0 of row 1 is illegal"));
  EXPECT_THAT(CheckTaken({1, 1, 1, 0, 1, 1, 1, 0, 1, 1}, {2, 3}, {1, 0, 0, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "action mask: action 0 of element 1 of row 1 is illegal"));
}

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
                IsInvalid("sac chooses continuous actions", spec->field(0).name));
  }
  EXPECT_FALSE(ActionScale::Fits(Scalar("action", DType::kFloat32)));
}

}  // namespace
}  // namespace ding
