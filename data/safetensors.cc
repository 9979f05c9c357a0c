#include "ding_worker/data/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using nlohmann::json;

constexpr absl::string_view kMetadataKey = "__metadata__";
constexpr absl::string_view kVersionKey = "ding_worker_version";
constexpr int64_t kLengthBytes = 8;
constexpr int64_t kHeaderAlignment = 8;
constexpr int64_t kMaxHeaderBytes = 100000000;  // The limit of the reference implementation.
constexpr size_t kMaxRank = 64;
constexpr int64_t kChecksumBytes = sizeof(uint32_t);

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

// One tensor as the header describes it. Offsets count from the begin of the data.
struct HeaderEntry {
  std::string name;
  DType dtype = DType::kUint8;
  Shape shape;
  int64_t begin = 0;
  int64_t end = 0;
};

// ------------------------------------------------------------------------------------- writing

// First pass: what will be written.
class MeasuringWriter : public StateWriter {
 public:
  absl::Status Write(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                     absl::Span<const absl::string_view> parts) override {
    if (name == kMetadataKey) {
      return absl::InvalidArgumentError(absl::StrCat("a tensor cannot be named '", name, "'"));
    }
    const std::optional<int64_t> size = CheckedByteSize(dtype, shape);
    size_t given = 0;
    for (const absl::string_view part : parts) given += part.size();
    if (!size.has_value() || static_cast<size_t>(*size) != given) {
      return absl::InvalidArgumentError(absl::StrCat("'", name, "' is written with ", given,
                                                     " bytes as ", DTypeName(dtype),
                                                     ShapeString(shape)));
    }
    if (!names_.emplace(std::string(name)).second) {
      return absl::AlreadyExistsError(absl::StrCat("'", name, "' is written twice"));
    }
    HeaderEntry entry;
    entry.name = std::string(name);
    entry.dtype = dtype;
    entry.shape.assign(shape.begin(), shape.end());
    entry.end = *size;
    entries_.push_back(std::move(entry));
    return absl::OkStatus();
  }

  // The tensors in the order written, laid out in the order of the file.
  std::vector<HeaderEntry> LayOut(absl::Span<const int64_t> element_sizes) && {
    int64_t offset = 0;
    for (const int64_t element_size : element_sizes) {
      for (HeaderEntry& entry : entries_) {
        if (SizeOf(entry.dtype) != element_size) continue;
        entry.begin = offset;
        offset += entry.end;
        entry.end = offset;
      }
    }
    return std::move(entries_);
  }

 private:
  std::vector<HeaderEntry> entries_;
  std::set<std::string, std::less<>> names_;
};

// Appends to a file and keeps size and checksum in `info`.
class ChecksummedFile {
 public:
  ChecksummedFile(AtomicFileWriter* file, SafetensorsFileInfo* info) : file_(file), info_(*info) {}

  absl::Status Append(absl::string_view bytes) {
    info_.crc32c = Crc32c(bytes, info_.crc32c);
    info_.size_bytes += static_cast<int64_t>(bytes.size());
    return file_->Append(bytes);
  }

 private:
  AtomicFileWriter* const file_;
  SafetensorsFileInfo& info_;
};

// A later pass: writes the tensors of one element size.
class DataWriter : public StateWriter {
 public:
  DataWriter(const std::vector<HeaderEntry>* entries, int64_t element_size, ChecksummedFile* file)
      : entries_(*entries), element_size_(element_size), file_(*file) {}

  absl::Status Write(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                     absl::Span<const absl::string_view> parts) override {
    if (next_ == entries_.size()) return Changed(name, "was not there");
    const HeaderEntry& entry = entries_[next_++];
    size_t given = 0;
    for (const absl::string_view part : parts) given += part.size();
    if (name != entry.name || dtype != entry.dtype || shape != absl::MakeConstSpan(entry.shape) ||
        given != static_cast<size_t>(entry.end - entry.begin)) {
      return Changed(name, absl::StrCat("was '", entry.name, "', ", DTypeName(entry.dtype),
                                        ShapeString(entry.shape)));
    }
    if (SizeOf(dtype) != element_size_) return absl::OkStatus();
    for (const absl::string_view part : parts) DING_RETURN_IF_ERROR(file_.Append(part));
    return absl::OkStatus();
  }

  absl::Status Finish() const {
    if (next_ == entries_.size()) return absl::OkStatus();
    return Changed(entries_[next_].name, "is not written again");
  }

 private:
  absl::Status Changed(absl::string_view name, absl::string_view how) const {
    return absl::FailedPreconditionError(
        absl::StrCat("the state changed while it was being saved: '", name, "' ", how));
  }

  const std::vector<HeaderEntry>& entries_;
  const int64_t element_size_;
  ChecksummedFile& file_;
  size_t next_ = 0;
};

// The header with its length, padded. Written by hand around the strings, so that the order stays.
absl::StatusOr<std::string> MakeHeader(const std::vector<HeaderEntry>& entries,
                                       const StringMap& metadata) {
  std::string text = "{";
  try {
    absl::StrAppend(&text, "\"", kMetadataKey, "\":", json(metadata).dump());
    for (const HeaderEntry& entry : entries) {
      absl::StrAppend(&text, ",", json(entry.name).dump(), ":{\"dtype\":\"",
                      FormatName(entry.dtype), "\",\"shape\":[", absl::StrJoin(entry.shape, ","),
                      "],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
    }
  } catch (const json::exception&) {  // The library has no other way to say so.
    return absl::InvalidArgumentError("a name or a metadata string is not UTF-8");
  }
  text += "}";
  text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  if (static_cast<int64_t>(text.size()) > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a header of ", text.size(), " bytes for ",
                                                   entries.size(), " tensors is above ",
                                                   kMaxHeaderBytes));
  }
  const uint64_t length = text.size();
  std::string header(reinterpret_cast<const char*>(&length), sizeof(length));
  return header + text;
}

// ------------------------------------------------------------------------------------- reading

// Takes the header as a stream of events, so that nothing is built but what belongs there. The
// first thing that does not belong stops the parse and is the error.
class HeaderHandler : public nlohmann::json_sax<json> {
 public:
  bool start_object(size_t) override {
    switch (place_) {
      case Place::kBegin:
        return Enter(Place::kTop);
      case Place::kTop:
        if (key_ == kMetadataKey) return Enter(Place::kMetadata);
        entry_ = HeaderEntry();
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
      return Fail(absl::StrCat("'", key, "' stands twice"));
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
        entries_.push_back(std::move(entry_));
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
      if (metadata_.emplace(key_, value).second) return true;
      return Fail(absl::StrCat("metadata '", key_, "' stands twice"));
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
    return Fail(absl::StrCat("no JSON at byte ", kLengthBytes + static_cast<int64_t>(position)));
  }

  std::vector<HeaderEntry>& entries() { return entries_; }
  StringMap& metadata() { return metadata_; }
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
  HeaderEntry entry_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  std::vector<int64_t> offsets_;
  std::set<std::string> names_;
  std::vector<HeaderEntry> entries_;
  StringMap metadata_;
  std::string error_;
  bool unknown_dtype_ = false;
};

// The tensors fill [0, data_bytes) without gap or overlap, each as long as its type and shape say.
absl::Status CheckOffsets(const std::vector<HeaderEntry>& entries, int64_t data_bytes) {
  std::vector<const HeaderEntry*> by_offset;
  for (const HeaderEntry& entry : entries) {
    const std::optional<int64_t> size = CheckedByteSize(entry.dtype, entry.shape);
    if (!size.has_value() || entry.end < entry.begin || *size != entry.end - entry.begin) {
      return absl::DataLossError(absl::StrCat("tensor '", entry.name, "', ", DTypeName(entry.dtype),
                                              ShapeString(entry.shape), ", is said to be at bytes ",
                                              entry.begin, " to ", entry.end));
    }
    by_offset.push_back(&entry);
  }
  std::sort(by_offset.begin(), by_offset.end(), [](const HeaderEntry* a, const HeaderEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  int64_t next = 0;
  for (const HeaderEntry* const entry : by_offset) {
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

absl::Status CheckVersion(const StringMap& metadata) {
  const auto version = metadata.find(std::string(kVersionKey));
  if (version == metadata.end()) return absl::OkStatus();
  const auto major = [](absl::string_view text) { return text.substr(0, text.find('.')); };
  if (major(version->second) == major(kSafetensorsVersion)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("has version ", version->second,
                                                    ", this program reads ", kSafetensorsVersion,
                                                    " and others of the same major version"));
}

absl::StatusOr<std::string> ReadHeader(const RandomAccessFile& file) {
  if (file.size_bytes() < kLengthBytes) {
    return absl::DataLossError(absl::StrCat("has only ", file.size_bytes(), " bytes"));
  }
  uint64_t length = 0;
  DING_RETURN_IF_ERROR(
      file.ReadAt(0, absl::MakeSpan(reinterpret_cast<char*>(&length), sizeof(length))));
  const uint64_t room = static_cast<uint64_t>(file.size_bytes() - kLengthBytes);
  if (length > room || length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    return absl::DataLossError(
        absl::StrCat("says that its header has ", length, " bytes; ", room, " follow"));
  }
  std::string header(static_cast<size_t>(length), '\0');
  DING_RETURN_IF_ERROR(file.ReadAt(kLengthBytes, absl::MakeSpan(header)));
  return header;
}

// Compares the checksum of the first `size` bytes with `expected`.
absl::Status CheckCrc(const RandomAccessFile& file, int64_t size, uint32_t expected) {
  constexpr int64_t kPieceBytes = 1 << 18;
  std::string buffer(static_cast<size_t>(std::min(size, kPieceBytes)), '\0');
  uint32_t crc = 0;
  for (int64_t offset = 0; offset < size;) {
    const int64_t count = std::min(size - offset, static_cast<int64_t>(buffer.size()));
    const absl::Span<char> piece = absl::MakeSpan(buffer).first(static_cast<size_t>(count));
    DING_RETURN_IF_ERROR(file.ReadAt(offset, piece));
    crc = Crc32c(absl::string_view(piece.data(), piece.size()), crc);
    offset += count;
  }
  if (crc == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("is corrupted: its checksum is ",
                                          absl::Hex(crc, absl::kZeroPad8), ", expected ",
                                          absl::Hex(expected, absl::kZeroPad8)));
}

}  // namespace

absl::StatusOr<SafetensorsFileInfo> WriteSafetensors(
    const std::string& path, const std::function<absl::Status(StateWriter*)>& save,
    const StringMap& metadata, bool self_checked) {
  const auto here = [&path](const absl::Status& status) {
    return Annotate(status, absl::StrCat("saving '", path, "'"));
  };
  constexpr int64_t kElementSizes[] = {8, 4, 1};
  SafetensorsFileInfo info;
  // The checksum comes last of the last pass, when all else is in the file.
  const auto save_all = [&](StateWriter* writer) -> absl::Status {
    DING_RETURN_IF_ERROR(save(writer));
    if (!self_checked) return absl::OkStatus();
    const uint32_t crc = info.crc32c;
    const absl::string_view bytes(reinterpret_cast<const char*>(&crc), kChecksumBytes);
    return writer->Write(kSafetensorsChecksum, DType::kUint8, {kChecksumBytes}, {bytes});
  };
  MeasuringWriter measure;
  DING_RETURN_IF_ERROR(here(save_all(&measure)));
  const std::vector<HeaderEntry> entries = std::move(measure).LayOut(kElementSizes);

  StringMap all_metadata = metadata;
  all_metadata[std::string(kVersionKey)] = std::string(kSafetensorsVersion);
  absl::StatusOr<std::string> header = MakeHeader(entries, all_metadata);
  if (!header.ok()) return here(header.status());

  DING_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFileWriter> file,
                        AtomicFileWriter::Create(path));
  ChecksummedFile checksummed(file.get(), &info);
  DING_RETURN_IF_ERROR(checksummed.Append(*header));
  for (const int64_t element_size : kElementSizes) {
    const bool occurs = std::any_of(entries.begin(), entries.end(), [&](const HeaderEntry& entry) {
      return SizeOf(entry.dtype) == element_size;
    });
    if (!occurs) continue;
    DataWriter writer(&entries, element_size, &checksummed);
    DING_RETURN_IF_ERROR(here(save_all(&writer)));
    DING_RETURN_IF_ERROR(here(writer.Finish()));
  }
  DING_RETURN_IF_ERROR(file->Commit());
  return info;
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Open(
    const std::string& path, std::optional<uint32_t> expected_crc) {
  const auto here = [&path](const absl::Status& status) {
    return Annotate(status, absl::StrCat("safetensors file '", path, "'"));
  };
  auto reader = absl::WrapUnique(new SafetensorsReader);
  DING_ASSIGN_OR_RETURN(reader->file_, RandomAccessFile::Open(path));
  if (expected_crc.has_value())
    DING_RETURN_IF_ERROR(
        here(CheckCrc(*reader->file_, reader->file_->size_bytes(), *expected_crc)));
  const absl::StatusOr<std::string> header = ReadHeader(*reader->file_);
  if (!header.ok()) return here(header.status());

  HeaderHandler handler;
  if (!json::sax_parse(header->begin(), header->end(), &handler)) {
    const std::string message = absl::StrCat("bad header: ", handler.error());
    return here(handler.unknown_dtype() ? absl::UnimplementedError(message)
                                        : absl::DataLossError(message));
  }
  DING_RETURN_IF_ERROR(here(CheckVersion(handler.metadata())));
  const int64_t data_begin = kLengthBytes + static_cast<int64_t>(header->size());
  DING_RETURN_IF_ERROR(
      here(CheckOffsets(handler.entries(), reader->file_->size_bytes() - data_begin)));

  for (HeaderEntry& entry : handler.entries()) {
    reader->names_.push_back(entry.name);
    reader->entries_.emplace(std::move(entry.name), Entry{{entry.dtype, std::move(entry.shape)},
                                                          data_begin + entry.begin,
                                                          entry.end - entry.begin});
  }
  reader->metadata_ = std::move(handler.metadata());
  return reader;
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::OpenSelfChecked(
    const std::string& path) {
  const auto here = [&path](const absl::Status& status) {
    return Annotate(status, absl::StrCat("safetensors file '", path, "'"));
  };
  DING_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsReader> reader, Open(path));
  const auto entry = reader->entries_.find(kSafetensorsChecksum);
  const int64_t checked = reader->file_->size_bytes() - kChecksumBytes;
  if (entry == reader->entries_.end() || entry->second.begin != checked ||
      entry->second.size != kChecksumBytes) {
    return here(absl::InvalidArgumentError(
        absl::StrCat("has no '", kSafetensorsChecksum, "' of 4 bytes as its last tensor")));
  }
  uint32_t crc = 0;
  DING_RETURN_IF_ERROR(here(reader->Read(
      kSafetensorsChecksum, {absl::Span<char>(reinterpret_cast<char*>(&crc), kChecksumBytes)})));
  DING_RETURN_IF_ERROR(here(CheckCrc(*reader->file_, checked, crc)));
  return reader;
}

absl::StatusOr<const SafetensorsReader::Entry*> SafetensorsReader::Find(
    absl::string_view name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return &found->second;
  return absl::NotFoundError(absl::StrCat("'", file_->path(), "' has no '", name, "'"));
}

absl::StatusOr<TensorInfo> SafetensorsReader::Info(absl::string_view name) const {
  DING_ASSIGN_OR_RETURN(const Entry* const entry, Find(name));
  return entry->info;
}

absl::Status SafetensorsReader::Read(absl::string_view name,
                                     absl::Span<const absl::Span<char>> parts) {
  DING_ASSIGN_OR_RETURN(const Entry* const entry, Find(name));
  size_t asked = 0;
  for (const absl::Span<char> part : parts) asked += part.size();
  if (asked != static_cast<size_t>(entry->size)) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' in '", file_->path(), "' has ",
                                                   entry->size, " bytes, expected ", asked));
  }
  int64_t offset = entry->begin;
  for (const absl::Span<char> part : parts) {
    DING_RETURN_IF_ERROR(file_->ReadAt(offset, part));
    offset += static_cast<int64_t>(part.size());
  }
  return absl::OkStatus();
}

std::vector<std::string> SafetensorsReader::Names() const { return names_; }

}  // namespace ding
