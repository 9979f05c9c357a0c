// Items: rows that refer to data in a store instead of holding them.
//
//     collector ── rows ──► store      chunk 7 [ . . . . . . . . ]
//         │                                          ▲
//         └──── item {chunk 7, row 4, length 2} ─────┘    the coordinator's buffer holds and draws it
//
// A row is an item if it has a field "chunk" and no observation. Its fields:
//
//   chunk   int64  []  number of the chunk in the store
//   row     int64  []  first row in the chunk, at least 0
//   length  int64  []  number of rows, at least 1
//   others             metadata: collect_iter, priority, ...; not "reward", which is in the store
//
// Threads: thread-safe.
//
// Example:
//   DING_ASSIGN_OR_RETURN(const SegmentBatch items, MakeItems(std::move(metadata)));
//   DING_RETURN_IF_ERROR(buffer->Push(items, envstep));
#ifndef DING_WORKER_DATA_ITEMS_H_
#define DING_WORKER_DATA_ITEMS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"

namespace ding {

struct Item {
  int64_t chunk = 0;
  int64_t row = 0;
  int64_t length = 0;
};

inline bool operator==(const Item& a, const Item& b) {
  return a.chunk == b.chunk && a.row == b.row && a.length == b.length;
}

// How rows are cut into items: one item for each sequence of rows. The default is one for each row.
struct ItemSequences {
  // Each episode is one item, of as many rows as the episode has. The other fields then keep their
  // defaults.
  bool whole_episodes = false;
  int64_t length = 1;   // rows of a sequence, burn-in included; at least 1
  int64_t overlap = 0;  // rows that two consecutive sequences share; 0 to length - 1
  // The first rows of a sequence, which only warm up the recurrent state; below length.
  int64_t burn_in = 0;
  // Whether items may be shorter than `length`: padding fills them up when their rows are read.
  bool padding = false;

  // The rows from the beginning of a sequence to the beginning of the next one.
  int64_t period() const { return length - overlap; }
  // Whether an item may have `rows` rows.
  bool Allows(int64_t rows) const {
    return rows == length || (rows >= 1 && (whole_episodes || (padding && rows < length)));
  }
  // How many rows an item may have, for errors: "at most 8 rows".
  std::string AllowedRows() const;
  // Whether each item is one row.
  bool single_rows() const { return length == 1 && !whole_episodes; }
};

// Whether rows of this spec are meant as items, be they valid or not.
bool IsItems(const Spec& rows);

// kInvalidArgument names a field that is missing, has another type, or does not belong to an item.
absl::Status CheckItemFields(const Spec& rows);

// Makes one segment of `rows`, which may come from a peer, to push into a buffer.
//   kInvalidArgument  errors of CheckItemFields, or an item has an impossible row or length; names
//                     it
absl::StatusOr<SegmentBatch> MakeItems(Batch rows);

}  // namespace ding

#endif  // DING_WORKER_DATA_ITEMS_H_
