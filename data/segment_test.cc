#include "ding_worker/data/segment.h"

#include <utility>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

Batch Rows(std::vector<FieldSpec> fields, int64_t rows) {
  return BatchBuilder::Create(MakeSpec(std::move(fields)).value(), rows).value().Seal(rows);
}

// Valid segments of 3, 1 and 2 rows.
SegmentBatch Good() {
  SegmentBatch data;
  data.rows = Rows({Box("obs", {4}), Discrete("action", 2)}, 6);
  data.final_obs = Rows({Box("obs", {4})}, 3);
  data.segments = {{0, 10, 0, 3, SegmentEnd::kCut},
                   {1, 5, 3, 1, SegmentEnd::kTerminated},
                   {0, 13, 4, 2, SegmentEnd::kTruncated}};
  return data;
}

TEST(ValidateSegments, AcceptsValidSegmentsAndAnEmptyBatch) {
  EXPECT_THAT(ValidateSegments(Good()), IsOk());
  EXPECT_THAT(ValidateSegments(SegmentBatch()), IsOk());
  EXPECT_EQ(Good().size(), 6);
}

TEST(ValidateSegments, RefusesGapsOverlapsAndEmptySegments) {
  SegmentBatch gap = Good();
  gap.segments[1].begin = 4;
  EXPECT_THAT(ValidateSegments(gap), StatusIs(kInvalid, AllOf(HasSubstr("segment 1 of stream 1"),
                                                              HasSubstr("1 rows from row 4"),
                                                              HasSubstr("from row 3 of 6"))));
  SegmentBatch overlap = Good();
  overlap.segments[2].begin = 3;
  EXPECT_THAT(ValidateSegments(overlap), StatusIs(kInvalid, HasSubstr("segment 2 of stream 0")));
  SegmentBatch empty = Good();
  empty.segments[1].length = 0;
  EXPECT_THAT(ValidateSegments(empty), StatusIs(kInvalid, HasSubstr("at least one row")));
}

TEST(ValidateSegments, RefusesRowsOutsideOfSegments) {
  SegmentBatch data = Good();
  data.segments[2].length = 1;
  EXPECT_THAT(ValidateSegments(data), StatusIs(kInvalid, HasSubstr("cover 5 rows of 6")));
  data.segments[2].length = 3;
  EXPECT_THAT(ValidateSegments(data), StatusIs(kInvalid, HasSubstr("covers 3 rows from row 4")));
}

TEST(ValidateSegments, RefusesFinalObservationsOfAnotherLayout) {
  SegmentBatch few = Good();
  few.final_obs = few.final_obs.Slice(0, 2);
  EXPECT_THAT(ValidateSegments(few),
              StatusIs(kInvalid, HasSubstr("final_obs has 2 rows for 3 segments")));
  SegmentBatch shape = Good();
  shape.final_obs = Rows({Box("obs", {5})}, 3);
  EXPECT_THAT(ValidateSegments(shape),
              StatusIs(kInvalid, AllOf(HasSubstr("'obs' is float32[5]"), HasSubstr("float32[4]"))));
  SegmentBatch more = Good();
  more.final_obs = Rows({Box("obs", {4}), Discrete("action", 2), Box("map", {1})}, 3);
  EXPECT_THAT(ValidateSegments(more),
              StatusIs(kInvalid, AllOf(HasSubstr("'map'"), HasSubstr("missing"))));
}

}  // namespace
}  // namespace ding
