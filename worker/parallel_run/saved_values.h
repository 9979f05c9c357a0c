// Copies the values of a parallel run's store (chunks and policies) that its journal refers to into
// the run's folder at an orderly end, and back when the run is resumed.
//
// Threads: thread-compatible: no other process of the run may work meanwhile.
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_SAVED_VALUES_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_SAVED_VALUES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/worker/run/run_folder.h"

namespace ding {

// Replaces what was saved in `folder` before. Values that `store` has lost or that are damaged are
// not saved, and neither are those with which the copy would have more than `max_bytes`; both are
// logged. After an error, such as of a full disk, the copy is incomplete and is not read again.
absl::Status SaveValues(const Journal& journal, int64_t max_bytes, Store* store,
                        const RunFolder& folder);

// Copies back the saved values that `store` does not have: all of them after an orderly end, and
// some of them if an earlier copy was interrupted. OK if the run has not come to an orderly end.
absl::Status RestoreValues(const Journal& journal, const RunFolder& folder, Store* store);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_SAVED_VALUES_H_
