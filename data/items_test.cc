#include "ding_worker/data/items.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/transition.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

FieldSpec Int(const char* name) { return Scalar(name, DType::kInt64); }

Batch Rows(const std::vector<Item>& items) {
  BatchBuilder rows =
      BatchBuilder::Create(MakeSpec({Int("chunk"), Int("row"), Int("length")}).value(),
                           static_cast<int64_t>(items.size()))
          .value();
  for (size_t i = 0; i < items.size(); ++i) {
    rows.column<int64_t>(0)[i] = items[i].chunk;
    rows.column<int64_t>(1)[i] = items[i].row;
    rows.column<int64_t>(2)[i] = items[i].length;
  }
  return std::move(rows).Seal(static_cast<int64_t>(items.size()));
}

TEST(Items, AreSegmentsWithoutObservations) {
  for (const int64_t size : {0, 1, 5}) {
    DING_ASSERT_OK_AND_ASSIGN(
        const SegmentBatch items,
        MakeItems(Rows(std::vector<Item>(static_cast<size_t>(size), {7, 0, 1}))));
    EXPECT_THAT(ValidateSegments(items), IsOk());
    EXPECT_EQ(items.size(), size);
    EXPECT_EQ(items.final_obs.spec().size(), 0);
  }
}

TEST(Items, AreDistinguishedFromOtherRows) {
  EXPECT_TRUE(IsItems(*MakeSpec({Int("chunk")}).value()));
  EXPECT_FALSE(IsItems(*MakeSpec({Int("row"), Int("length")}).value()));
  EXPECT_FALSE(IsItems(*MakeSpec({Box("obs/place", {2}), Int("chunk")}).value()));
}

TEST(Items, AllowsTheLengthsOfSequences) {
  ItemSequences sequences;
  EXPECT_TRUE(sequences.single_rows());
  EXPECT_TRUE(sequences.Allows(1));
  EXPECT_FALSE(sequences.Allows(2));
  sequences.length = 3;
  EXPECT_FALSE(sequences.single_rows());
  EXPECT_FALSE(sequences.Allows(2));
  EXPECT_TRUE(sequences.Allows(3));
  sequences.padding = true;
  EXPECT_FALSE(sequences.Allows(0));
  EXPECT_TRUE(sequences.Allows(2));
  EXPECT_FALSE(sequences.Allows(4));
  ItemSequences episodes;
  episodes.whole_episodes = true;
  EXPECT_FALSE(episodes.single_rows());
  EXPECT_FALSE(episodes.Allows(0));
  EXPECT_TRUE(episodes.Allows(1));
  EXPECT_TRUE(episodes.Allows(1000));
}

TEST(Items, RefusesInvalidItems) {
  const auto check = [](std::vector<FieldSpec> fields) {
    return CheckItemFields(*MakeSpec(std::move(fields)).value());
  };
  EXPECT_THAT(check({Int("length"), Scalar("priority", DType::kFloat32), Int("row"), Int("chunk")}),
              IsOk());
  EXPECT_THAT(check({Int("chunk"), Int("length")}),
              IsInvalid("items has no field 'row'; it has: chunk, length"));
  EXPECT_THAT(check({Int("chunk"), Int("row"), Scalar("length", DType::kInt32)}),
              IsInvalid("'length' is int32[], expected int64[]"));
  EXPECT_THAT(check({Int("chunk"), Int("row"), Int("length"), Scalar("reward", DType::kFloat32)}),
              IsInvalid("a 'reward', expected neither"));
  EXPECT_THAT(check({Box("obs", {2}), Int("chunk"), Int("row"), Int("length")}),
              IsInvalid("have observations"));
  EXPECT_THAT(MakeItems(Rows({{7, 0, 1}, {7, -1, 2}})),
              IsInvalid("item 1 of 2 is 2 rows from row -1 on, expected at least 1 row"));
  EXPECT_THAT(MakeItems(Rows({{7, 3, 0}})), IsInvalid("item 0 of 1 is 0 rows from row 3 on"));
}

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
  EXPECT_THAT(MakeSegments({Step(0), more}), IsInvalid("transition 1", "'logit'"));
  EXPECT_THAT(MakeSegments({more, LastStep(2)}), IsInvalid("transition 1", "has no 'logit'"));
  Transition other = LastStep(1);
  other.Set("action", 0.5);
  EXPECT_THAT(MakeSegments({Step(0), other}),
              IsInvalid("transition 1", "'action'", "float32[]", "int64[]"));
  Transition unknown = LastStep(1);
  unknown.Set("next_obs/image", {0.5});
  EXPECT_THAT(MakeSegments({unknown}), IsInvalid("'next_obs/image'"));
}

TEST(MakeSegments, NoObservationAfterTheLastStep_IsRefused) {
  EXPECT_THAT(MakeSegments({Step(0), Step(1)}), IsInvalid("transition 1", "'next_obs'"));
  EXPECT_THAT(MakeSegments({Step(0, SegmentEnd::kTruncated), LastStep(1)}),
              IsInvalid("transition 0", "'next_obs'"));
  Transition blind;
  blind.Set("reward", 1.0);
  EXPECT_THAT(MakeSegments({blind}), IsInvalid("'obs'"));
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
