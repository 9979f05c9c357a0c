// Announces collected rows: each becomes an item that says where it lies, with what a buffer wants
// to know of it.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_COLLECTOR_COMM_COLLECTED_ITEMS_H_
#define DING_WORKER_COLLECTOR_COMM_COLLECTED_ITEMS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"

namespace ding {

// The fields of items that announce such rows: chunk, row, length, and the columns collect_iter and
// priority of the rows, if they have them.
absl::StatusOr<SpecPtr> ItemsOf(const Spec& rows);

// One item of length 1 for each row of `data`, which is chunk `chunk`, encoded as of data/wire.h.
absl::StatusOr<std::string> EncodeItems(const SegmentBatch& data, int64_t chunk);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_COLLECTED_ITEMS_H_
