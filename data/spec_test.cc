#include "ding_worker/data/spec.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/goal_fields.h"
#include "ding_worker/data/spec_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(Shapes, HaveCountsAndNames) {
  EXPECT_EQ(NumElements({}), 1);
  EXPECT_EQ(NumElements({4, 84, 84}), 28224);
  EXPECT_EQ(NumElements({3, 0}), 0);
  EXPECT_EQ(ShapeString({4, 84, 84}), "[4, 84, 84]");
  EXPECT_EQ(ShapeString({}), "[]");
}

TEST(Shapes, CheckedByteSizeRefusesAnOverflow) {
  EXPECT_EQ(CheckedByteSize(DType::kFloat32, {2, 3}), 24);
  EXPECT_EQ(CheckedByteSize(DType::kInt64, {}), 8);
  EXPECT_EQ(CheckedByteSize(DType::kUint8, {0, 5}), 0);
  EXPECT_EQ(CheckedByteSize(DType::kUint8, {-1}), std::nullopt);
  EXPECT_EQ(CheckedByteSize(DType::kFloat64, {int64_t{1} << 60}), std::nullopt);
  EXPECT_EQ(CheckedByteSize(DType::kUint8, {int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
}

TEST(Spec, FindsItsFields) {
  DING_ASSERT_OK_AND_ASSIGN(const Spec spec,
                            Spec::Create({Box("obs", {4}), Discrete("action", 2),
                                          Scalar("done", DType::kBool), Box("camera", {2, 3})}));
  EXPECT_EQ(spec.size(), 4);
  EXPECT_EQ(spec.row_bytes(0), 16);
  EXPECT_EQ(spec.row_bytes(2), 1);
  EXPECT_EQ(spec.row_bytes(), 16 + 8 + 1 + 24);
  EXPECT_EQ(spec.Find("action"), 1);
  EXPECT_EQ(spec.Find("reward"), std::nullopt);
  EXPECT_TRUE(spec.field(1).is_discrete());
  EXPECT_EQ(spec.DebugString(),
            "obs: float32[4]\naction: int64[] in 0..1\ndone: bool[]\ncamera: float32[2, 3]");
}

TEST(Spec, AMissingFieldIsNamedWithTheExistingFields) {
  DING_ASSERT_OK_AND_ASSIGN(const Spec spec,
                            Spec::Create({Box("obs", {4}), Discrete("action", 2)}));
  EXPECT_THAT(spec.IndexOf("reward", "buffer 'main'"),
              IsNotFound("buffer 'main'", "'reward'", "obs, action"));
}

TEST(Spec, BoundsOfActions_AreTheFloatsWithin) {
  DING_ASSERT_OK_AND_ASSIGN(
      const Spec spec,
      Spec::Create({Box("action", {3}, {-0.4, 0.5, 0.1}, {0.4, 2, 0.1}),
                    Box("obs", {1}, {-0.4}, {0.4}), Box("action/1", {1}, {-0.1}, {1e300}),
                    Box("actions", {1}, {-0.1}, {0.1})}));
  // 0.4f is above 0.4. Between 0.1 and 0.1 there is no float.
  EXPECT_THAT(spec.field(0).low, ElementsAre(-std::nextafter(0.4f, 0.0f), 0.5, 0.1));
  EXPECT_THAT(spec.field(0).high, ElementsAre(std::nextafter(0.4f, 0.0f), 2, 0.1));
  EXPECT_THAT(spec.field(1).high, ElementsAre(0.4));
  EXPECT_THAT(spec.field(2).low, ElementsAre(-std::nextafter(0.1f, 0.0f)));
  EXPECT_THAT(spec.field(2).high, ElementsAre(std::numeric_limits<double>::infinity()));
  EXPECT_THAT(spec.field(3).low, ElementsAre(-0.1));
  // A spec that is made of this one has the same bounds.
  EXPECT_EQ(Spec::Create({spec.field(0)})->field(0), spec.field(0));
}

TEST(Spec, PrintsAFewBounds) {
  EXPECT_EQ(Box("a", {2}, {-1}, {1}).DebugString(), "float32[2] in [-1, 1]");
  EXPECT_EQ(Box("a", {2}, {-1, 0}, {1, 2}).DebugString(), "float32[2] in [-1 0] .. [1 2]");
  EXPECT_EQ(Box("a", {9}, std::vector<double>(9, 0), std::vector<double>(9, 1)).DebugString(),
            "float32[9] in 9 bounds");
}

TEST(SpecCreate, NamesTheFieldAndTheProblem) {
  const auto expect_refused = [](const FieldSpec& field, absl::string_view message) {
    EXPECT_THAT(Spec::Create({Box("fine", {1}), field}), IsInvalid(std::string(message)));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_refused(Box("", {1}), "empty name");
  expect_refused(Box("fine", {2}), "field 'fine' appears twice");
  expect_refused(Box("x", {3, 0}), "field 'x': shape [3, 0] has an extent below 1");
  expect_refused(Box("x", {-3}), "extent below 1");
  expect_refused(Box("x", {int64_t{1} << 40, int64_t{1} << 40}), "field 'x': a row of float32");
  expect_refused(Box("x", {int64_t{1} << 39}), "field 'x': a row of float32");
  expect_refused(Box("x", {2}, {0}, {}), "field 'x': 1 lower but 0 upper bounds");
  expect_refused(Box("x", {3}, {0, 0}, {1, 1}), "field 'x': 2 bounds for 3 elements");
  expect_refused(Box("x", {1}, {2}, {1}), "field 'x': lower bound 2 is above upper bound 1");
  expect_refused(Box("x", {1}, {nan}, {1}), "field 'x': lower bound nan");
  expect_refused(Discrete("x", -1), "field 'x': -1 categories");
  FieldSpec shifted = MultiDiscrete("x", {2, 3});
  shifted.low = {0, 1};
  expect_refused(shifted, "field 'x': categories in 1..2, expected 0..k with k below 3");
  FieldSpec beyond = MultiDiscrete("x", {2, 3});
  beyond.high = {1, 3};
  expect_refused(beyond, "field 'x': categories in 0..3, expected 0..k with k below 3");
  expect_refused(MultiDiscrete("x", {2, 0}), "field 'x': lower bound 0 is above upper bound -1");
  FieldSpec float_categories = Discrete("x", 3);
  float_categories.dtype = DType::kFloat32;
  expect_refused(float_categories, "field 'x': discrete, and so must be int64, not float32");
  FieldSpec stacked = Box("x", {4, 2});
  stacked.frame_stack_axis = 2;
  expect_refused(stacked, "field 'x': frame stack axis 2 is not one of shape [4, 2]");
}

TEST(MultiDiscrete, CountsCategoriesByElement) {
  const FieldSpec field = MultiDiscrete("action", {3, 5});
  EXPECT_THAT(Spec::Create({field}), IsOk());
  EXPECT_EQ(field.shape, (Shape{2}));
  EXPECT_EQ(field.num_categories, 5);
  EXPECT_EQ(field.CategoryCount(0), 3);
  EXPECT_EQ(field.CategoryCount(1), 5);
  EXPECT_EQ(field.DebugString(), "int64[2] in 0..2 0..4");
  EXPECT_EQ(Discrete("action", 4).CategoryCount(0), 4);
}

TEST(SpecCreate, AcceptsAllKindsOfBounds) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(
      Spec::Create({Box("one", {3}, {-1}, {1}), Box("each", {2}, {0, 0}, {1, 2}),
                    Box("open", {2}, {-infinity}, {infinity}), Box("point", {1}, {1}, {1})}),
      IsOk());
}

TEST(CheckSameLayout, NamesTheFirstDifference) {
  const auto spec = [](std::vector<FieldSpec> fields) {
    return Spec::Create(std::move(fields)).value();
  };
  const Spec expected = spec({Box("obs", {4}), Discrete("action", 2)});
  const auto check = [&](std::vector<FieldSpec> found) {
    return CheckSameLayout(expected, spec(std::move(found)), "buffer 'main'");
  };
  EXPECT_THAT(check({Box("obs", {4}, {-1}, {1}), Discrete("action", 2)}), IsOk());
  EXPECT_THAT(check({Box("obs", {8}), Discrete("action", 2)}),
              StatusIs(kInvalid, "buffer 'main': field 'obs' is float32[8], expected float32[4]"));
  EXPECT_THAT(
      check({Box("obs", {4}), Discrete("action", 3)}),
      StatusIs(kInvalid,
               "buffer 'main': field 'action' is int64[] in 0..2, expected int64[] in 0..1"));
  EXPECT_THAT(check({Box("obs", {4}), Scalar("reward", DType::kInt64)}),
              StatusIs(kInvalid, "buffer 'main': field 1 is 'reward', expected 'action'"));
  EXPECT_THAT(
      check({Box("obs", {4})}),
      StatusIs(kInvalid, "buffer 'main': field 'action' is missing, expected int64[] in 0..1"));
  EXPECT_THAT(check({Box("obs", {4}), Discrete("action", 2), Scalar("x", DType::kBool)}),
              StatusIs(kInvalid, "buffer 'main': field 'x' is not expected"));
}

TEST(Spec, EqualityComparesAllMembers) {
  const Spec a = Spec::Create({Box("obs", {4}, {0}, {1})}).value();
  EXPECT_EQ(a, Spec::Create({Box("obs", {4}, {0}, {1})}).value());
  EXPECT_NE(a, Spec::Create({Box("obs", {4}, {0}, {2})}).value());
  EXPECT_NE(a, Spec());
}

constexpr DType kAll[] = {DType::kBool,  DType::kUint8,   DType::kInt32,
                          DType::kInt64, DType::kFloat32, DType::kFloat64};

TEST(DType, NamesRoundTrip) {
  for (const DType dtype : kAll) EXPECT_EQ(ParseDType(DTypeName(dtype)), dtype);
  EXPECT_EQ(DTypeName(DType::kFloat32), "float32");
  EXPECT_EQ(ParseDType("float16"), std::nullopt);
  EXPECT_EQ(ParseDType(""), std::nullopt);
}

// Files contain the values.
TEST(DType, ValuesNeverChange) {
  for (int i = 0; i < 6; ++i) EXPECT_EQ(static_cast<int>(kAll[i]), i);
}

TEST(DType, SizesEqualTheStoredTypes) {
  EXPECT_EQ(SizeOf(DType::kBool), 1);
  EXPECT_EQ(SizeOf(DType::kUint8), 1);
  EXPECT_EQ(SizeOf(DType::kInt32), 4);
  EXPECT_EQ(SizeOf(DType::kFloat32), 4);
  EXPECT_EQ(SizeOf(DType::kInt64), 8);
  EXPECT_EQ(SizeOf(DType::kFloat64), 8);
}

TEST(DType, EachIsStoredAsExactlyOneType) {
  for (const DType dtype : kAll) {
    EXPECT_EQ(StoredAs<uint8_t>(dtype) + StoredAs<int32_t>(dtype) + StoredAs<int64_t>(dtype) +
                  StoredAs<float>(dtype) + StoredAs<double>(dtype),
              1)
        << DTypeName(dtype);
  }
  EXPECT_TRUE(StoredAs<uint8_t>(DType::kBool));
  EXPECT_TRUE(StoredAs<float>(DType::kFloat32));
  EXPECT_EQ(kDTypeOf<int64_t>, DType::kInt64);
  EXPECT_TRUE(IsFloating(DType::kFloat64));
  EXPECT_FALSE(IsFloating(DType::kInt32));
}

TEST(DrawCategoriesTest, IsUniformOverTheCategoriesOfEachElement) {
  const FieldSpec field = MultiDiscrete("action", {2, 3});
  Rng rng(1, "test");
  std::array<int, 6> count{};
  for (int i = 0; i < 6000; ++i) {
    std::array<int64_t, 2> row;
    ASSERT_THAT(DrawCategories(field, {}, &rng, absl::MakeSpan(row)), IsOk());
    ++count.at(static_cast<size_t>(3 * row[0] + row[1]));
  }
  // The standard deviation of Binomial(6000, 1/6) is 29; five of these are allowed.
  for (const int n : count) EXPECT_NEAR(n, 1000, 145);
}

TEST(DrawCategoriesTest, IsUniformOverTheAllowedCategories) {
  const FieldSpec field = MultiDiscrete("action", {2, 5});
  const std::vector<uint8_t> mask = {0, 1, 1, 0, 0, 1, 1};
  Rng rng(2, "test");
  std::array<int, 5> count{};
  for (int i = 0; i < 3000; ++i) {
    std::array<int64_t, 2> row;
    ASSERT_THAT(DrawCategories(field, mask, &rng, absl::MakeSpan(row)), IsOk());
    EXPECT_EQ(row[0], 1);
    ++count.at(static_cast<size_t>(row[1]));
  }
  EXPECT_EQ(count[1] + count[2], 0);
  for (const int i : {0, 3, 4}) EXPECT_NEAR(count.at(static_cast<size_t>(i)), 1000, 130) << i;
}

TEST(DrawCategoriesTest, NamesAnElementWithoutALegalCategory) {
  Rng rng(3, "test");
  std::array<int64_t, 2> row;
  EXPECT_THAT(
      DrawCategories(MultiDiscrete("action", {2, 2}), {1, 1, 0, 0}, &rng, absl::MakeSpan(row)),
      IsInvalid("forbids all 2 categories of 'action' element 1"));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(SpecJsonTest, ReadsWhatItWrites) {
  FieldSpec frames;
  frames.name = "obs/frames";
  frames.dtype = DType::kUint8;
  frames.shape = {4, 8, 8};
  frames.frame_stack_axis = 0;
  FieldSpec mask = Scalar("obs/action_mask", DType::kBool);
  mask.shape = {3};
  const SpecPtr spec =
      MakeSpec({Box("obs", {2}, {-4.8, -kInfinity}, {4.8, kInfinity}),
                Box("box", {3}, {0.1}, {0.3}), Discrete("action", 3), MultiDiscrete("keys", {2, 5}),
                mask, frames, Scalar("plain", DType::kFloat32)})
          .value();
  DING_ASSERT_OK_AND_ASSIGN(const SpecPtr read, SpecFromJson(SpecToJson(*spec)));
  EXPECT_EQ(*read, *spec) << read->DebugString();
}

TEST(SpecJsonTest, LooksAsDocumented) {
  const SpecPtr spec =
      MakeSpec({Box("obs", {2}, {-1, -1}, {kInfinity, kInfinity}), Discrete("action", 3)}).value();
  EXPECT_EQ(SpecToJson(*spec),
            R"([{"name":"obs","dtype":"float32","shape":[2],"low":[-1.0],"high":[null]},)"
            R"({"name":"action","dtype":"int64","shape":[],"categories":3}])");
  DING_ASSERT_OK_AND_ASSIGN(const SpecPtr read, SpecFromJson(SpecToJson(*spec)));
  EXPECT_EQ(read->field(0).high, std::vector<double>{kInfinity});
}

TEST(SpecJsonTest, SaysWhatIsWrong) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"", "not a JSON array"},
      {"{}", "not a JSON array"},
      {"[1]", "a field is not an object"},
      {R"([{"dtype":"bool"}])", "no 'name'"},
      {R"([{"name":"a","dtype":"half","shape":[]}])", "'dtype' of field 'a'"},
      {R"([{"name":"a","dtype":"bool","shape":3}])", "'shape' of field 'a'"},
      {R"([{"name":"a","dtype":"bool","shape":["3"]}])", "'shape' of field 'a'"},
      {R"([{"name":"a","dtype":"bool","shape":[0]}])", "a"},
      {R"([{"name":"a","dtype":"float32","shape":[],"low":1}])", "'low' of field 'a'"},
      {R"([{"name":"a","dtype":"float32","shape":[],"high":["x"]}])", "'high' of field 'a'"},
      {R"([{"name":"a","dtype":"int64","shape":[],"categories":1.5}])", "'categories' of field"},
      {R"([{"name":"a","dtype":"bool","shape":[],"frame_stack_axis":[]}])", "'frame_stack_axis'"},
  };
  for (const auto& wrong : cases) {
    EXPECT_THAT(SpecFromJson(wrong.text), IsInvalid(wrong.message)) << wrong.text;
  }
}

absl::Status Check(const std::vector<FieldSpec>& fields) {
  return CheckGoalFields(*MakeSpec(fields).value());
}

TEST(GoalFieldsTest, WhatIsMissingIsNamed) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(Check({Box(kAchievedGoalField, {2}), Box(kDesiredGoalField, {2})}), IsOk());
  EXPECT_THAT(Check({Box("obs", {2})}), IsError(invalid, "there is no 'obs/achieved_goal'"));
  EXPECT_THAT(Check({Box(kAchievedGoalField, {2}), Box(kGoalObservationField, {2})}),
              IsError(invalid, "'obs/desired_goal'"));
  EXPECT_THAT(Check({Box(kAchievedGoalField, {2}), Box(kDesiredGoalField, {3})}),
              IsError(invalid, "expected the same shape"));
  EXPECT_THAT(Check({Box(kAchievedGoalField, {2}), Discrete(kDesiredGoalField, 3)}),
              IsError(invalid, "expected float32"));
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
