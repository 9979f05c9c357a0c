#include "ding_worker/data/safetensors.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/safetensors_header.h"

namespace ding {
namespace {

absl::Status CheckVersion(const StringMap& metadata) {
  const auto version = metadata.find(std::string(kSafetensorsVersionKey));
  if (version == metadata.end()) return absl::OkStatus();
  const auto major = [](absl::string_view text) { return text.substr(0, text.find('.')); };
  if (major(version->second) == major(kSafetensorsVersion)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("has version ", version->second,
                                                    ", this program reads ", kSafetensorsVersion,
                                                    " and others of the same major version"));
}

absl::StatusOr<std::string> ReadHeader(const RandomAccessFile& file) {
  if (file.size_bytes() < kSafetensorsLengthBytes) {
    return absl::DataLossError(absl::StrCat("has only ", file.size_bytes(), " bytes"));
  }
  uint64_t length = 0;
  DING_RETURN_IF_ERROR(
      file.ReadAt(0, absl::MakeSpan(reinterpret_cast<char*>(&length), sizeof(length))));
  const uint64_t room = static_cast<uint64_t>(file.size_bytes() - kSafetensorsLengthBytes);
  if (length > room || length > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    return absl::DataLossError(
        absl::StrCat("says that its header has ", length, " bytes; ", room, " follow"));
  }
  std::string header(static_cast<size_t>(length), '\0');
  DING_RETURN_IF_ERROR(file.ReadAt(kSafetensorsLengthBytes, absl::MakeSpan(header)));
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
  const absl::StatusOr<std::string> text = ReadHeader(*reader->file_);
  if (!text.ok()) return here(text.status());
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(*text);
  if (!header.ok()) return here(header.status());
  DING_RETURN_IF_ERROR(here(CheckVersion(header->metadata)));
  const int64_t data_begin = kSafetensorsLengthBytes + static_cast<int64_t>(text->size());
  DING_RETURN_IF_ERROR(
      here(CheckSafetensorsLayout(header->entries, reader->file_->size_bytes() - data_begin)));

  for (SafetensorsEntry& entry : header->entries) {
    reader->names_.push_back(entry.name);
    reader->entries_.emplace(std::move(entry.name), Entry{{entry.dtype, std::move(entry.shape)},
                                                          data_begin + entry.begin,
                                                          entry.end - entry.begin});
  }
  reader->metadata_ = std::move(header->metadata);
  return reader;
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::OpenSelfChecked(
    const std::string& path) {
  const auto here = [&path](const absl::Status& status) {
    return Annotate(status, absl::StrCat("safetensors file '", path, "'"));
  };
  DING_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsReader> reader, Open(path));
  const auto entry = reader->entries_.find(kSafetensorsChecksum);
  const int64_t checked = reader->file_->size_bytes() - kSafetensorsChecksumBytes;
  if (entry == reader->entries_.end() || entry->second.begin != checked ||
      entry->second.size != kSafetensorsChecksumBytes) {
    return here(absl::InvalidArgumentError(
        absl::StrCat("has no '", kSafetensorsChecksum, "' of 4 bytes as its last tensor")));
  }
  uint32_t crc = 0;
  DING_RETURN_IF_ERROR(here(
      reader->Read(kSafetensorsChecksum,
                   {absl::Span<char>(reinterpret_cast<char*>(&crc), kSafetensorsChecksumBytes)})));
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

absl::Status SafetensorsReader::ReadInPieces(absl::string_view name, int64_t piece_bytes,
                                             absl::FunctionRef<void(absl::string_view)> take) {
  DING_ASSIGN_OR_RETURN(const Entry* const entry, Find(name));
  std::string memory(static_cast<size_t>(std::min(piece_bytes, entry->size)), '\0');
  for (int64_t at = 0; at < entry->size; at += piece_bytes) {
    const auto size = static_cast<size_t>(std::min(piece_bytes, entry->size - at));
    const absl::Span<char> piece = absl::MakeSpan(memory).first(size);
    DING_RETURN_IF_ERROR(file_->ReadAt(entry->begin + at, piece));
    take(absl::string_view(piece.data(), size));
  }
  return absl::OkStatus();
}

std::vector<std::string> SafetensorsReader::Names() const { return names_; }

}  // namespace ding
