#include "ding_worker/data/wire.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

Batch RandomBatch(std::vector<FieldSpec> fields, int64_t rows) {
  const SpecPtr spec = MakeSpec(std::move(fields)).value();
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  Rng rng(1, "wire_test");
  for (int i = 0; i < spec->size(); ++i) {
    const MutableColumnsView view = builder.view();
    for (int64_t byte = 0; byte < rows * spec->row_bytes(i); ++byte) {
      view.raw_column(i)[byte] = static_cast<std::byte>(rng.Next32());
    }
  }
  return std::move(builder).Seal(rows);
}

std::vector<FieldSpec> AllKinds() {
  FieldSpec frames = Box("obs/camera", {4, 2, 2});
  frames.dtype = DType::kUint8;
  frames.frame_stack_axis = 0;
  return {Box("obs/state", {3}, {-1, -2, -3}, {1, 2, 3}),
          frames,
          Discrete("action", 5),
          Scalar("done", DType::kBool),
          Scalar("id", DType::kInt32),
          Scalar("x", DType::kFloat64),
          Box("reward", {}, {-1}, {std::numeric_limits<double>::infinity()})};
}

Batch SmallBatch() { return RandomBatch({Box("obs", {2}, {-1}, {1}), Discrete("a", 2)}, 2); }

void ExpectSameRows(const Batch& a, const Batch& b) {
  ASSERT_EQ(a.rows(), b.rows());
  for (int i = 0; i < a.spec().size(); ++i) {
    EXPECT_TRUE(BitwiseEqual(a.tensor(i), b.tensor(i))) << a.spec().field(i).name;
  }
}

// Puts a fitting checksum at the end, so that what is behind it is tried.
std::string Resealed(std::string bytes) {
  const uint32_t crc = Crc32c(absl::string_view(bytes).substr(0, bytes.size() - 4));
  std::memcpy(&bytes[bytes.size() - 4], &crc, 4);
  return bytes;
}

TEST(Wire, RoundTripsEveryKindOfField) {
  for (const int64_t rows : {1, 2, 63, 100}) {
    const Batch batch = RandomBatch(AllKinds(), rows);
    DING_ASSERT_OK_AND_ASSIGN(const Batch decoded, DecodeBatch(EncodedBatch(batch).ToString()));
    EXPECT_EQ(decoded.spec(), batch.spec());
    ExpectSameRows(decoded, batch);
  }
}

TEST(Wire, RoundTripsSlicesAndNothing) {
  const Batch batch = RandomBatch(AllKinds(), 10);
  DING_ASSERT_OK_AND_ASSIGN(const Batch slice,
                            DecodeBatch(EncodedBatch(batch.Slice(3, 4)).ToString()));
  ExpectSameRows(slice, batch.Slice(3, 4));
  DING_ASSERT_OK_AND_ASSIGN(const Batch no_rows,
                            DecodeBatch(EncodedBatch(batch.Slice(3, 0)).ToString()));
  EXPECT_EQ(no_rows.rows(), 0);
  EXPECT_EQ(no_rows.spec(), batch.spec());
  DING_ASSERT_OK_AND_ASSIGN(const Batch nothing, DecodeBatch(EncodedBatch(Batch()).ToString()));
  EXPECT_EQ(nothing.spec().size(), 0);
}

TEST(Wire, ColumnsAreNotCopiedToEncodeAndLiveAsLongAsTheMessage) {
  Batch batch = SmallBatch();
  const std::byte* const column = batch.view().raw_column(0);
  const std::string expected = EncodedBatch(batch).ToString();
  EncodedBatch first(std::move(batch));
  batch = Batch();
  const EncodedBatch encoded = std::move(first);
  ASSERT_EQ(encoded.pieces().size(), 4u);
  EXPECT_EQ(static_cast<const void*>(encoded.pieces()[1].data()), column);
  EXPECT_EQ(encoded.ToString(), expected);
}

TEST(Wire, DecodesIntoAPool) {
  const Batch batch = SmallBatch();
  const std::string bytes = EncodedBatch(batch).ToString();
  BlockPool pool(batch.spec_ptr());
  for (int round = 0; round < 3; ++round) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch decoded, DecodeBatch(bytes, &pool));
    ExpectSameRows(decoded, batch);
    EXPECT_EQ(decoded.spec_ptr(), pool.spec());
    EXPECT_EQ(pool.free_blocks(), 0);
  }
  EXPECT_EQ(pool.free_blocks(), 1);
}

TEST(Wire, APoolOfAnotherLayoutIsRefused) {
  BlockPool pool(MakeSpec({Box("obs", {3}), Discrete("a", 2)}).value());
  EXPECT_THAT(DecodeBatch(EncodedBatch(SmallBatch()).ToString(), &pool),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'obs' is float32[2]"), HasSubstr("expected float32[3]"))));
}

TEST(Wire, EveryTruncationIsRefused) {
  const std::string bytes = EncodedBatch(SmallBatch()).ToString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeBatch(bytes.substr(0, size)), StatusIs(absl::StatusCode::kDataLoss))
        << size << " bytes";
  }
  EXPECT_THAT(DecodeBatch(bytes + "x"), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(Wire, EveryFlippedBitIsRefused) {
  const std::string bytes = EncodedBatch(SmallBatch()).ToString();
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    EXPECT_THAT(DecodeBatch(flipped), AnyOf(StatusIs(absl::StatusCode::kDataLoss),
                                            StatusIs(absl::StatusCode::kFailedPrecondition)))
        << "bit " << bit;
  }
}

// With a checksum that fits, so that only the checks of sizes stand between them and memory.
TEST(Wire, EveryTruncationWithAFittingChecksumIsRefused) {
  const std::string bytes = EncodedBatch(SmallBatch()).ToString();
  for (size_t size = 4; size < bytes.size(); ++size) {
    EXPECT_THAT(
        DecodeBatch(Resealed(bytes.substr(0, size))),
        AnyOf(StatusIs(absl::StatusCode::kDataLoss), StatusIs(absl::StatusCode::kInvalidArgument)))
        << size << " bytes";
  }
}

class WireNumbersTest : public testing::Test {
 protected:
  template <typename T>
  absl::Status DecodeWith(size_t offset, T value) const {
    std::string bytes = good_;
    std::memcpy(&bytes[offset], &value, sizeof(value));
    return DecodeBatch(Resealed(bytes)).status();
  }

  // Offsets: 4 major, 6 minor, 8 header size, 12 rows, 20 fields, 24 length of the first name,
  // 28 "obs", 31 dtype, 32 rank, 33 extent, 41 bounds.
  const std::string good_ = EncodedBatch(SmallBatch()).ToString();
};

TEST_F(WireNumbersTest, VersionsOfTheSameMajorAreRead) {
  EXPECT_THAT(DecodeWith<uint16_t>(6, 9), IsOk());
  EXPECT_THAT(DecodeWith<uint16_t>(4, 2),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("version 2.0"), HasSubstr("reads 1.x"))));
}

TEST_F(WireNumbersTest, SizesThatContradictAreRefused) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(DecodeWith<uint32_t>(8, ~0u), StatusIs(kInvalid, HasSubstr("header of 4294967295")));
  for (const uint64_t rows :
       {uint64_t{0}, uint64_t{1}, uint64_t{3}, ~uint64_t{0}, uint64_t{1} << 60}) {
    EXPECT_THAT(DecodeWith<uint64_t>(12, rows), StatusIs(kInvalid, HasSubstr("rows of 16 bytes")));
  }
  EXPECT_THAT(DecodeWith<uint32_t>(20, 3), StatusIs(kInvalid, HasSubstr("field 2 is malformed")));
  EXPECT_THAT(DecodeWith<uint32_t>(20, ~0u), StatusIs(kInvalid, HasSubstr("4294967295 fields")));
  EXPECT_THAT(DecodeWith<uint32_t>(24, ~0u), StatusIs(kInvalid, HasSubstr("field 0")));
  EXPECT_THAT(DecodeWith<uint32_t>(24, 0), StatusIs(kInvalid));
  EXPECT_THAT(DecodeWith<uint8_t>(31, 6), StatusIs(kInvalid, HasSubstr("field 0")));
  EXPECT_THAT(DecodeWith<uint8_t>(32, 255), StatusIs(kInvalid, HasSubstr("field 0")));
  EXPECT_THAT(DecodeWith<int64_t>(33, -2), StatusIs(kInvalid, HasSubstr("extent below 1")));
  EXPECT_THAT(DecodeWith<int64_t>(33, int64_t{1} << 62), StatusIs(kInvalid, HasSubstr("'obs'")));
  EXPECT_THAT(DecodeWith<uint32_t>(41, ~0u), StatusIs(kInvalid, HasSubstr("field 0")));
  EXPECT_THAT(DecodeWith<uint32_t>(41, 0), StatusIs(kInvalid));
}

}  // namespace
}  // namespace ding
