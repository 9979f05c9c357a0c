// Short forms for tests of AdvancedReplayBuffer: a buffer, rows with given ages and priorities, and
// the columns of a batch as vectors.
//
// Threads: thread-safe.
// Errors:  an invalid argument aborts the test.
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_ADVANCED_BUFFER_TESTING_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_ADVANCED_BUFFER_TESTING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"

namespace ding {

std::unique_ptr<AdvancedReplayBuffer> MakeAdvancedBuffer(
    const AdvancedReplayBuffer::Options& options);

// Returns `rows` rows of stream 0, beginning at `first_step`, as one segment that is cut at its
// end. obs is the step and reward is 1. An empty `collect_iter` or `priority` means that the rows
// have no such column; otherwise there is one value per row.
SegmentBatch TestRows(int64_t first_step, int64_t rows,
                      const std::vector<int64_t>& collect_iter = {},
                      const std::vector<float>& priority = {});

// Returns one row per priority, beginning at step 0, without collect_iter.
SegmentBatch RowsWithPriorities(const std::vector<float>& priority);

// Return a column of a batch; IdsOf() returns replay_unique_id.
std::vector<int64_t> IdsOf(const Batch& batch);
std::vector<int64_t> IntsOf(const Batch& batch, absl::string_view name);
std::vector<float> FloatsOf(const Batch& batch, absl::string_view name);

// Options of a draw that may be larger than the buffer.
SampleOptions WithReplacement();

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_ADVANCED_BUFFER_TESTING_H_
