#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/storage/row_files.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"
#include "ding_worker/replay_buffer/storage/row_store_state.h"

namespace ding {
namespace {

// The largest id that is accepted: no run reaches it, and it is far from overflow.
constexpr int64_t kMaxId = (int64_t{1} << 60) - 1;
constexpr int64_t kLinkBytes = sizeof(int32_t);

template <typename T>
absl::Span<char> WritableAt(T* data, int64_t bytes) {
  return {reinterpret_cast<char*>(data), static_cast<size_t>(bytes)};
}

absl::Status Damaged(absl::string_view what, int64_t found, int64_t low, int64_t high) {
  return absl::InvalidArgumentError(
      absl::StrCat("saved ", what, " is ", found, ", expected ", low, " to ", high));
}

// Fills the parts of a store from what was saved.
class RowsLoader {
 public:
  RowsLoader(StateReader* reader, LinkedRows* rows, FrameStore* frames)
      : reader_(reader), rows_(rows), frames_(frames) {}

  absl::StatusOr<LostRows> Load(const SavedRowsHeader& header);

 private:
  absl::Status CheckRows(int64_t rows, bool in_files) const;
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

absl::StatusOr<LostRows> RowsLoader::Load(const SavedRowsHeader& header) {
  rows_->StartAt(header.begin_id);
  frames_->StartAt(header.begin_id);
  DING_ASSIGN_OR_RETURN(std::optional<SavedRowFiles> files,
                        SavedRowFiles::Read(reader_, header.begin_id, header.rows, rows_));
  // This check comes before memory is reserved for rows as long as the spec says.
  DING_RETURN_IF_ERROR(CheckRows(header.rows, files.has_value()));
  if (files.has_value()) DING_RETURN_IF_ERROR(files->Map());
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
  if (files.has_value()) {
    DING_RETURN_IF_ERROR(files->Copy());
  } else {
    DING_RETURN_IF_ERROR(LoadColumns());
  }
  DING_RETURN_IF_ERROR(LoadFinalObs(slots));
  DING_RETURN_IF_ERROR(LoadOlderFrames(slots, all_slots));
  DING_RETURN_IF_ERROR(LoadOpenStreams());
  LostRows lost;
  if (!files.has_value() || files->lost().why.ok()) return lost;
  lost = files->lost();
  lost.end = frames_->FirstWhole(lost.end);
  if (lost.end < rows_->end_id()) return lost;
  return absl::Status(lost.why.code(), absl::StrCat(lost.why.message(),
                                                    "; no row would be left: load an older save"));
}

absl::Status RowsLoader::CheckRows(int64_t rows, bool in_files) const {
  DING_RETURN_IF_ERROR(CheckSavedColumn(*reader_, "", Scalar("links", DType::kInt32), {rows}));
  if (frames_->frames_per_row() > 0) {
    DING_RETURN_IF_ERROR(CheckSavedColumn(*reader_, "", Scalar("previous", DType::kInt32), {rows}));
  }
  const Spec& spec = *rows_->spec();
  for (int field = 0; field < spec.size() && !in_files; ++field) {
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
    const std::string name = absl::StrCat("rows/", rows_->spec()->field(field).name);
    int64_t id = rows_->begin_id();
    if (bytes > kNarrowBytes) {
      std::vector<absl::Span<char>> parts;
      for (; id < rows_->end_id(); ++id) {
        parts.push_back(WritableAt(rows_->MutableAt(rows_->Locate(id), field), bytes));
      }
      DING_RETURN_IF_ERROR(reader_->Read(name, parts));
      continue;
    }
    const auto copy = [&](absl::string_view piece) {
      const auto* from = reinterpret_cast<const std::byte*>(piece.data());
      const int64_t end = id + static_cast<int64_t>(piece.size()) / bytes;
      rows_->ForEachPiece(id, end, [&](int64_t first, int64_t rows) {
        CopyStrided(from, bytes, rows_->MutableAt(rows_->Locate(first), field),
                    rows_->layout().row_bytes, bytes, rows);
        from += rows * bytes;
      });
      id = end;
    };
    DING_RETURN_IF_ERROR(reader_->ReadInPieces(name, kPieceBytes / bytes * bytes, copy));
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

absl::StatusOr<LostRows> LoadRows(const SavedRowsHeader& header, StateReader* reader,
                                  LinkedRows* rows, FrameStore* frames) {
  if (header.rows > rows->capacity_rows()) {
    return Damaged("number of rows", header.rows, 0, rows->capacity_rows());
  }
  return RowsLoader(reader, rows, frames).Load(header);
}

}  // namespace ding
