#include "ding_worker/data/transition.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Step `t` of an episode: obs t, action t, reward 10 t.
Transition Step(int t, SegmentEnd end = SegmentEnd::kCut) {
  Transition step;
  step.Set("action", t).Set("obs", {1.0 * t}).Set("reward", 10.0 * t);
  step.end = end;
  return step;
}

Transition LastStep(int t, SegmentEnd end = SegmentEnd::kTerminated) {
  return Step(t, end).Set("next_obs", {t + 1.0});
}

TEST(MakeSegments, OneEpisode_IsOneSegmentWithTheObservationFirst) {
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, MakeSegments({Step(0), Step(1), LastStep(2)}));
  ASSERT_THAT(ValidateSegments(data), IsOk());
  ASSERT_EQ(data.segments.size(), 1);
  EXPECT_EQ(data.segments[0].stream, kTransitionStream);
  EXPECT_EQ(data.segments[0].length, 3);
  EXPECT_EQ(data.segments[0].end, SegmentEnd::kTerminated);
  EXPECT_EQ(data.rows.spec().field(0).name, "obs");
  EXPECT_THAT(data.rows.column<float>("obs"), ElementsAre(0, 1, 2));
  EXPECT_THAT(data.rows.column<int64_t>("action"), ElementsAre(0, 1, 2));
  EXPECT_THAT(data.rows.column<float>("reward"), ElementsAre(0, 10, 20));
  EXPECT_THAT(data.final_obs.column<float>("obs"), ElementsAre(3));
}

TEST(MakeSegments, StepsThatDoNotFollowEachOther_AreSegmentsThatNoBufferLinks) {
  DING_ASSERT_OK_AND_ASSIGN(
      const SegmentBatch data,
      MakeSegments({LastStep(0, SegmentEnd::kCut), LastStep(1, SegmentEnd::kCut),
                    LastStep(5, SegmentEnd::kTruncated), LastStep(7)},
                   /*stream=*/3, /*first_step=*/100));
  ASSERT_EQ(data.segments.size(), 3);
  EXPECT_EQ(data.segments[0].length, 2);
  EXPECT_EQ(data.segments[0].end, SegmentEnd::kCut);
  EXPECT_EQ(data.segments[1].stream, 3);
  EXPECT_EQ(data.segments[1].first_step, 103);  // 102 would continue the first one.
  EXPECT_EQ(data.segments[1].end, SegmentEnd::kTruncated);
  EXPECT_EQ(data.segments[2].first_step, 104);
  EXPECT_THAT(data.final_obs.column<float>("obs"), ElementsAre(2, 6, 8));
}

TEST(MakeSegments, Numbers_AreFloat32Int64AndBool) {
  Transition step = LastStep(0);
  step.Set("done", true).Set("logit", std::vector<double>{0.5, 0.25}).Set("id", uint8_t{7});
  step.Set("image", Tensor::Zeros(DType::kUint8, {2, 2}));
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, MakeSegments({step}));
  const Spec& spec = data.rows.spec();
  EXPECT_EQ(spec.field(*spec.Find("done")).dtype, DType::kBool);
  EXPECT_EQ(spec.field(*spec.Find("logit")).DebugString(), "float32[2]");
  EXPECT_EQ(spec.field(*spec.Find("id")).DebugString(), "int64[]");
  EXPECT_EQ(spec.field(*spec.Find("image")).DebugString(), "uint8[2, 2]");
}

TEST(MakeSegments, OtherValuesThanBefore_AreRefusedWithTheirName) {
  Transition more = LastStep(1);
  more.Set("logit", {0.5});
  EXPECT_THAT(MakeSegments({Step(0), more}),
              StatusIs(kInvalid, AllOf(HasSubstr("transition 1"), HasSubstr("'logit'"))));
  EXPECT_THAT(MakeSegments({more, LastStep(2)}),
              StatusIs(kInvalid, AllOf(HasSubstr("transition 1"), HasSubstr("has no 'logit'"))));
  Transition other = LastStep(1);
  other.Set("action", 0.5);
  EXPECT_THAT(MakeSegments({Step(0), other}),
              StatusIs(kInvalid, AllOf(HasSubstr("transition 1"), HasSubstr("'action'"),
                                       HasSubstr("float32[]"), HasSubstr("int64[]"))));
  Transition unknown = LastStep(1);
  unknown.Set("next_obs/image", {0.5});
  EXPECT_THAT(MakeSegments({unknown}), StatusIs(kInvalid, HasSubstr("'next_obs/image'")));
}

TEST(MakeSegments, NoObservationAfterTheLastStep_IsRefused) {
  EXPECT_THAT(MakeSegments({Step(0), Step(1)}),
              StatusIs(kInvalid, AllOf(HasSubstr("transition 1"), HasSubstr("'next_obs'"))));
  EXPECT_THAT(MakeSegments({Step(0, SegmentEnd::kTruncated), LastStep(1)}),
              StatusIs(kInvalid, AllOf(HasSubstr("transition 0"), HasSubstr("'next_obs'"))));
  Transition blind;
  blind.Set("reward", 1.0);
  EXPECT_THAT(MakeSegments({blind}), StatusIs(kInvalid, HasSubstr("'obs'")));
}

TEST(MakeSegments, RowsOfACollector_GiveFieldsAndOrder) {
  DING_ASSERT_OK_AND_ASSIGN(const SpecPtr rows, MakeSpec({Box("obs", {1}), Discrete("action", 9),
                                                          Scalar("reward", DType::kFloat32)}));
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data,
                            MakeSegments({LastStep(0)}, kTransitionStream, 0, rows));
  EXPECT_EQ(data.rows.spec_ptr(), rows);
  EXPECT_THAT(ValidateSegments(data), IsOk());
}

TEST(MakeSegments, NoTransitions_AreNoSegments) {
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, MakeSegments({}));
  EXPECT_EQ(data.size(), 0);
}

}  // namespace
}  // namespace ding
