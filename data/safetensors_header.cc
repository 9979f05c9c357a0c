#include "ding_worker/data/safetensors_header.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using nlohmann::json;

constexpr int64_t kHeaderAlignment = 8;
constexpr size_t kMaxRank = 64;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little endian");

struct NamedDType {
  const char* name;
  DType dtype;
};
constexpr NamedDType kDTypes[] = {{"BOOL", DType::kBool},   {"U8", DType::kUint8},
                                  {"I32", DType::kInt32},   {"I64", DType::kInt64},
                                  {"F32", DType::kFloat32}, {"F64", DType::kFloat64}};

const char* FormatName(DType dtype) {
  for (const NamedDType& known : kDTypes) {
    if (known.dtype == dtype) return known.name;
  }
  return "";
}

// Takes the header as a stream of events, so that nothing is built but what belongs there. The
// first thing that does not belong stops the parse and is the error.
class HeaderHandler : public nlohmann::json_sax<json> {
 public:
  bool start_object(size_t) override {
    switch (place_) {
      case Place::kBegin:
        return Enter(Place::kTop);
      case Place::kTop:
        if (key_ == kSafetensorsMetadataKey) return Enter(Place::kMetadata);
        entry_ = SafetensorsEntry();
        entry_.name = key_;
        has_dtype_ = has_shape_ = has_offsets_ = false;
        return Enter(Place::kTensor);
      default:
        return Unexpected("an object");
    }
  }

  bool key(std::string& key) override {
    key_ = key;
    if (place_ == Place::kTop && !names_.insert(key).second) {
      return Fail(absl::StrCat("'", key, "' appears twice"));
    }
    return true;
  }

  bool end_object() override {
    switch (place_) {
      case Place::kTensor:
        if (!has_dtype_ || !has_shape_ || !has_offsets_) {
          return Fail(absl::StrCat("tensor '", entry_.name,
                                   "' has not all of dtype, shape and data_offsets"));
        }
        header_.entries.push_back(std::move(entry_));
        return Enter(Place::kTop);
      case Place::kMetadata:
        return Enter(Place::kTop);
      default:
        return Enter(Place::kEnd);
    }
  }

  bool start_array(size_t) override {
    if (place_ == Place::kTensor && key_ == "shape" && !std::exchange(has_shape_, true)) {
      return Enter(Place::kShape);
    }
    if (place_ == Place::kTensor && key_ == "data_offsets" && !std::exchange(has_offsets_, true)) {
      offsets_.clear();
      return Enter(Place::kOffsets);
    }
    return Unexpected("an array");
  }

  bool end_array() override {
    if (place_ == Place::kOffsets) {
      if (offsets_.size() != 2) {
        return Fail(absl::StrCat("tensor '", entry_.name, "' has ", offsets_.size(),
                                 " data_offsets, not 2"));
      }
      entry_.begin = offsets_[0];
      entry_.end = offsets_[1];
    }
    return Enter(Place::kTensor);
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      if (header_.metadata.emplace(key_, value).second) return true;
      return Fail(absl::StrCat("metadata '", key_, "' appears twice"));
    }
    if (place_ == Place::kTensor && key_ == "dtype" && !std::exchange(has_dtype_, true)) {
      for (const NamedDType& known : kDTypes) {
        if (value != known.name) continue;
        entry_.dtype = known.dtype;
        return true;
      }
      unknown_dtype_ = true;
      return Fail(absl::StrCat("tensor '", entry_.name, "' has dtype '", value,
                               "'; known are BOOL, U8, I32, I64, F32, F64"));
    }
    return Unexpected("a string");
  }

  bool number_unsigned(uint64_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Unexpected("a number above 2^63");
    }
    const auto number = static_cast<int64_t>(value);
    if (place_ == Place::kShape && entry_.shape.size() < kMaxRank) {
      entry_.shape.push_back(number);
      return true;
    }
    if (place_ == Place::kOffsets && offsets_.size() < 2) {
      offsets_.push_back(number);
      return true;
    }
    return Unexpected("a number");
  }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(int64_t) override { return Unexpected("a negative number"); }
  bool number_float(double, const std::string&) override { return Unexpected("a fraction"); }
  bool binary(json::binary_t&) override { return Unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    return Fail(absl::StrCat("not JSON at byte ",
                             kSafetensorsLengthBytes + static_cast<int64_t>(position)));
  }

  SafetensorsHeader& header() { return header_; }
  const std::string& error() const { return error_; }
  bool unknown_dtype() const { return unknown_dtype_; }

 private:
  enum class Place { kBegin, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool Enter(Place place) {
    place_ = place;
    return true;
  }
  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }
  bool Unexpected(absl::string_view what) {
    return Fail(absl::StrCat("unexpected ", what, " at '", key_, "'"));
  }

  Place place_ = Place::kBegin;
  std::string key_;
  SafetensorsEntry entry_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  std::vector<int64_t> offsets_;
  std::set<std::string> names_;
  SafetensorsHeader header_;
  std::string error_;
  bool unknown_dtype_ = false;
};

}  // namespace

// Written by hand around the strings, so that the order stays.
absl::StatusOr<std::string> MakeSafetensorsHeader(const SafetensorsHeader& header) {
  std::string text = "{";
  try {
    absl::StrAppend(&text, "\"", kSafetensorsMetadataKey, "\":", json(header.metadata).dump());
    for (const SafetensorsEntry& entry : header.entries) {
      absl::StrAppend(&text, ",", json(entry.name).dump(), ":{\"dtype\":\"",
                      FormatName(entry.dtype), "\",\"shape\":[", absl::StrJoin(entry.shape, ","),
                      "],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
    }
  } catch (const json::exception&) {  // The library has no other way to say so.
    return absl::InvalidArgumentError("a name or a metadata string is not UTF-8");
  }
  text += "}";
  text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  if (static_cast<int64_t>(text.size()) > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a header of ", text.size(), " bytes for ",
                                                   header.entries.size(), " tensors is above ",
                                                   kMaxSafetensorsHeaderBytes));
  }
  const uint64_t length = text.size();
  const std::string prefix(reinterpret_cast<const char*>(&length), sizeof(length));
  return prefix + text;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(const std::string& text) {
  HeaderHandler handler;
  if (json::sax_parse(text.begin(), text.end(), &handler)) return std::move(handler.header());
  const std::string message = absl::StrCat("bad header: ", handler.error());
  return handler.unknown_dtype() ? absl::UnimplementedError(message) : absl::DataLossError(message);
}

absl::Status CheckSafetensorsLayout(const std::vector<SafetensorsEntry>& entries,
                                    int64_t data_bytes) {
  std::vector<const SafetensorsEntry*> by_offset;
  for (const SafetensorsEntry& entry : entries) {
    const std::optional<int64_t> size = CheckedByteSize(entry.dtype, entry.shape);
    if (!size.has_value() || entry.end < entry.begin || *size != entry.end - entry.begin) {
      return absl::DataLossError(absl::StrCat("tensor '", entry.name, "', ", DTypeName(entry.dtype),
                                              ShapeString(entry.shape), ", is said to be at bytes ",
                                              entry.begin, " to ", entry.end));
    }
    by_offset.push_back(&entry);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
              return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
            });
  int64_t next = 0;
  for (const SafetensorsEntry* const entry : by_offset) {
    if (entry->begin != next) {
      return absl::DataLossError(absl::StrCat("tensor '", entry->name, "' begins at byte ",
                                              entry->begin, " of the data, expected ", next));
    }
    next = entry->end;
  }
  if (next == data_bytes) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the tensors have ", next, " bytes, the file has ", data_bytes, " for them"));
}

}  // namespace ding
