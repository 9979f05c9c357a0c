#include "ding_worker/replay_buffer/storage/row_store_state.h"

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
#include "ding_worker/data/saved_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"

namespace ding {
namespace {

// The largest id that is accepted: no run reaches it, and it is far from overflow.
constexpr int64_t kMaxId = (int64_t{1} << 60) - 1;
constexpr int64_t kLinkBytes = sizeof(int32_t);
// Columns of fields with more bytes are not copied: each value is worth a part of its own.
constexpr int64_t kNarrowBytes = 256;

template <typename T>
absl::string_view BytesAt(const T* data, int64_t bytes) {
  return {reinterpret_cast<const char*>(data), static_cast<size_t>(bytes)};
}

template <typename T>
absl::Span<char> WritableAt(T* data, int64_t bytes) {
  return {reinterpret_cast<char*>(data), static_cast<size_t>(bytes)};
}

// [rows, frames, ...shape of a frame of the field]
Shape StacksShape(int64_t rows, int64_t frames, const FieldSpec& field) {
  return ColumnShape(rows, ColumnShape(frames, FrameShape(field)));
}

// [count, ...shape of what a stored row has of the field]
Shape RowsShape(const LinkedRows& rows, int field, int64_t count) {
  const FieldSpec& column = rows.spec()->field(field);
  return ColumnShape(count, rows.IsStack(field) ? FrameShape(column) : column.shape);
}

absl::Status Damaged(absl::string_view what, int64_t found, int64_t low, int64_t high) {
  return absl::InvalidArgumentError(
      absl::StrCat("saved ", what, " is ", found, ", expected ", low, " to ", high));
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

    // `copied` is memory for a column of narrow values, which a later column uses again.
    absl::Status Write(StateWriter* writer, std::vector<std::byte>* copied) const;
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

  absl::Status Write(StateWriter* writer) const {
    DING_RETURN_IF_ERROR(SaveSpec(spec, "spec", writer));
    DING_RETURN_IF_ERROR(writer->WriteInt("obs_fields", obs_fields));
    DING_RETURN_IF_ERROR(writer->WriteInt("begin_id", begin_id));
    DING_RETURN_IF_ERROR(writer->Write("links", DType::kInt32, {rows}, links));
    if (has_stacks) DING_RETURN_IF_ERROR(writer->WriteSpan<int32_t>("previous", previous));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("open_tails", tails));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("open_streams", streams));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("open_next_steps", next_steps));
    std::vector<std::byte> copied;
    for (const Column& column : columns) {
      DING_RETURN_IF_ERROR(column.Write(writer, &copied));
    }
    return absl::OkStatus();
  }
};

absl::Status SavedRows::Column::Write(StateWriter* writer, std::vector<std::byte>* copied) const {
  if (field_bytes < 0) return writer->Write(name, dtype, shape, parts);
  const auto rows_in = [this](absl::string_view part) {
    return (static_cast<int64_t>(part.size()) - field_bytes) / row_bytes + 1;
  };
  int64_t rows = 0;
  for (const absl::string_view part : parts) rows += rows_in(part);
  if (field_bytes > kNarrowBytes) {
    std::vector<absl::string_view> values;
    values.reserve(static_cast<size_t>(rows));
    for (const absl::string_view part : parts) {
      for (int64_t row = 0; row < rows_in(part); ++row) {
        values.push_back(part.substr(row * row_bytes, field_bytes));
      }
    }
    return writer->Write(name, dtype, shape, values);
  }
  if (static_cast<int64_t>(copied->size()) < rows * field_bytes) {
    copied->resize(static_cast<size_t>(rows * field_bytes));
  }
  std::byte* to = copied->data();
  for (const absl::string_view part : parts) {
    CopyStrided(reinterpret_cast<const std::byte*>(part.data()), row_bytes, to, field_bytes,
                field_bytes, rows_in(part));
    to += rows_in(part) * field_bytes;
  }
  return writer->Write(name, dtype, shape, {BytesAt(copied->data(), rows * field_bytes)});
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
    SaveColumns();
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

// Fills the parts of a store from what was saved.
class RowsLoader {
 public:
  RowsLoader(StateReader* reader, LinkedRows* rows, FrameStore* frames)
      : reader_(reader), rows_(rows), frames_(frames) {}

  absl::Status Load(const SavedRowsHeader& header);

 private:
  absl::Status CheckRows(int64_t rows) const;
  absl::Status CheckSlots(int64_t final_obs, int64_t older_frames) const;
  absl::Status ReadNumbers(absl::string_view name, int32_t* (LinkedRows::*at)(int64_t));
  absl::Status LoadColumns();
  absl::Status LoadFinalObs(int32_t slots);
  absl::Status LoadOlderFrames(int32_t first_slot, int32_t end_slot);
  absl::Status LoadOpenStreams();

  StateReader* const reader_;
  LinkedRows* const rows_;
  FrameStore* const frames_;
};

absl::Status RowsLoader::Load(const SavedRowsHeader& header) {
  rows_->StartAt(header.begin_id);
  frames_->StartAt(header.begin_id);
  // This check comes before memory is reserved for rows as long as the spec says.
  DING_RETURN_IF_ERROR(CheckRows(header.rows));
  if (header.rows > 0) {
    DING_RETURN_IF_ERROR(rows_->Reserve(header.begin_id, header.rows, /*slots=*/0));
    rows_->AppendUnfilled(header.rows);
  }
  DING_RETURN_IF_ERROR(ReadNumbers("links", &LinkedRows::MutableLinksAt));
  DING_ASSIGN_OR_RETURN(const int32_t slots, rows_->AdoptLinks());
  int32_t all_slots = slots;
  if (frames_->frames_per_row() > 0) {
    DING_RETURN_IF_ERROR(ReadNumbers("previous", &LinkedRows::MutablePreviousAt));
    DING_ASSIGN_OR_RETURN(all_slots, frames_->AdoptPrevious(slots));
  }
  DING_RETURN_IF_ERROR(CheckSlots(slots, all_slots - slots));
  DING_RETURN_IF_ERROR(rows_->TakeFirstSlots(all_slots));
  DING_RETURN_IF_ERROR(LoadColumns());
  DING_RETURN_IF_ERROR(LoadFinalObs(slots));
  DING_RETURN_IF_ERROR(LoadOlderFrames(slots, all_slots));
  return LoadOpenStreams();
}

absl::Status RowsLoader::CheckRows(int64_t rows) const {
  DING_RETURN_IF_ERROR(CheckSavedColumn(*reader_, "", Scalar("links", DType::kInt32), {rows}));
  if (frames_->frames_per_row() > 0) {
    DING_RETURN_IF_ERROR(CheckSavedColumn(*reader_, "", Scalar("previous", DType::kInt32), {rows}));
  }
  const Spec& spec = *rows_->spec();
  for (int field = 0; field < spec.size(); ++field) {
    DING_RETURN_IF_ERROR(
        CheckSavedColumn(*reader_, "rows/", spec.field(field), RowsShape(*rows_, field, rows)));
  }
  return absl::OkStatus();
}

absl::Status RowsLoader::CheckSlots(int64_t final_obs, int64_t older_frames) const {
  const Spec& spec = *rows_->spec();
  for (int field = 0; field < rows_->obs_fields(); ++field) {
    if (rows_->IsStack(field)) continue;
    const FieldSpec& column = spec.field(field);
    DING_RETURN_IF_ERROR(
        CheckSavedColumn(*reader_, "final_obs/", column, ColumnShape(final_obs, column.shape)));
  }
  for (const RowLayout::Stack& stack : rows_->layout().stacks) {
    const FieldSpec& column = spec.field(stack.field);
    const int frames = stack.frames.frames();
    DING_RETURN_IF_ERROR(
        CheckSavedColumn(*reader_, "final_obs/", column, StacksShape(final_obs, frames, column)));
    DING_RETURN_IF_ERROR(CheckSavedColumn(*reader_, "older_frames/", column,
                                          StacksShape(older_frames, frames - 1, column)));
  }
  return absl::OkStatus();
}

// Reads tensor `name`, one number per row, into the column of the rows that `at` locates.
absl::Status RowsLoader::ReadNumbers(absl::string_view name, int32_t* (LinkedRows::*at)(int64_t)) {
  std::vector<absl::Span<char>> parts;
  rows_->ForEachPiece(rows_->begin_id(), rows_->end_id(), [&](int64_t first, int64_t rows) {
    parts.push_back(WritableAt((rows_->*at)(first), rows * kLinkBytes));
  });
  return reader_->Read(name, parts);
}

absl::Status RowsLoader::LoadColumns() {
  for (int field = 0; field < rows_->spec()->size(); ++field) {
    const int64_t bytes = rows_->layout().stored_bytes[field];
    const bool narrow = bytes <= kNarrowBytes;
    std::string copied(narrow ? static_cast<size_t>(rows_->size() * bytes) : 0, 0);
    std::vector<absl::Span<char>> parts;
    if (narrow) parts.push_back(absl::MakeSpan(copied));
    for (int64_t id = rows_->begin_id(); !narrow && id < rows_->end_id(); ++id) {
      parts.push_back(WritableAt(rows_->MutableAt(rows_->Locate(id), field), bytes));
    }
    DING_RETURN_IF_ERROR(
        reader_->Read(absl::StrCat("rows/", rows_->spec()->field(field).name), parts));
    const auto* from = reinterpret_cast<const std::byte*>(copied.data());
    rows_->ForEachPiece(rows_->begin_id(), rows_->end_id(), [&](int64_t first, int64_t rows) {
      if (!narrow) return;
      CopyStrided(from, bytes, rows_->MutableAt(rows_->Locate(first), field),
                  rows_->layout().row_bytes, bytes, rows);
      from += rows * bytes;
    });
  }
  return absl::OkStatus();
}

absl::Status RowsLoader::LoadFinalObs(int32_t slots) {
  const Spec& spec = *rows_->spec();
  const auto load = [&](int field, const auto& at_slot) {
    std::vector<absl::Span<char>> parts;
    parts.reserve(static_cast<size_t>(slots));
    for (int32_t slot = 0; slot < slots; ++slot) {
      parts.push_back(WritableAt(at_slot(rows_->memory().LocateSlot(slot)), spec.row_bytes(field)));
    }
    return reader_->Read(absl::StrCat("final_obs/", spec.field(field).name), parts);
  };
  for (int field = 0; field < rows_->obs_fields(); ++field) {
    if (rows_->IsStack(field)) continue;
    DING_RETURN_IF_ERROR(
        load(field, [&](const RowLocation& slot) { return rows_->MutableAt(slot, field); }));
  }
  for (const RowLayout::Stack& stack : rows_->layout().stacks) {
    DING_RETURN_IF_ERROR(
        load(stack.field, [&](const RowLocation& slot) { return frames_->SlotAt(slot, stack); }));
  }
  return absl::OkStatus();
}

absl::Status RowsLoader::LoadOlderFrames(int32_t first_slot, int32_t end_slot) {
  for (const RowLayout::Stack& stack : rows_->layout().stacks) {
    const int64_t bytes = (stack.frames.frames() - 1) * stack.frames.frame_bytes();
    std::vector<absl::Span<char>> parts;
    for (int32_t slot = first_slot; slot < end_slot; ++slot) {
      parts.push_back(WritableAt(frames_->SlotAt(rows_->memory().LocateSlot(slot), stack), bytes));
    }
    DING_RETURN_IF_ERROR(reader_->Read(
        absl::StrCat("older_frames/", rows_->spec()->field(stack.field).name), parts));
  }
  return absl::OkStatus();
}

absl::Status RowsLoader::LoadOpenStreams() {
  DING_ASSIGN_OR_RETURN(const auto tails, ReadVector<int64_t>(reader_, "open_tails"));
  std::vector<int64_t> streams(tails.size());
  std::vector<int64_t> next_steps(tails.size());
  DING_RETURN_IF_ERROR(reader_->ReadSpan<int64_t>("open_streams", absl::MakeSpan(streams)));
  DING_RETURN_IF_ERROR(reader_->ReadSpan<int64_t>("open_next_steps", absl::MakeSpan(next_steps)));
  for (size_t i = 0; i < tails.size(); ++i) {
    if (tails[i] < 0 || tails[i] >= rows_->size()) {
      return Damaged("open tail", tails[i], 0, rows_->size() - 1);
    }
    // A row is the newest row of at most one stream.
    const bool is_first = i == 0 || tails[i] > tails[i - 1];
    if (!is_first ||
        !rows_->AdoptOpenStream(rows_->begin_id() + tails[i], {streams[i], next_steps[i]})) {
      return absl::InvalidArgumentError(
          absl::StrCat("saved row ", tails[i], " cannot be the newest of stream ", streams[i]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

StateSnapshot SnapshotRows(LinkedRows* rows, const FrameStore& frames) {
  const auto saved = std::make_shared<SavedRows>();
  saved->pin = rows->memory().Pin();
  RowsSaver(*rows, frames, saved.get()).Save();
  return [saved](StateWriter* writer) { return saved->Write(writer); };
}

absl::StatusOr<SavedRowsHeader> ReadSavedRowsHeader(StateReader* reader) {
  SavedRowsHeader header;
  DING_ASSIGN_OR_RETURN(header.spec, LoadSpec("spec", reader));
  DING_ASSIGN_OR_RETURN(const int64_t obs_fields, reader->ReadInt("obs_fields"));
  if (obs_fields < 0 || obs_fields > header.spec->size()) {
    return Damaged("obs_fields", obs_fields, 0, header.spec->size());
  }
  header.obs_fields = static_cast<int>(obs_fields);
  DING_ASSIGN_OR_RETURN(const TensorInfo links, reader->Info("links"));
  header.rows = NumElements(links.shape);
  DING_ASSIGN_OR_RETURN(header.begin_id, reader->ReadInt("begin_id"));
  if (header.begin_id < 0 || header.begin_id > kMaxId) {
    return Damaged("begin_id", header.begin_id, 0, kMaxId);
  }
  return header;
}

absl::Status LoadRows(const SavedRowsHeader& header, StateReader* reader, LinkedRows* rows,
                      FrameStore* frames) {
  if (header.rows > rows->capacity_rows()) {
    return Damaged("number of rows", header.rows, 0, rows->capacity_rows());
  }
  return RowsLoader(reader, rows, frames).Load(header);
}

}  // namespace ding
