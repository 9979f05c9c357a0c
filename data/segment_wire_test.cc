#include "ding_worker/data/segment_wire.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const SpecPtr& RowSpec() {
  static const auto* const spec = new SpecPtr(
      MakeSpec({Box("obs", {2}), Discrete("action", 3), Scalar("reward", DType::kFloat32)})
          .value());
  return *spec;
}
const SpecPtr& ObsSpec() {
  static const auto* const spec = new SpecPtr(MakeSpec({Box("obs", {2})}).value());
  return *spec;
}

Batch Numbered(const SpecPtr& spec, int64_t rows) {
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  uint8_t next = 0;
  for (int i = 0; i < spec->size(); ++i) {
    for (int64_t byte = 0; byte < rows * spec->row_bytes(i); ++byte) {
      builder.view().raw_column(i)[byte] = std::byte{next++};
    }
  }
  return std::move(builder).Seal(rows);
}

SegmentBatch ThreeSegments() {
  SegmentBatch data;
  data.rows = Numbered(RowSpec(), 7);
  data.final_obs = Numbered(ObsSpec(), 3);
  data.segments = {{-5, 0, 0, 3, SegmentEnd::kCut},
                   {7, int64_t{1} << 40, 3, 1, SegmentEnd::kTerminated},
                   {8, 2, 4, 3, SegmentEnd::kTruncated}};
  return data;
}

void ExpectSameBatch(const Batch& a, const Batch& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.spec(), b.spec());
  for (int i = 0; i < a.spec().size(); ++i) EXPECT_TRUE(BitwiseEqual(a.tensor(i), b.tensor(i)));
}

void ExpectSame(const SegmentBatch& a, const SegmentBatch& b) {
  ExpectSameBatch(a.rows, b.rows);
  ExpectSameBatch(a.final_obs, b.final_obs);
  ASSERT_EQ(a.segments.size(), b.segments.size());
  for (size_t i = 0; i < a.segments.size(); ++i) {
    EXPECT_EQ(a.segments[i].stream, b.segments[i].stream);
    EXPECT_EQ(a.segments[i].first_step, b.segments[i].first_step);
    EXPECT_EQ(a.segments[i].begin, b.segments[i].begin);
    EXPECT_EQ(a.segments[i].length, b.segments[i].length);
    EXPECT_EQ(a.segments[i].end, b.segments[i].end);
  }
}

// The message of `data` with an int64 of the table of segments overwritten.
std::string WithTable(const SegmentBatch& data, int field, size_t segment, int64_t value) {
  std::string bytes = EncodedSegments(data).ToString();
  uint64_t table_bytes;
  std::memcpy(&table_bytes, &bytes[8], 8);
  const size_t end = 32 + table_bytes;
  const size_t columns = end - data.segments.size() * 25;
  const size_t bytes_of_value = field < 3 ? 8 : 1;
  const size_t column = columns + static_cast<size_t>(field) * data.segments.size() * 8;
  std::memcpy(&bytes[column + segment * bytes_of_value], &value, bytes_of_value);
  return bytes;
}

TEST(SegmentWire, RoundTrips) {
  const SegmentBatch data = ThreeSegments();
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch decoded,
                            DecodeSegments(EncodedSegments(data).ToString()));
  ExpectSame(decoded, data);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch nothing,
                            DecodeSegments(EncodedSegments(SegmentBatch()).ToString()));
  EXPECT_EQ(nothing.size(), 0);
}

TEST(SegmentWire, ColumnsAreNotCopiedToEncodeAndLiveAsLongAsTheMessage) {
  SegmentBatch data = ThreeSegments();
  const std::string expected = EncodedSegments(data).ToString();
  const void* const column = data.rows.view().raw_column(0);
  EncodedSegments first(data);
  data = SegmentBatch();
  const EncodedSegments encoded = std::move(first);
  EXPECT_EQ(encoded.ToString(), expected);
  EXPECT_THAT(encoded.pieces(),
              testing::Contains(testing::ResultOf(
                  [](absl::string_view piece) -> const void* { return piece.data(); }, column)));
}

TEST(SegmentWire, DecodesIntoPools) {
  const SegmentBatch data = ThreeSegments();
  const std::string bytes = EncodedSegments(data).ToString();
  BlockPool rows(RowSpec());
  BlockPool final_obs(ObsSpec());
  for (int round = 0; round < 3; ++round) {
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch decoded, DecodeSegments(bytes, &rows, &final_obs));
    ExpectSame(decoded, data);
    EXPECT_EQ(decoded.rows.spec_ptr(), RowSpec());
  }
  EXPECT_EQ(rows.free_blocks(), 1);
  EXPECT_EQ(final_obs.free_blocks(), 1);
  BlockPool other(MakeSpec({Box("obs", {3})}).value());
  EXPECT_THAT(DecodeSegments(bytes, &rows, &other),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'obs'")));
}

// What flips a bit is found by the store.
TEST(SegmentWire, AnyMissingByteIsFound) {
  const std::string good = EncodedSegments(ThreeSegments()).ToString();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(DecodeSegments(good.substr(0, size)), StatusIs(absl::StatusCode::kDataLoss));
  }
  EXPECT_THAT(DecodeSegments(good + "x"), StatusIs(absl::StatusCode::kDataLoss));
  std::string later = good;
  later[4] = 3;
  EXPECT_THAT(DecodeSegments(later),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("version 3.0")));
}

TEST(SegmentWire, ImpossibleSegmentsAreRefused) {
  const SegmentBatch data = ThreeSegments();
  ASSERT_THAT(DecodeSegments(WithTable(data, 0, 0, -5)), IsOk()) << "as it was";
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const struct {
    int field;
    size_t segment;
    int64_t value;
  } bad[] = {{2, 0, 0},  {2, 0, -1}, {2, 0, 2},    {2, 2, 4},        {2, 2, kMax},
             {1, 0, -1}, {3, 1, 3},  {1, 2, kMax}, {1, 2, kMax - 2}, {1, 0, -kMax - 1}};
  for (const auto& change : bad) {
    EXPECT_THAT(DecodeSegments(WithTable(data, change.field, change.segment, change.value)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("segment")))
        << change.field << " " << change.segment << " " << change.value;
  }
  EXPECT_THAT(DecodeSegments(WithTable(data, 1, 2, kMax - 3)), IsOk());
}

TEST(SegmentWire, PartsThatDoNotBelongTogetherAreRefused) {
  SegmentBatch data = ThreeSegments();
  const std::string good = EncodedSegments(data).ToString();
  // final_obs of one row less, with its size in the header.
  const std::string old_obs = EncodedBatch(data.final_obs, BatchChecksum::kNone).ToString();
  const std::string new_obs =
      EncodedBatch(data.final_obs.Slice(0, 2), BatchChecksum::kNone).ToString();
  std::string bytes = good.substr(0, good.size() - old_obs.size()) + new_obs;
  const uint64_t size = new_obs.size();
  std::memcpy(&bytes[24], &size, 8);
  EXPECT_THAT(DecodeSegments(bytes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("final_obs has 2 rows"), HasSubstr("3 segments"))));
}

}  // namespace
}  // namespace ding
