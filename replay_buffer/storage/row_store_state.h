// Saves and loads the rows of a RowStore: what its parts hold at one moment, as named tensors
// (data/state.h).
//
//   spec, obs_fields                            SavedRowsHeader
//   begin_id                                    id of the oldest row
//   links      int32[rows]                      see LinkedRows; slots are numbered in row order
//   previous   int32[rows]                      see FrameStore; the same, only with stacks
//   open_tails, open_streams, open_next_steps   int64[open streams]
//   rows/<field>          [rows, ...]           only the newest frame of a stack; not of a disk tier
//   files/...                                   of a disk tier, see row_files_state.h
//   final_obs/<field>     [links to slots, ...] all frames of a stack, the oldest first
//   older_frames/<field>  [slots of previous, frames - 1, ...]; only for stacks
//
// The saved bytes depend only on the valid rows and their order, not on rows that were evicted
// before.
//
// Ownership: a snapshot shares the rows by a pin, so it must not outlive them.
// Threads:   the caller holds the owner's lock for SnapshotRows() and LoadRows(), but need not hold
//            it while a snapshot writes.
// Errors:    kInvalidArgument, with found and expected, for anything that SnapshotRows() cannot
//            have written.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_STORE_STATE_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_STORE_STATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/saved_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/storage/frame_store.h"
#include "ding_worker/replay_buffer/storage/linked_rows.h"
#include "ding_worker/replay_buffer/storage/row_files_state.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"

namespace ding {

// Columns of fields with more bytes are not copied: each value is worth a part of its own.
inline constexpr int64_t kNarrowBytes = 256;
// Others are copied in pieces of at most so many bytes, which fit into a cache.
inline constexpr int64_t kPieceBytes = 1 << 17;

// Takes a snapshot of `rows` and of `frames`, which holds the frames of these rows.
StateSnapshot SnapshotRows(LinkedRows* rows, const FrameStore& frames);

// The part of the saved state that is needed to create the store to load into.
struct SavedRowsHeader {
  SpecPtr spec;
  int obs_fields;
  int64_t rows;
  int64_t begin_id;
};
absl::StatusOr<SavedRowsHeader> ReadSavedRowsHeader(StateReader* reader);

// Loads into a new store that has this spec and room for the rows. After an error the store must
// not be used. Files are mapped if they lie in the folder of the store, and else copied.
//   kResourceExhausted    out of memory
//   kNotFound, kDataLoss  no row of the files is left
absl::StatusOr<LostRows> LoadRows(const SavedRowsHeader& header, StateReader* reader,
                                  LinkedRows* rows, FrameStore* frames);

// The shapes of saved columns: [rows, frames, ...shape of a frame of the field]
inline Shape StacksShape(int64_t rows, int64_t frames, const FieldSpec& field) {
  return ColumnShape(rows, ColumnShape(frames, FrameShape(field)));
}
// and [count, ...shape of what a stored row has of the field].
inline Shape RowsShape(const LinkedRows& rows, int field, int64_t count) {
  const FieldSpec& column = rows.spec()->field(field);
  return ColumnShape(count, rows.IsStack(field) ? FrameShape(column) : column.shape);
}

// Returns the elements of the saved tensor `name`, whatever its length.
//   kInvalidArgument  its element type is not T
//   other             the errors of the reader, if there is no such tensor
template <typename T>
absl::StatusOr<std::vector<T>> ReadVector(StateReader* reader, absl::string_view name) {
  DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info(name));
  if (info.dtype != kDTypeOf<T>) {
    // Smaller elements than T could make `values` much larger than what was saved.
    return absl::InvalidArgumentError(absl::StrCat("saved '", name, "' is ", DTypeName(info.dtype),
                                                   ShapeString(info.shape), ", expected ",
                                                   DTypeName(kDTypeOf<T>)));
  }
  std::vector<T> values(static_cast<size_t>(NumElements(info.shape)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<T>(name, absl::MakeSpan(values)));
  return values;
}

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_STORE_STATE_H_
