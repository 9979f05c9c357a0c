#include "ding_worker/data/wire.h"

#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/bytes.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"

namespace ding {
namespace {

constexpr absl::string_view kMagic = "DBAT";
constexpr uint16_t kMajorVersion = 1;
constexpr uint16_t kMinorVersion = 0;
constexpr size_t kFixedBytes = 12;  // magic, versions, size of the rest
constexpr size_t kChecksumBytes = 4;
constexpr uint32_t kMaxFields = 4096;
constexpr size_t kMaxKeptSpecBytes = 64 * 1024;

void PutField(const FieldSpec& field, std::string* out) {
  AppendNumber(static_cast<uint32_t>(field.name.size()), out);
  out->append(field.name);
  AppendNumber(static_cast<uint8_t>(field.dtype), out);
  AppendNumber(static_cast<uint8_t>(field.shape.size()), out);
  for (const int64_t extent : field.shape) AppendNumber(extent, out);
  AppendNumber(static_cast<uint32_t>(field.low.size()), out);
  for (const double bound : field.low) AppendNumber(bound, out);
  for (const double bound : field.high) AppendNumber(bound, out);
  AppendNumber(field.num_categories, out);
  AppendNumber(static_cast<int32_t>(field.frame_stack_axis), out);
}

std::string MakeHeader(const Batch& batch) {
  std::string rest;
  AppendNumber(static_cast<uint64_t>(batch.rows()), &rest);
  AppendNumber(static_cast<uint32_t>(batch.spec().size()), &rest);
  for (const FieldSpec& field : batch.spec().fields()) PutField(field, &rest);
  std::string header(kMagic);
  AppendNumber(kMajorVersion, &header);
  AppendNumber(kMinorVersion, &header);
  AppendNumber(static_cast<uint32_t>(rest.size()), &header);
  return header + rest;
}

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("batch message: ", what));
}

std::optional<FieldSpec> TakeField(ByteCursor* cursor) {
  FieldSpec field;
  field.name = std::string(cursor->TakeBytes(cursor->Take<uint32_t>()));
  const auto dtype = cursor->Take<uint8_t>();
  if (dtype > static_cast<uint8_t>(DType::kFloat64)) return std::nullopt;
  field.dtype = static_cast<DType>(dtype);
  const auto rank = cursor->Take<uint8_t>();
  for (int i = 0; i < rank; ++i) field.shape.push_back(cursor->Take<int64_t>());
  const auto bounds = cursor->Take<uint32_t>();
  if (bounds > cursor->left() / (2 * sizeof(double))) return std::nullopt;
  for (std::vector<double>* const side : {&field.low, &field.high}) {
    for (uint32_t i = 0; i < bounds; ++i) side->push_back(cursor->Take<double>());
  }
  field.num_categories = cursor->Take<int64_t>();
  field.frame_stack_axis = cursor->Take<int32_t>();
  if (!cursor->ok()) return std::nullopt;
  return field;
}

absl::StatusOr<Spec> TakeSpec(ByteCursor* cursor) {
  const auto count = cursor->Take<uint32_t>();
  if (count > kMaxFields) return Malformed(absl::StrCat(count, " fields"));
  std::vector<FieldSpec> fields;
  for (uint32_t i = 0; i < count; ++i) {
    std::optional<FieldSpec> field = TakeField(cursor);
    if (!field.has_value()) return Malformed(absl::StrCat("field ", i, " is malformed"));
    fields.push_back(*std::move(field));
  }
  absl::StatusOr<Spec> spec = Spec::Create(std::move(fields));
  if (!spec.ok()) return Malformed(spec.status().message());
  return spec;
}

struct Message {
  SpecPtr spec;
  int64_t rows = 0;
  absl::string_view columns;
};

// Returns the spec in `bytes`. Most messages have the spec of the one before, so each thread keeps
// the last one.
absl::StatusOr<SpecPtr> ParseSpec(absl::string_view bytes) {
  struct LastSpec {
    std::string bytes;
    SpecPtr spec;
  };
  static thread_local LastSpec last;
  if (last.spec != nullptr && last.bytes == bytes) return last.spec;
  ByteCursor cursor(bytes);
  // A later minor version may have added to the header: what is left of it is skipped.
  DING_ASSIGN_OR_RETURN(Spec spec, TakeSpec(&cursor));
  auto parsed = std::make_shared<const Spec>(std::move(spec));
  if (bytes.size() <= kMaxKeptSpecBytes) last = {std::string(bytes), parsed};
  return parsed;
}

// Magic and version come before the checksum, whose place another major version may have changed.
absl::Status CheckFrame(absl::string_view bytes, size_t checksum_bytes) {
  if (bytes.size() < kFixedBytes + checksum_bytes) {
    return absl::DataLossError(absl::StrCat("batch message has only ", bytes.size(), " bytes"));
  }
  ByteCursor cursor(bytes);
  const absl::string_view magic = cursor.TakeBytes(kMagic.size());
  const auto major = cursor.Take<uint16_t>();
  const auto minor = cursor.Take<uint16_t>();
  const absl::string_view body = bytes.substr(0, bytes.size() - checksum_bytes);
  ByteCursor trailer(bytes.substr(body.size()));
  const bool whole = checksum_bytes == 0 || trailer.Take<uint32_t>() == Crc32c(body);
  if (magic == kMagic && major != kMajorVersion) {
    return absl::FailedPreconditionError(absl::StrCat("batch message has version ", major, ".",
                                                      minor, ", this program reads ", kMajorVersion,
                                                      ".x"));
  }
  if (whole && magic == kMagic) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("batch message of ", bytes.size(), " bytes is corrupted or truncated"));
}

absl::StatusOr<Message> Parse(absl::string_view bytes, BatchChecksum checksum) {
  const size_t checksum_bytes = checksum == BatchChecksum::kOwn ? kChecksumBytes : 0;
  DING_RETURN_IF_ERROR(CheckFrame(bytes, checksum_bytes));
  ByteCursor cursor(bytes.substr(0, bytes.size() - checksum_bytes));
  cursor.TakeBytes(kFixedBytes - sizeof(uint32_t));
  const auto header_size = cursor.Take<uint32_t>();
  ByteCursor header(cursor.TakeBytes(header_size));
  if (!cursor.ok()) return Malformed(absl::StrCat("a header of ", header_size, " bytes"));
  const auto rows = header.Take<uint64_t>();
  Message message;
  DING_ASSIGN_OR_RETURN(message.spec, ParseSpec(header.TakeBytes(header.left())));
  uint64_t expected = 0;
  const auto row_bytes = static_cast<uint64_t>(message.spec->row_bytes());
  const size_t there = cursor.left();
  if (__builtin_mul_overflow(rows, row_bytes, &expected) || expected != there ||
      (row_bytes == 0 && rows > 0)) {
    return Malformed(absl::StrCat(rows, " rows of ", row_bytes, " bytes in ", there, " bytes"));
  }
  message.rows = static_cast<int64_t>(rows);
  message.columns = cursor.TakeBytes(there);
  return message;
}

Batch Fill(const Message& message, BatchBuilder builder) {
  ByteCursor columns(message.columns);
  const MutableColumnsView view = builder.view();
  for (int i = 0; i < message.spec->size(); ++i) {
    const absl::string_view column =
        columns.TakeBytes(static_cast<size_t>(message.rows * message.spec->row_bytes(i)));
    if (!column.empty()) std::memcpy(view.raw_column(i), column.data(), column.size());
  }
  return std::move(builder).Seal(message.rows);
}

}  // namespace

EncodedBatch::EncodedBatch(Batch batch, BatchChecksum checksum) : batch_(std::move(batch)) {
  header_ = std::make_unique<const std::string>(MakeHeader(batch_));
  pieces_.push_back(*header_);
  const ColumnsView view = batch_.view();
  for (int i = 0; i < batch_.spec().size() && batch_.rows() > 0; ++i) {
    pieces_.emplace_back(reinterpret_cast<const char*>(view.raw_column(i)),
                         static_cast<size_t>(batch_.rows() * batch_.spec().row_bytes(i)));
  }
  if (checksum == BatchChecksum::kNone) return;
  uint32_t crc = 0;
  for (const absl::string_view piece : pieces_) crc = Crc32c(piece, crc);
  std::string trailer;
  AppendNumber(crc, &trailer);
  trailer_ = std::make_unique<const std::string>(std::move(trailer));
  pieces_.push_back(*trailer_);
}

std::string EncodedBatch::ToString() const { return absl::StrJoin(pieces_, ""); }

absl::StatusOr<Batch> DecodeBatch(absl::string_view bytes, BatchChecksum checksum) {
  DING_ASSIGN_OR_RETURN(const Message message, Parse(bytes, checksum));
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, BatchBuilder::Create(message.spec, message.rows));
  return Fill(message, std::move(builder));
}

absl::StatusOr<Batch> DecodeBatch(absl::string_view bytes, BlockPool* pool,
                                  BatchChecksum checksum) {
  DING_ASSIGN_OR_RETURN(const Message message, Parse(bytes, checksum));
  DING_RETURN_IF_ERROR(CheckSameLayout(*pool->spec(), *message.spec, "batch message"));
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, pool->Allocate(message.rows));
  return Fill(message, std::move(builder));
}

absl::StatusOr<EncodedBatch> EncodeState(const std::function<absl::Status(StateWriter*)>& save) {
  StateDict state;
  DING_RETURN_IF_ERROR(save(&state));
  std::vector<FieldSpec> fields;
  for (const auto& [name, tensor] : state.tensors()) {
    FieldSpec field;
    field.name = name;
    field.dtype = tensor.dtype();
    field.shape = tensor.shape();
    fields.push_back(std::move(field));
  }
  DING_ASSIGN_OR_RETURN(SpecPtr spec, MakeSpec(std::move(fields)));
  DING_ASSIGN_OR_RETURN(BatchBuilder row, BatchBuilder::Create(std::move(spec), 1));
  int index = 0;
  for (const auto& [name, tensor] : state.tensors()) {
    std::memcpy(row.view().raw_column(index++), tensor.raw_data(),
                static_cast<size_t>(tensor.size_bytes()));
  }
  return EncodedBatch(std::move(row).Seal(1));
}

absl::StatusOr<std::shared_ptr<StateReader>> DecodeState(absl::string_view bytes,
                                                         absl::string_view source) {
  DING_ASSIGN_OR_RETURN(const Batch row, DecodeBatch(bytes));
  if (row.rows() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": a state is one row, found ", row.rows()));
  }
  TensorMap tensors;
  for (int i = 0; i < row.spec().size(); ++i) {
    const Tensor column = row.tensor(i);
    const FieldSpec& field = row.spec().field(i);
    tensors.Set(field.name, Tensor(field.dtype, field.shape, column.owner(), column.raw_data()));
  }
  return std::make_shared<StateDict>(std::move(tensors), source);
}

}  // namespace ding
