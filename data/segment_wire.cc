#include "ding_worker/data/segment_wire.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/bytes.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

constexpr absl::string_view kMagic = "DSEG";
constexpr uint16_t kMajorVersion = 2;
constexpr uint16_t kMinorVersion = 0;

enum TableField { kStream, kFirstStep, kLength, kEnd };

const SpecPtr& TableSpec() {
  static const auto* const spec =
      new SpecPtr(MakeSpec({Scalar("stream", DType::kInt64), Scalar("first_step", DType::kInt64),
                            Scalar("length", DType::kInt64), Scalar("end", DType::kUint8)})
                      .value());
  return *spec;
}

Batch TableOf(const std::vector<Segment>& segments) {
  const auto count = static_cast<int64_t>(segments.size());
  absl::StatusOr<BatchBuilder> builder = BatchBuilder::Create(TableSpec(), count);
  DING_CHECK(builder.ok()) << builder.status();
  const auto stream = builder->column<int64_t>(kStream);
  const auto first_step = builder->column<int64_t>(kFirstStep);
  const auto length = builder->column<int64_t>(kLength);
  const auto end = builder->column<uint8_t>(kEnd);
  for (size_t i = 0; i < segments.size(); ++i) {
    stream[i] = segments[i].stream;
    first_step[i] = segments[i].first_step;
    length[i] = segments[i].length;
    end[i] = static_cast<uint8_t>(segments[i].end);
  }
  return std::move(*builder).Seal(count);
}

size_t SizeOf(absl::Span<const absl::string_view> pieces) {
  size_t size = 0;
  for (const absl::string_view piece : pieces) size += piece.size();
  return size;
}

std::string MakeHeader(const std::vector<EncodedBatch>& parts) {
  std::string header(kMagic);
  AppendNumber(kMajorVersion, &header);
  AppendNumber(kMinorVersion, &header);
  for (const EncodedBatch& part : parts) {
    AppendNumber(static_cast<uint64_t>(SizeOf(part.pieces())), &header);
  }
  return header;
}

struct Message {
  absl::string_view segments;
  absl::string_view rows;
  absl::string_view final_obs;
};

absl::StatusOr<Message> Parse(absl::string_view bytes) {
  ByteCursor cursor(bytes);
  const absl::string_view magic = cursor.TakeBytes(kMagic.size());
  const auto major = cursor.Take<uint16_t>();
  const auto minor = cursor.Take<uint16_t>();
  if (cursor.ok() && magic == kMagic && major != kMajorVersion) {
    return absl::FailedPreconditionError(absl::StrCat("message of segments has version ", major,
                                                      ".", minor, ", this program reads ",
                                                      kMajorVersion, ".x"));
  }
  uint64_t sizes[3];
  for (uint64_t& size : sizes) size = cursor.Take<uint64_t>();
  Message message;
  if (cursor.ok() && magic == kMagic) {
    message.segments = cursor.TakeBytes(sizes[0]);
    message.rows = cursor.TakeBytes(sizes[1]);
    message.final_obs = cursor.TakeBytes(sizes[2]);
    if (cursor.ok() && cursor.left() == 0) return message;
  }
  return absl::DataLossError(
      absl::StrCat("message of segments of ", bytes.size(), " bytes is corrupted or truncated"));
}

absl::StatusOr<std::vector<Segment>> DecodeTable(absl::string_view bytes) {
  DING_ASSIGN_OR_RETURN(const Batch table, DecodeBatch(bytes, BatchChecksum::kNone));
  DING_RETURN_IF_ERROR(CheckSameLayout(*TableSpec(), table.spec(), "table of segments"));
  const auto stream = table.column<int64_t>(kStream);
  const auto first_step = table.column<int64_t>(kFirstStep);
  const auto length = table.column<int64_t>(kLength);
  const auto end = table.column<uint8_t>(kEnd);
  std::vector<Segment> segments;
  segments.reserve(static_cast<size_t>(table.rows()));
  int64_t begin = 0;
  for (size_t i = 0; i < stream.size(); ++i) {
    segments.push_back(
        {stream[i], first_step[i], begin, length[i], static_cast<SegmentEnd>(end[i])});
    // ValidateSegments() refuses the segment before a sum that does not fit.
    begin = CheckedSum(begin, length[i]).value_or(0);
  }
  return segments;
}

// `decode_rows` and `decode_obs` decode into whatever blocks.
template <typename DecodeRows, typename DecodeObs>
absl::StatusOr<SegmentBatch> Decode(absl::string_view bytes, DecodeRows decode_rows,
                                    DecodeObs decode_obs) {
  DING_ASSIGN_OR_RETURN(const Message message, Parse(bytes));
  SegmentBatch data;
  DING_ASSIGN_OR_RETURN(data.rows, decode_rows(message.rows));
  DING_ASSIGN_OR_RETURN(data.final_obs, decode_obs(message.final_obs));
  DING_ASSIGN_OR_RETURN(data.segments, DecodeTable(message.segments));
  DING_RETURN_IF_ERROR(ValidateSegments(data));
  return data;
}

}  // namespace

EncodedSegments::EncodedSegments(const SegmentBatch& data) {
  const absl::Status valid = ValidateSegments(data);
  DING_CHECK(valid.ok()) << valid;
  parts_.emplace_back(TableOf(data.segments), BatchChecksum::kNone);
  parts_.emplace_back(data.rows, BatchChecksum::kNone);
  parts_.emplace_back(data.final_obs, BatchChecksum::kNone);
  header_ = std::make_unique<const std::string>(MakeHeader(parts_));
  pieces_.push_back(*header_);
  for (const EncodedBatch& part : parts_) {
    pieces_.insert(pieces_.end(), part.pieces().begin(), part.pieces().end());
  }
}

std::string EncodedSegments::ToString() const { return absl::StrJoin(pieces_, ""); }

absl::StatusOr<SegmentBatch> DecodeSegments(absl::string_view bytes) {
  const auto decode = [](absl::string_view part) {
    return DecodeBatch(part, BatchChecksum::kNone);
  };
  return Decode(bytes, decode, decode);
}

absl::StatusOr<SegmentBatch> DecodeSegments(absl::string_view bytes, BlockPool* rows,
                                            BlockPool* final_obs) {
  return Decode(
      bytes,
      [rows](absl::string_view part) { return DecodeBatch(part, rows, BatchChecksum::kNone); },
      [final_obs](absl::string_view part) {
        return DecodeBatch(part, final_obs, BatchChecksum::kNone);
      });
}

}  // namespace ding
