// Items: rows that say where data lie instead of holding them.
//
//     collector ── rows ──► store      chunk 7 [ . . . . . . . . ]
//         │                                          ▲
//         └──── item {chunk 7, row 4, length 2} ─────┘    what a coordinator's buffer holds and draws
//
// A row is an item if it has a field "chunk" and no observation. Its fields:
//
//   chunk   int64  []  of the store
//   row     int64  []  first row in the chunk, at least 0
//   length  int64  []  rows, at least 1
//   others             what is known of the data without reading them: collect_iter, priority, ...;
//                      not "reward", which lies with the data
//
// Threads: thread-safe.
//
// Example:
//   DING_ASSIGN_OR_RETURN(const SegmentBatch items, MakeItems(std::move(metadata)));
//   DING_RETURN_IF_ERROR(buffer->Push(items, envstep));
#ifndef DING_WORKER_DATA_ITEMS_H_
#define DING_WORKER_DATA_ITEMS_H_

#include <cstdint>

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

// Whether such rows are items, right or wrong ones.
bool IsItems(const Spec& rows);

// kInvalidArgument names the field that is missing, of another type, or not one of an item.
absl::Status CheckItemFields(const Spec& rows);

// `rows`, which came from a peer, as what a buffer is pushed: one run of rows, without observations.
//   kInvalidArgument  errors of CheckItemFields, or an item cannot be: says which
absl::StatusOr<SegmentBatch> MakeItems(Batch rows);

}  // namespace ding

#endif  // DING_WORKER_DATA_ITEMS_H_
