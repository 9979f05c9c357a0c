#include "ding_worker/base/parse_proto.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace ding {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Up to this size, bytes are parsed without a scan, because they cannot take much memory.
constexpr size_t kMaxUnscannedBytes = 4096;

// Upper bounds of the memory of an object, with the allocator's overhead. Arrays grow by doubling.
constexpr int64_t kAllocation = 16;
constexpr int64_t kPointer = 2 * static_cast<int64_t>(sizeof(void*));
constexpr int64_t kNumber = 2 * static_cast<int64_t>(sizeof(int64_t));
constexpr int64_t kString = static_cast<int64_t>(sizeof(std::string)) + 2 * kAllocation + kPointer;
constexpr int64_t kUnknownField = 2 * 16;
constexpr int64_t kMessage = 64 + kAllocation + kPointer;
constexpr int64_t kField = 32;     // repeated fields are the largest
constexpr int64_t kMapEntry = 64;  // in addition to its message

// Scans the bytes of one message and adds up the memory that it may take.
class MemoryScan {
 public:
  MemoryScan(absl::string_view bytes, int64_t max_bytes)
      : input_(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size())),
        size_(bytes.size()),
        max_bytes_(max_bytes) {}

  absl::Status Run(const Descriptor* type) {
    DING_RETURN_IF_ERROR(Message(type, 0));
    return input_.ConsumedEntireMessage() ? absl::OkStatus() : InvalidBytes();
  }

 private:
  absl::Status InvalidBytes() const {
    return absl::InvalidArgumentError(absl::StrCat("cannot parse ", size_,
                                                   " bytes as a message: they are invalid at byte ",
                                                   input_.CurrentPosition()));
  }
  // Counts `bytes` of memory.
  absl::Status Take(int64_t bytes) {
    taken_ += bytes;
    if (taken_ <= max_bytes_) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("refused to parse a message of ", size_,
                                                     " bytes: it may take more than ", max_bytes_,
                                                     " bytes of memory"));
  }

  // Scans a message up to the stream's limit, or to the end of a group. `type` is nullptr inside of
  // unknown fields.
  absl::Status Message(const Descriptor* type, int depth) {
    if (depth > kMaxParsedDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot parse ", size_,
                       " bytes as a message: messages are nested deeper than ", kMaxParsedDepth));
    }
    DING_RETURN_IF_ERROR(Take(kMessage + (type == nullptr ? 0 : kField * type->field_count())));
    while (true) {
      const uint32_t tag = input_.ReadTag();
      if (tag == 0) return absl::OkStatus();
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      const WireFormatLite::WireType wire_type = WireFormatLite::GetTagWireType(tag);
      if (wire_type == WireFormatLite::WIRETYPE_END_GROUP) return absl::OkStatus();
      const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByNumber(number);
      if (field != nullptr && !Matches(*field, wire_type)) field = nullptr;
      if (field == nullptr) DING_RETURN_IF_ERROR(Take(kUnknownField));
      if (wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
        DING_RETURN_IF_ERROR(Delimited(field, depth));
      } else if (wire_type == WireFormatLite::WIRETYPE_START_GROUP) {
        DING_RETURN_IF_ERROR(
            Message(field == nullptr ? nullptr : field->message_type(), depth + 1));
        const auto end = WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_END_GROUP);
        if (!input_.LastTagWas(end)) return InvalidBytes();
      } else {
        if (!SkipNumber(wire_type)) return InvalidBytes();
        if (field != nullptr && field->is_repeated()) DING_RETURN_IF_ERROR(Take(kNumber));
      }
    }
  }

  // Whether the field may be encoded with that wire type. If not, it counts as unknown.
  static bool Matches(const FieldDescriptor& field, WireFormatLite::WireType wire_type) {
    const bool is_delimited = wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (is_delimited && field.is_packable()) return true;
    return wire_type == WireFormatLite::WireTypeForFieldType(
                            static_cast<WireFormatLite::FieldType>(field.type()));
  }

  bool SkipNumber(WireFormatLite::WireType wire_type) {
    uint64_t wide = 0;
    uint32_t narrow = 0;
    switch (wire_type) {
      case WireFormatLite::WIRETYPE_VARINT:
        return input_.ReadVarint64(&wide);
      case WireFormatLite::WIRETYPE_FIXED64:
        return input_.ReadLittleEndian64(&wide);
      case WireFormatLite::WIRETYPE_FIXED32:
        return input_.ReadLittleEndian32(&narrow);
      default:
        return false;
    }
  }

  // Scans a field whose length stands before it: a message, a string or packed numbers.
  absl::Status Delimited(const FieldDescriptor* field, int depth) {
    uint32_t length = 0;
    if (!input_.ReadVarint32(&length) || length > INT_MAX) return InvalidBytes();
    const int limit_left = input_.BytesUntilLimit();
    const int left =
        limit_left >= 0 ? limit_left : static_cast<int>(size_) - input_.CurrentPosition();
    if (static_cast<int>(length) > left) return InvalidBytes();
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      if (field->is_map()) DING_RETURN_IF_ERROR(Take(kMapEntry));
      const CodedInputStream::Limit outer = input_.PushLimit(static_cast<int>(length));
      DING_RETURN_IF_ERROR(Message(field->message_type(), depth + 1));
      if (!input_.ConsumedEntireMessage()) return InvalidBytes();
      input_.PopLimit(outer);
      return absl::OkStatus();
    }
    const bool is_packed = field != nullptr && field->is_repeated() &&
                           field->cpp_type() != FieldDescriptor::CPPTYPE_STRING;
    DING_RETURN_IF_ERROR(Take(is_packed ? kNumber * CountNumbers(*field, static_cast<int>(length))
                                        : kString + static_cast<int64_t>(length)));
    return input_.Skip(static_cast<int>(length)) ? absl::OkStatus() : InvalidBytes();
  }

  // Counts the numbers that are packed in the next `length` bytes.
  int64_t CountNumbers(const FieldDescriptor& field, int length) {
    switch (field.type()) {
      case FieldDescriptor::TYPE_DOUBLE:
      case FieldDescriptor::TYPE_FIXED64:
      case FieldDescriptor::TYPE_SFIXED64:
        return length / 8;
      case FieldDescriptor::TYPE_FLOAT:
      case FieldDescriptor::TYPE_FIXED32:
      case FieldDescriptor::TYPE_SFIXED32:
        return length / 4;
      default:
        break;
    }
    // Each varint has one byte without the high bit.
    const void* data = nullptr;
    int size = 0;
    if (!input_.GetDirectBufferPointer(&data, &size)) return 0;
    const auto* const begin = static_cast<const uint8_t*>(data);
    return std::count_if(begin, begin + std::min(size, length),
                         [](uint8_t byte) { return byte < 0x80; });
  }

  CodedInputStream input_;
  const size_t size_;
  const int64_t max_bytes_;
  int64_t taken_ = 0;
};

}  // namespace

absl::Status ParseProto(absl::string_view bytes, google::protobuf::Message* message,
                        int64_t max_bytes) {
  message->Clear();
  if (bytes.size() > INT_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("cannot parse a message of ", bytes.size(),
                                                   " bytes, expected at most ", INT_MAX));
  }
  if (bytes.size() > kMaxUnscannedBytes) {
    DING_RETURN_IF_ERROR(MemoryScan(bytes, max_bytes).Run(message->GetDescriptor()));
  }
  CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                         static_cast<int>(bytes.size()));
  input.SetRecursionLimit(kMaxParsedDepth);
  if (message->ParseFromCodedStream(&input) && input.ConsumedEntireMessage()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "cannot parse ", bytes.size(),
      " bytes as a message: they are invalid, or nested deeper than ", kMaxParsedDepth));
}

}  // namespace ding
