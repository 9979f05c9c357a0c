// Announces collected rows: each row, or each sequence of rows, becomes an item that says where it lies,
// with what a buffer wants to know of it.
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

// The fields of items that announce such rows: chunk, row, length, and the columns collect_iter and
// priority of the rows, if they have them.
absl::StatusOr<SpecPtr> ItemsOf(const Spec& rows);

// Returns one item for each sequence of `data`, which is chunk `chunk`, encoded as of data/wire.h; without
// `sequences`, one for each row. An empty string says that no row is part of a sequence.
//
// Sequences begin every `period()` rows of a segment, from its first row on, and do not leave it. With
// padding, the rows of a segment that are in none of these are the end of one more item, which is
// shorter. It is left out if all of its rows are burn-in. Without padding, these rows are left out.
//
//     segment   a0 a1 a2 a3 a4 a5 a6 a7     length = 4, overlap = 1
//               [---------]
//                        [---------]
//                                 [---      with padding only
//
// With `whole_episodes` each segment is one item, which must end with its episode.
//
// The other columns of an item are those of its first row.
//   kInvalidArgument  a segment is no whole episode
absl::StatusOr<std::string> EncodeItems(const SegmentBatch& data, int64_t chunk,
                                        const ItemSequences& sequences = {});

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_COLLECTED_ITEMS_H_
