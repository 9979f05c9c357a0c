#include "ding_worker/data/items.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

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
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("items has no field 'row'; it has: chunk, length")));
  EXPECT_THAT(check({Int("chunk"), Int("row"), Scalar("length", DType::kInt32)}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("'length' is int32[], expected int64[]")));
  EXPECT_THAT(
      check({Int("chunk"), Int("row"), Int("length"), Scalar("reward", DType::kFloat32)}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a 'reward', expected neither")));
  EXPECT_THAT(check({Box("obs", {2}), Int("chunk"), Int("row"), Int("length")}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("have observations")));
  EXPECT_THAT(MakeItems(Rows({{7, 0, 1}, {7, -1, 2}})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("item 1 of 2 is 2 rows from row -1 on, expected at least 1 row")));
  EXPECT_THAT(MakeItems(Rows({{7, 3, 0}})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("item 0 of 1 is 0 rows from row 3 on")));
}

}  // namespace
}  // namespace ding
