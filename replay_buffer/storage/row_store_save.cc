#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"
#include "ding_worker/replay_buffer/storage/row_store_state.h"

namespace ding {
namespace {

constexpr int64_t kLinkBytes = sizeof(int32_t);

template <typename T>
absl::string_view BytesAt(const T* data, int64_t bytes) {
  return {reinterpret_cast<const char*>(data), static_cast<size_t>(bytes)};
}

// The rows at one moment. Columns and links to other rows stay where they are, and are pinned.
// Links to slots change when the successor arrives, and `previous` changes when a block is
// released, so these are copied.
struct SavedRows {
  struct Column {
    std::string name;
    DType dtype;
    Shape shape;
    std::vector<absl::string_view> parts;
    // For a field of the rows: each part begins at the field of a block's first row and ends after
    // that of its last. Each row has `row_bytes` bytes, of which the first `field_bytes` are saved.
    // -1: the parts are saved as they are.
    int64_t field_bytes = -1;
    int64_t row_bytes = 0;

    absl::Status Write(StateWriter* writer) const;
  };

  RowPin pin;
  SpecPtr spec;
  int64_t obs_fields = 0;
  int64_t begin_id = 0;
  int64_t rows = 0;
  std::vector<absl::string_view> links;
  std::vector<int32_t> copied_links;
  bool has_stacks = false;
  std::vector<int32_t> previous;  // with stacks
  // The open streams: the distances of their newest rows from begin_id, their ids and next steps.
  std::vector<int64_t> tails;
  std::vector<int64_t> streams;
  std::vector<int64_t> next_steps;
  std::vector<Column> columns;
  RowFilesSnapshot files;  // with a disk tier, whose rows are not among the columns

  absl::Status Write(StateWriter* writer) const {
    DING_RETURN_IF_ERROR(SaveSpec(spec, "spec", writer));
    DING_RETURN_IF_ERROR(writer->WriteInt("obs_fields", obs_fields));
    DING_RETURN_IF_ERROR(writer->WriteInt("begin_id", begin_id));
    DING_RETURN_IF_ERROR(writer->Write("links", DType::kInt32, {rows}, links));
    if (has_stacks) DING_RETURN_IF_ERROR(writer->WriteSpan<int32_t>("previous", previous));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("open_tails", tails));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("open_streams", streams));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("open_next_steps", next_steps));
    if (files.files != nullptr) DING_RETURN_IF_ERROR(files.Write(writer));
    for (const Column& column : columns) DING_RETURN_IF_ERROR(column.Write(writer));
    // Frames may have been read from files.
    return files.files == nullptr ? absl::OkStatus() : files.files->status();
  }
};

absl::Status SavedRows::Column::Write(StateWriter* writer) const {
  if (field_bytes < 0) return writer->Write(name, dtype, shape, parts);
  const auto rows_in = [this](absl::string_view part) {
    return (static_cast<int64_t>(part.size()) - field_bytes) / row_bytes + 1;
  };
  if (field_bytes > kNarrowBytes) {
    std::vector<absl::string_view> values;
    values.reserve(static_cast<size_t>(shape[0]));
    for (const absl::string_view part : parts) {
      for (int64_t row = 0; row < rows_in(part); ++row) {
        values.push_back(part.substr(row * row_bytes, field_bytes));
      }
    }
    return writer->Write(name, dtype, shape, values);
  }
  return writer->WriteInPieces(name, dtype, shape, [&](auto write) {
    const int64_t at_once = kPieceBytes / field_bytes;
    std::vector<std::byte> piece(static_cast<size_t>(at_once * field_bytes));
    for (const absl::string_view part : parts) {
      const auto* const from = reinterpret_cast<const std::byte*>(part.data());
      for (int64_t row = 0; row < rows_in(part); row += at_once) {
        const int64_t rows = std::min(at_once, rows_in(part) - row);
        CopyStrided(from + row * row_bytes, row_bytes, piece.data(), field_bytes, field_bytes,
                    rows);
        DING_RETURN_IF_ERROR(write(BytesAt(piece.data(), rows * field_bytes)));
      }
    }
    return absl::OkStatus();
  });
}

// Fills a SavedRows from the parts of a store.
class RowsSaver {
 public:
  RowsSaver(const LinkedRows& rows, const FrameStore& frames, SavedRows* saved)
      : rows_(rows),
        frames_(frames),
        begin_(rows_.begin_id()),
        end_(rows_.end_id()),
        saved_(saved) {}

  void Save() {
    saved_->spec = rows_.spec();
    saved_->obs_fields = rows_.obs_fields();
    saved_->begin_id = begin_;
    saved_->rows = rows_.size();
    SaveLinks();
    saved_->files = SnapshotRowFiles(rows_);
    if (saved_->files.files == nullptr) SaveColumns();
    SaveFinalObs();
    if (frames_.frames_per_row() > 0) SaveStacks();
  }

 private:
  int32_t SavedLink(int64_t id);
  void CopyLinks(int64_t first, int64_t rows);
  void SaveSparseLinks(int64_t first, int64_t rows);
  void SaveLinks();
  void SaveColumns();
  void SaveFinalObs();
  void SaveStacks();

  const LinkedRows& rows_;
  const FrameStore& frames_;
  const int64_t begin_;
  const int64_t end_;
  SavedRows* const saved_;
  std::vector<RowLocation> final_obs_;  // to which links to slots lead, in row order
};

// Slots are renumbered in the order of their rows, so that evicted rows do not affect the result.
int32_t RowsSaver::SavedLink(int64_t id) {
  const int32_t link = rows_.LinkOf(id);
  if (!RowLink::LeadsToSlot(link)) return link;
  const auto number = static_cast<int32_t>(final_obs_.size());
  final_obs_.push_back(rows_.memory().LocateSlot(RowLink::Slot(link)));
  if (const std::optional<OpenStream> open = rows_.OpenStreamOf(id); open.has_value()) {
    saved_->tails.push_back(id - begin_);
    saved_->streams.push_back(open->stream);
    saved_->next_steps.push_back(open->next_step);
  }
  return RowLink::ToSlot(number, RowLink::End(link));
}

void RowsSaver::CopyLinks(int64_t first, int64_t rows) {
  const int32_t* const to = saved_->copied_links.data() + saved_->copied_links.size();
  for (int64_t id = first; id < first + rows; ++id) saved_->copied_links.push_back(SavedLink(id));
  saved_->links.push_back(BytesAt(to, rows * kLinkBytes));
}

// Copies links to slots one by one; the other links stay where they are.
void RowsSaver::SaveSparseLinks(int64_t first, int64_t rows) {
  const int32_t* const links = rows_.LinksAt(first);
  int64_t left = rows_.SlotsInBlockOf(first);
  for (int64_t at = 0; at < rows; ++at) {
    const int64_t end =
        left == 0 ? rows : std::find_if(links + at, links + rows, RowLink::LeadsToSlot) - links;
    if (end > at) saved_->links.push_back(BytesAt(links + at, (end - at) * kLinkBytes));
    at = end;
    if (at == rows) break;
    CopyLinks(first + at, 1);
    --left;
  }
}

void RowsSaver::SaveLinks() {
  // A part takes as much memory as four links, and each copied link makes two parts.
  const auto is_sparse = [this](int64_t first, int64_t rows) {
    return rows_.SlotsInBlockOf(first) * 8 <= rows;
  };
  int64_t copied = 0;
  rows_.ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
    copied += is_sparse(first, rows) ? rows_.SlotsInBlockOf(first) : rows;
  });
  saved_->copied_links.reserve(static_cast<size_t>(copied));  // Parts point into it.
  rows_.ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
    if (is_sparse(first, rows)) {
      SaveSparseLinks(first, rows);
    } else {
      CopyLinks(first, rows);
    }
  });
}

void RowsSaver::SaveColumns() {
  for (int field = 0; field < rows_.spec()->size(); ++field) {
    const int64_t bytes = rows_.layout().stored_bytes[field];
    const int64_t row_bytes = rows_.layout().row_bytes;
    std::vector<absl::string_view> parts;
    rows_.ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
      parts.push_back(
          BytesAt(rows_.At(rows_.Locate(first), field), (rows - 1) * row_bytes + bytes));
    });
    const FieldSpec& column = rows_.spec()->field(field);
    saved_->columns.push_back({absl::StrCat("rows/", column.name), column.dtype,
                               RowsShape(rows_, field, rows_.size()), std::move(parts), bytes,
                               row_bytes});
  }
}

void RowsSaver::SaveFinalObs() {
  const Spec& spec = *rows_.spec();
  const auto rows = static_cast<int64_t>(final_obs_.size());
  const auto save = [&](int field, const Shape& shape, const auto& at_slot) {
    std::vector<absl::string_view> parts;
    parts.reserve(final_obs_.size());
    for (const RowLocation& slot : final_obs_) {
      parts.push_back(BytesAt(at_slot(slot), spec.row_bytes(field)));
    }
    const FieldSpec& column = spec.field(field);
    saved_->columns.push_back(
        {absl::StrCat("final_obs/", column.name), column.dtype, shape, std::move(parts)});
  };
  for (int field = 0; field < rows_.obs_fields(); ++field) {
    if (rows_.IsStack(field)) continue;
    save(field, ColumnShape(rows, spec.field(field).shape),
         [&](const RowLocation& slot) { return rows_.At(slot, field); });
  }
  for (const RowLayout::Stack& stack : rows_.layout().stacks) {
    save(stack.field, StacksShape(rows, stack.frames.frames(), spec.field(stack.field)),
         [&](const RowLocation& slot) { return frames_.SlotAt(slot, stack); });
  }
}

void RowsSaver::SaveStacks() {
  // The saved bytes must depend only on the valid rows, not on whether the frames of an evicted
  // predecessor are still there or were copied before its block was released.
  const auto frames_per_row = static_cast<size_t>(frames_.frames_per_row());
  saved_->has_stacks = true;
  saved_->previous.reserve(static_cast<size_t>(rows_.size()));
  std::vector<FrameLocation> frames;  // of the rows with slots
  int32_t slots = 0;
  for (int64_t id = begin_; id < end_; ++id) {
    const int32_t previous = rows_.PreviousOf(id);
    if (previous > 0 && id - previous >= begin_) {
      saved_->previous.push_back(previous);
      continue;
    }
    saved_->previous.push_back(~slots++);
    frames.resize(frames.size() + frames_per_row);
    frames_.Locate(id, absl::MakeSpan(frames).last(frames_per_row));
  }
  for (const RowLayout::Stack& stack : rows_.layout().stacks) {
    std::vector<absl::string_view> parts;
    for (size_t row = 0; row < frames.size(); row += frames_per_row) {
      for (int age = stack.frames.frames() - 1; age > 0; --age) {
        parts.push_back(BytesAt(frames_.At(frames[row + static_cast<size_t>(age)], stack),
                                stack.frames.frame_bytes()));
      }
    }
    const FieldSpec& column = rows_.spec()->field(stack.field);
    saved_->columns.push_back({absl::StrCat("older_frames/", column.name), column.dtype,
                               StacksShape(slots, stack.frames.frames() - 1, column),
                               std::move(parts)});
  }
}

}  // namespace

StateSnapshot SnapshotRows(LinkedRows* rows, const FrameStore& frames) {
  const auto saved = std::make_shared<SavedRows>();
  saved->pin = rows->memory().Pin();
  RowsSaver(*rows, frames, saved.get()).Save();
  return [saved](StateWriter* writer) { return saved->Write(writer); };
}

}  // namespace ding
