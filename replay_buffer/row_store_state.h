// Saves and loads the rows of a RowStore: what its parts hold at one moment, as named tensors
// (data/state.h).
//
//   spec, obs_fields                            SavedRowsHeader
//   begin_id                                    id of the oldest row
//   links      int32[rows]                      of LinkedRows, slots numbered in the order of the rows
//   previous   int32[rows]                      of FrameStore, in the same way; with stacks only
//   open_tails, open_streams, open_next_steps   int64[streams that go on]
//   rows/<field>          [rows, ...]           of a stack the newest frame
//   final_obs/<field>     [links to slots, ...] of a stack all frames, the oldest first
//   older_frames/<field>  [slots of previous, frames - 1, ...]; stacks only
//
// What is saved depends on the valid rows alone: the same rows in the same order give the same bytes,
// whatever was evicted before them.
//
// Ownership: a snapshot shares the rows by a pin, so it must not outlive them.
// Threads:   the owner's lock is held for SnapshotRows() and LoadRows(), not while a snapshot writes.
// Errors:    kInvalidArgument, with found and expected, for anything that SnapshotRows() cannot have
//            written.
#ifndef DING_WORKER_REPLAY_BUFFER_ROW_STORE_STATE_H_
#define DING_WORKER_REPLAY_BUFFER_ROW_STORE_STATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/frame_store.h"
#include "ding_worker/replay_buffer/linked_rows.h"

namespace ding {

// `frames` are those of `rows`.
StateSnapshot SnapshotRows(LinkedRows* rows, const FrameStore& frames);

// What is to be known before there is a store to load into.
struct SavedRowsHeader {
  SpecPtr spec;
  int obs_fields;
  int64_t rows;
  int64_t begin_id;
};
absl::StatusOr<SavedRowsHeader> ReadSavedRowsHeader(StateReader* reader);

// Loads into a new store with this spec, and room for the rows. After an error it must not be used.
//   kResourceExhausted  out of memory
absl::Status LoadRows(const SavedRowsHeader& header, StateReader* reader, LinkedRows* rows,
                      FrameStore* frames);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_ROW_STORE_STATE_H_
