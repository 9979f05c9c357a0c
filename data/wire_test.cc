#include "ding_worker/data/wire.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AnyOf;
using testing::ElementsAre;

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
              IsInvalid("'obs' is float32[2]", "expected float32[3]"));
}

TEST(Wire, EveryTruncationIsRefused) {
  const std::string bytes = EncodedBatch(SmallBatch()).ToString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeBatch(bytes.substr(0, size)), IsDataLoss()) << size << " bytes";
  }
  EXPECT_THAT(DecodeBatch(bytes + "x"), IsDataLoss());
}

TEST(Wire, EveryFlippedBitIsRefused) {
  const std::string bytes = EncodedBatch(SmallBatch()).ToString();
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    EXPECT_THAT(DecodeBatch(flipped), AnyOf(IsDataLoss(), IsFailedPrecondition())) << "bit " << bit;
  }
}

// With a checksum that fits, so that only the checks of sizes stand between them and memory.
TEST(Wire, EveryTruncationWithAFittingChecksumIsRefused) {
  const std::string bytes = EncodedBatch(SmallBatch()).ToString();
  for (size_t size = 4; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeBatch(Resealed(bytes.substr(0, size))), AnyOf(IsDataLoss(), IsInvalid()))
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
  EXPECT_THAT(DecodeWith<uint16_t>(4, 2), IsFailedPrecondition("version 2.0", "reads 1.x"));
}

TEST_F(WireNumbersTest, SizesThatContradictAreRefused) {
  EXPECT_THAT(DecodeWith<uint32_t>(8, ~0u), IsInvalid("header of 4294967295"));
  for (const uint64_t rows :
       {uint64_t{0}, uint64_t{1}, uint64_t{3}, ~uint64_t{0}, uint64_t{1} << 60}) {
    EXPECT_THAT(DecodeWith<uint64_t>(12, rows), IsInvalid("rows of 16 bytes"));
  }
  EXPECT_THAT(DecodeWith<uint32_t>(20, 3), IsInvalid("field 2 is malformed"));
  EXPECT_THAT(DecodeWith<uint32_t>(20, ~0u), IsInvalid("4294967295 fields"));
  EXPECT_THAT(DecodeWith<uint32_t>(24, ~0u), IsInvalid("field 0"));
  EXPECT_THAT(DecodeWith<uint32_t>(24, 0), IsInvalid());
  EXPECT_THAT(DecodeWith<uint8_t>(31, 6), IsInvalid("field 0"));
  EXPECT_THAT(DecodeWith<uint8_t>(32, 255), IsInvalid("field 0"));
  EXPECT_THAT(DecodeWith<int64_t>(33, -2), IsInvalid("extent below 1"));
  EXPECT_THAT(DecodeWith<int64_t>(33, int64_t{1} << 62), IsInvalid("'obs'"));
  EXPECT_THAT(DecodeWith<uint32_t>(41, ~0u), IsInvalid("field 0"));
  EXPECT_THAT(DecodeWith<uint32_t>(41, 0), IsInvalid());
}

absl::Status Save(StateWriter* writer) {
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  absl::Status status = writer->WriteTensor(
      "model/weight", Tensor::FromSpan<float>({2, 3}, absl::MakeConstSpan(weight)));
  status.Update(writer->WriteInt("steps", 7));
  status.Update(writer->WriteString("kind", "mlp"));
  return status;
}

TEST(StateWireTest, RoundTripKeepsNamesTypesShapesAndOrder) {
  const absl::StatusOr<EncodedBatch> encoded = EncodeState(Save);
  ASSERT_THAT(encoded, IsOk());
  const absl::StatusOr<std::shared_ptr<StateReader>> state =
      DecodeState(encoded->ToString(), "policy 3");
  ASSERT_THAT(state, IsOk());
  EXPECT_THAT((*state)->Names(), ElementsAre("model/weight", "steps", "kind"));
  const absl::StatusOr<Tensor> weight = (*state)->ReadTensor("model/weight");
  ASSERT_THAT(weight, IsOk());
  EXPECT_EQ(weight->shape(), Shape({2, 3}));
  EXPECT_THAT(weight->data<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ((*state)->ReadInt("steps").value(), 7);
  EXPECT_EQ((*state)->ReadString("kind").value(), "mlp");
  EXPECT_THAT((*state)->ReadInt("nothing").status(), IsNotFound("policy 3"));
}

TEST(StateWireTest, ErrorsOfTheStatePassThrough) {
  EXPECT_THAT(EncodeState([](StateWriter*) { return absl::AbortedError("not now"); }).status(),
              IsError(absl::StatusCode::kAborted, "not now"));
  EXPECT_THAT(EncodeState([](StateWriter* writer) {
                return writer->WriteTensor("none", Tensor());
              }).status(),
              IsInvalid("none"));
}

TEST(StateWireTest, RefusesDamageAndBatchesOfSeveralRows) {
  const absl::StatusOr<EncodedBatch> encoded = EncodeState(Save);
  ASSERT_THAT(encoded, IsOk());
  std::string bytes = encoded->ToString();
  bytes[bytes.size() / 2] ^= 1;
  EXPECT_THAT(DecodeState(bytes, "policy").status(), IsDataLoss());
  absl::StatusOr<SpecPtr> spec = MakeSpec({Box("obs", {2})});
  ASSERT_THAT(spec, IsOk());
  absl::StatusOr<BatchBuilder> rows = BatchBuilder::Create(*spec, 2);
  ASSERT_THAT(rows, IsOk());
  EXPECT_THAT(DecodeState(EncodedBatch(std::move(*rows).Seal(2)).ToString(), "policy 9").status(),
              IsInvalid("policy 9: a state is one row"));
}

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
  EXPECT_THAT(DecodeSegments(bytes, &rows, &other), IsInvalid("'obs'"));
}

// What flips a bit is found by the store.
TEST(SegmentWire, AnyMissingByteIsFound) {
  const std::string good = EncodedSegments(ThreeSegments()).ToString();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(DecodeSegments(good.substr(0, size)), IsDataLoss());
  }
  EXPECT_THAT(DecodeSegments(good + "x"), IsDataLoss());
  std::string later = good;
  later[4] = 3;
  EXPECT_THAT(DecodeSegments(later), IsFailedPrecondition("version 3.0"));
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
                IsInvalid("segment"))
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
  EXPECT_THAT(DecodeSegments(bytes), IsInvalid("final_obs has 2 rows", "3 segments"));
}

}  // namespace
}  // namespace ding
