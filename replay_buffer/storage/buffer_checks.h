// Checks that all buffers of rows make, with the same error messages.
//
// Threads: thread-safe.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_BUFFER_CHECKS_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_BUFFER_CHECKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_store.h"

namespace ding {

// Adds a sentence for each option that is out of range.
void AppendRingProblems(const RowCapacity& capacity, int64_t nstep, double gamma,
                        std::vector<std::string>* problems);

// Creates a Buffer, for its factory. kInvalidArgument lists the problems of the options and, after
// them, `problems`.
template <typename Buffer>
absl::StatusOr<std::unique_ptr<IBuffer>> CreateBuffer(const typename Buffer::Options& options,
                                                      const std::vector<std::string>& problems) {
  std::vector<std::string> all = Buffer::Problems(options);
  all.insert(all.end(), problems.begin(), problems.end());
  DING_RETURN_IF_ERROR(ProblemsToStatus(all, options.name));
  return Buffer::Create(options);
}

// Returns kInvalidArgument if no buffer can draw what is requested.
absl::Status CheckSampleRequest(int64_t size, const SampleOptions& options);
// "[2, 5)"; for messages.
std::string AgeRangeText(const AgeRange& range);

// Returns kInvalidArgument, with found and expected, if a buffer of another type saved the state.
// The check is needed because the state of one type may contain everything that another type reads.
absl::Status CheckSavedType(StateReader* reader, absl::string_view expected);
// Returns kInvalidArgument, with found and expected, if the saved number `name` is another.
absl::Status CheckSavedInt(StateReader* reader, absl::string_view name, int64_t expected);
// Returns kFailedPrecondition, with found and expected, if the saved "version" is another.
absl::Status CheckSavedVersion(StateReader* reader, int64_t expected);
absl::Status SaveCapacity(const RowCapacity& capacity, StateWriter* writer);
// Returns kInvalidArgument, with found and expected, if another capacity was saved.
absl::Status CheckSavedCapacity(StateReader* reader, const RowCapacity& expected);
// Returns kInvalidArgument if the rows of `found`, which was just loaded, have other fields than
// those of `expected`.
absl::Status CheckSameRows(const RowStore& expected, const RowStore& found);
// Returns kInvalidArgument if the rows of `store` cannot result from `push_count` pushed rows. A
// null `store` has no rows.
absl::Status CheckPushCount(int64_t push_count, const RowStore* store);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_BUFFER_CHECKS_H_
