// Makes the items (data/items.h) that announce collected rows: each row, or each sequence of rows,
// becomes an item. The item says where the rows are in the store, and has the columns that a buffer
// needs.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_COLLECTOR_COMM_COLLECTED_ITEMS_H_
#define DING_WORKER_COLLECTOR_COMM_COLLECTED_ITEMS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"

namespace ding {

// Returns the fields of the items for such rows: chunk, row and length, and the columns
// collect_iter and priority if the rows have them.
absl::StatusOr<SpecPtr> ItemsOf(const Spec& rows);

// Returns one item for each sequence of `data`, the content of chunk `chunk`, encoded by
// data/wire.h. By default there is one item for each row. The result is empty if no row is part of
// a sequence.
//
// A sequence begins every `period()` rows of a segment, from its first row on, and does not leave
// the segment. With padding, the rows at the end of a segment that are in no sequence belong to one
// more item, which is shorter; it is left out if all of its rows are burn-in. Without padding,
// these rows are left out.
//
//     segment   a0 a1 a2 a3 a4 a5 a6 a7     length = 4, overlap = 1
//               [---------]
//                        [---------]
//                                 [---      with padding only
//
// With `whole_episodes` each segment is one item, and must end with its episode.
//
// The other columns of an item have the values of its first row.
//   kInvalidArgument  a segment is not a whole episode
absl::StatusOr<std::string> EncodeItems(const SegmentBatch& data, int64_t chunk,
                                        const ItemSequences& sequences = {});

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_COLLECTED_ITEMS_H_
