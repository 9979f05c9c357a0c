// Checks that all buffers of rows make, in the same words.
//
// Threads: thread-safe.
#ifndef DING_WORKER_REPLAY_BUFFER_BUFFER_CHECKS_H_
#define DING_WORKER_REPLAY_BUFFER_BUFFER_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/row_layout.h"
#include "ding_worker/replay_buffer/row_store.h"

namespace ding {

// Adds a sentence for each option that is out of range.
void AppendRingProblems(const RowCapacity& capacity, int64_t nstep, double gamma,
                        std::vector<std::string>* problems);

// kInvalidArgument with all problems, if there are any.
absl::Status BufferProblemsToStatus(absl::string_view name,
                                    const std::vector<std::string>& problems);

// kInvalidArgument if no buffer can draw that.
absl::Status CheckSampleRequest(int64_t size, const SampleOptions& options);

// kInvalidArgument, with found and expected, if the saved state is not of this type of buffer: what
// one type has saved may well have all that another reads.
absl::Status CheckSavedType(StateReader* reader, absl::string_view expected);
// kInvalidArgument, with found and expected, if the next saved number is another.
absl::Status CheckSavedInt(StateReader* reader, absl::string_view name, int64_t expected);
// kFailedPrecondition, with both, if "version" is another one.
absl::Status CheckSavedVersion(StateReader* reader, int64_t expected);
absl::Status SaveCapacity(const RowCapacity& capacity, StateWriter* writer);
// kInvalidArgument, with found and expected, if another capacity was saved.
absl::Status CheckSavedCapacity(StateReader* reader, const RowCapacity& expected);
// kInvalidArgument if `found`, just loaded, has rows of other fields than `expected`.
absl::Status CheckSameRows(const RowStore& expected, const RowStore& found);
// kInvalidArgument if that many rows cannot have been pushed. `store` null: no rows.
absl::Status CheckPushCount(int64_t push_count, const RowStore* store);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_CHECKS_H_
