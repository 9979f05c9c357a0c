#include "ding_worker/replay_buffer/storage/row_files_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"

namespace ding {
namespace {

constexpr char kFolder[] = "files/folder";
constexpr char kRows[] = "files/rows";
constexpr char kNumbers[] = "files/numbers";
constexpr char kChecksums[] = "files/checksums";

}  // namespace

absl::Status RowFilesSnapshot::Write(StateWriter* writer) const {
  std::vector<RowFiles::Saved> written(static_cast<size_t>(count));
  // Numbers and checksums are int64. Whoever does not write these must not wait for the disk.
  if (writer->needs_values(DType::kInt64)) {
    DING_ASSIGN_OR_RETURN(written, files->Write(save.get()));
  }
  std::vector<int64_t> numbers;
  std::vector<int64_t> checksums;
  for (const RowFiles::Saved& file : written) {
    numbers.push_back(file.number);
    checksums.push_back(file.crc32c);
  }
  DING_RETURN_IF_ERROR(writer->WriteString(kFolder, files->folder()));
  DING_RETURN_IF_ERROR(writer->WriteInt(kRows, rows_per_file));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>(kNumbers, numbers));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>(kChecksums, checksums));
  writer->WhenKept([files = files, save = save] { files->Keep(*save); });
  return absl::OkStatus();
}

RowFilesSnapshot SnapshotRowFiles(const LinkedRows& rows) {
  RowFilesSnapshot snapshot;
  if (rows.memory().files() == nullptr) return snapshot;
  snapshot.files = rows.memory().files()->shared_from_this();
  snapshot.rows_per_file = rows.rows_per_block();
  std::vector<RowFiles::Part> parts;
  rows.ForEachPiece(rows.begin_id(), rows.end_id(), [&](int64_t first, int64_t count) {
    const int64_t rows_of_file = first % snapshot.rows_per_file + count;
    parts.push_back({rows.BlockOf(first), rows_of_file * rows.layout().row_bytes});
  });
  snapshot.count = static_cast<int64_t>(parts.size());
  snapshot.save = snapshot.files->BeginSave(std::move(parts));
  return snapshot;
}

absl::StatusOr<std::optional<SavedRowFiles>> SavedRowFiles::Read(StateReader* reader,
                                                                 int64_t begin_id, int64_t size,
                                                                 LinkedRows* rows) {
  const absl::StatusOr<TensorInfo> info = reader->Info(kNumbers);
  if (!info.ok()) return std::nullopt;
  SavedRowFiles saved(rows);
  DING_ASSIGN_OR_RETURN(saved.folder_, reader->ReadString(kFolder));
  DING_ASSIGN_OR_RETURN(saved.rows_per_file_, reader->ReadInt(kRows));
  if (saved.rows_per_file_ < 1 || saved.rows_per_file_ > kMaxCapacityRows) {
    return absl::InvalidArgumentError(absl::StrCat("saved ", kRows, " is ", saved.rows_per_file_,
                                                   ", expected 1 to ", kMaxCapacityRows));
  }
  saved.first_row_ = begin_id - begin_id % saved.rows_per_file_;
  const int64_t all_rows = begin_id - saved.first_row_ + size;
  const int64_t count = size == 0 ? 0 : (all_rows - 1) / saved.rows_per_file_ + 1;
  if (NumElements(info->shape) != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("saved rows lie in ", NumElements(info->shape), " files, expected ", count));
  }
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::vector<int64_t> checksums(static_cast<size_t>(count));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>(kNumbers, absl::MakeSpan(numbers)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>(kChecksums, absl::MakeSpan(checksums)));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rows_of_file =
        std::min(saved.rows_per_file_, all_rows - i * saved.rows_per_file_);
    saved.files_.push_back(
        {numbers[i], rows_of_file * rows->layout().row_bytes, static_cast<uint32_t>(checksums[i])});
  }
  return saved;
}

// Reads a file. The run folder may have been moved or copied since, so the folder of this store
// comes first; the checksum tells whether it is the file that was saved.
absl::StatusOr<std::string> SavedRowFiles::ReadFile(size_t index) const {
  const RowFiles* const own = rows_->memory().files();
  if (own == nullptr) return ReadRowFile(folder_, files_[index]);
  absl::StatusOr<std::string> rows = ReadRowFile(own->folder(), files_[index]);
  if (rows.ok() || folder_ == own->folder()) return rows;
  absl::StatusOr<std::string> elsewhere = ReadRowFile(folder_, files_[index]);
  return elsewhere.ok() ? std::move(elsewhere) : std::move(rows);
}

absl::Status SavedRowFiles::Map() {
  RowFiles* const own = rows_->memory().files();
  is_mapped_ = own != nullptr && rows_per_file_ == rows_->rows_per_block();
  if (!is_mapped_) return absl::OkStatus();
  std::vector<RowFiles::Block> blocks;
  for (size_t i = 0; i < files_.size(); ++i) {
    absl::StatusOr<RowFiles::Block> block = MapFile(i);
    if (!block.ok()) {
      DING_RETURN_IF_ERROR(NoteLost(i, block.status()));
      block = own->New(rows_->memory().file_sizes());
      DING_RETURN_IF_ERROR(block.status());
    }
    blocks.push_back(*std::move(block));
  }
  rows_->memory().AddLoaded(std::move(blocks));
  return absl::OkStatus();
}

absl::StatusOr<RowFiles::Block> SavedRowFiles::MapFile(size_t index) {
  RowFiles* const own = rows_->memory().files();
  const RowFiles::Sizes sizes = rows_->memory().file_sizes();
  // The last file goes on in a copy, if it is not full: what was saved does not change.
  if (files_[index].bytes == rows_per_file_ * rows_->layout().row_bytes) {
    absl::StatusOr<RowFiles::Block> block = own->Load(files_[index], sizes);
    if (block.ok() || folder_ == own->folder()) return block;
  }
  DING_ASSIGN_OR_RETURN(const std::string rows, ReadFile(index));
  DING_ASSIGN_OR_RETURN(RowFiles::Block block, own->New(sizes));
  std::copy_n(rows.data(), rows.size(), reinterpret_cast<char*>(block.get()));
  return block;
}

absl::Status SavedRowFiles::Copy() {
  if (is_mapped_) return absl::OkStatus();
  const int64_t row_bytes = rows_->layout().row_bytes;
  for (size_t i = 0; i < files_.size(); ++i) {
    const absl::StatusOr<std::string> read = ReadFile(i);
    if (!read.ok()) DING_RETURN_IF_ERROR(NoteLost(i, read.status()));
    const int64_t file_begin = first_row_ + static_cast<int64_t>(i) * rows_per_file_;
    const int64_t begin = std::max(file_begin, rows_->begin_id());
    const int64_t end = std::min(file_begin + rows_per_file_, rows_->end_id());
    rows_->ForEachPiece(begin, end, [&](int64_t first, int64_t rows) {
      auto* const to = reinterpret_cast<char*>(const_cast<std::byte*>(rows_->Locate(first).at));
      if (read.ok()) {
        std::copy_n(read->data() + (first - file_begin) * row_bytes, rows * row_bytes, to);
      } else {
        std::fill_n(to, rows * row_bytes, 0);
      }
    });
  }
  return absl::OkStatus();
}

// Notes that a file is missing or damaged. Another error, such as a folder that must not be read,
// may pass: it is returned.
absl::Status SavedRowFiles::NoteLost(size_t index, const absl::Status& why) {
  if (!absl::IsNotFound(why) && !absl::IsDataLoss(why)) return why;
  lost_.end = first_row_ + (static_cast<int64_t>(index) + 1) * rows_per_file_;
  lost_.why.Update(why);
  return absl::OkStatus();
}

}  // namespace ding
