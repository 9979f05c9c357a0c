// Writing: one pass to measure, and one for each element size, so that no copy of the state is
// made.
#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/safetensors.h"
#include "ding_worker/data/safetensors_header.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

// First pass: what will be written.
class MeasuringWriter : public StateWriter {
 public:
  bool needs_values(DType /*dtype*/) const override { return false; }
  absl::Status Write(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                     absl::Span<const absl::string_view> parts) override {
    if (name == kSafetensorsMetadataKey) {
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
    SafetensorsEntry entry;
    entry.name = std::string(name);
    entry.dtype = dtype;
    entry.shape.assign(shape.begin(), shape.end());
    entry.end = *size;
    entries_.push_back(std::move(entry));
    return absl::OkStatus();
  }

  // The tensors in the order written, laid out in the order of the file.
  std::vector<SafetensorsEntry> LayOut(absl::Span<const int64_t> element_sizes) && {
    int64_t offset = 0;
    for (const int64_t element_size : element_sizes) {
      for (SafetensorsEntry& entry : entries_) {
        if (SizeOf(entry.dtype) != element_size) continue;
        entry.begin = offset;
        offset += entry.end;
        entry.end = offset;
      }
    }
    return std::move(entries_);
  }

 private:
  std::vector<SafetensorsEntry> entries_;
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
  DataWriter(const std::vector<SafetensorsEntry>* entries, int64_t element_size,
             ChecksummedFile* file, std::vector<std::function<void()>>* when_kept)
      : entries_(*entries), element_size_(element_size), file_(*file), when_kept_(*when_kept) {}

  bool needs_values(DType dtype) const override { return SizeOf(dtype) == element_size_; }
  void WhenKept(std::function<void()> kept) override { when_kept_.push_back(std::move(kept)); }

  absl::Status Write(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                     absl::Span<const absl::string_view> parts) override {
    int64_t given = 0;
    for (const absl::string_view part : parts) given += static_cast<int64_t>(part.size());
    DING_RETURN_IF_ERROR(Expect(name, dtype, shape, given));
    if (!needs_values(dtype)) return absl::OkStatus();
    for (const absl::string_view part : parts) DING_RETURN_IF_ERROR(file_.Append(part));
    return absl::OkStatus();
  }

  absl::Status WriteInPieces(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                             Pieces pieces) override {
    const int64_t size = NumElements(shape) * SizeOf(dtype);
    DING_RETURN_IF_ERROR(Expect(name, dtype, shape, size));
    if (!needs_values(dtype)) return absl::OkStatus();
    int64_t left = size;
    DING_RETURN_IF_ERROR(pieces([&](absl::string_view piece) {
      left -= static_cast<int64_t>(piece.size());
      return left < 0 ? absl::OkStatus() : file_.Append(piece);
    }));
    if (left == 0) return absl::OkStatus();
    return Changed(name, left > 0 ? absl::StrCat("lacks ", left, " bytes")
                                  : absl::StrCat("has ", -left, " bytes too many"));
  }

  absl::Status Finish() const {
    if (next_ == entries_.size()) return absl::OkStatus();
    return Changed(entries_[next_].name, "is not written again");
  }

 private:
  // Takes the next tensor for written.
  absl::Status Expect(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                      int64_t given) {
    if (next_ == entries_.size()) return Changed(name, "was not there");
    const SafetensorsEntry& entry = entries_[next_++];
    if (name == entry.name && dtype == entry.dtype && shape == absl::MakeConstSpan(entry.shape) &&
        given == entry.end - entry.begin) {
      return absl::OkStatus();
    }
    return Changed(name, absl::StrCat("was '", entry.name, "', ", DTypeName(entry.dtype),
                                      ShapeString(entry.shape)));
  }
  absl::Status Changed(absl::string_view name, absl::string_view how) const {
    return absl::FailedPreconditionError(
        absl::StrCat("the state changed while it was being saved: '", name, "' ", how));
  }

  const std::vector<SafetensorsEntry>& entries_;
  const int64_t element_size_;
  ChecksummedFile& file_;
  std::vector<std::function<void()>>& when_kept_;
  size_t next_ = 0;
};

}  // namespace

absl::StatusOr<SafetensorsFileInfo> WriteSafetensors(
    const std::string& path, const std::function<absl::Status(StateWriter*)>& save,
    const StringMap& metadata, bool self_checked) {
  std::vector<std::function<void()>> when_kept;
  DING_ASSIGN_OR_RETURN(const SafetensorsFileInfo info,
                        WriteSafetensorsPart(path, save, metadata, self_checked, &when_kept));
  for (const auto& kept : when_kept) kept();
  return info;
}

absl::StatusOr<SafetensorsFileInfo> WriteSafetensorsPart(
    const std::string& path, const std::function<absl::Status(StateWriter*)>& save,
    const StringMap& metadata, bool self_checked, std::vector<std::function<void()>>* when_kept) {
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
    const absl::string_view bytes(reinterpret_cast<const char*>(&crc), kSafetensorsChecksumBytes);
    return writer->Write(kSafetensorsChecksum, DType::kUint8, {kSafetensorsChecksumBytes}, {bytes});
  };
  MeasuringWriter measure;
  DING_RETURN_IF_ERROR(here(save_all(&measure)));
  SafetensorsHeader header{std::move(measure).LayOut(kElementSizes), metadata};
  header.metadata[std::string(kSafetensorsVersionKey)] = std::string(kSafetensorsVersion);
  const absl::StatusOr<std::string> encoded = MakeSafetensorsHeader(header);
  if (!encoded.ok()) return here(encoded.status());

  DING_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFileWriter> file,
                        AtomicFileWriter::Create(path));
  ChecksummedFile checksummed(file.get(), &info);
  std::vector<std::function<void()>> of_pass;
  DING_RETURN_IF_ERROR(checksummed.Append(*encoded));
  for (const int64_t element_size : kElementSizes) {
    const bool occurs = std::any_of(
        header.entries.begin(), header.entries.end(),
        [&](const SafetensorsEntry& entry) { return SizeOf(entry.dtype) == element_size; });
    if (!occurs) continue;
    of_pass.clear();
    DataWriter writer(&header.entries, element_size, &checksummed, &of_pass);
    DING_RETURN_IF_ERROR(here(save_all(&writer)));
    DING_RETURN_IF_ERROR(here(writer.Finish()));
  }
  DING_RETURN_IF_ERROR(file->Commit());
  std::move(of_pass.begin(), of_pass.end(), std::back_inserter(*when_kept));
  return info;
}

}  // namespace ding
