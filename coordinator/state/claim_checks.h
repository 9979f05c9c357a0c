// Checks whether a claim of a worker can be true, given the time that has passed and the state of the
// run. Checks that need only the message are in interaction/control/message_checks.h; docs/security.md has
// the table of all fields.
//
// Threads: thread-safe (pure functions).
// Errors:  kInvalidArgument says what was claimed and what was expected.
#ifndef DING_WORKER_COORDINATOR_STATE_CLAIM_CHECKS_H_
#define DING_WORKER_COORDINATOR_STATE_CLAIM_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Checks that a task which has run for `elapsed` claims no more env steps, rows or train iterations than any
// worker makes in that time.
absl::Status CheckPace(const std::string& task_id, int64_t steps, absl::Duration elapsed);

// Checks the train iteration at which a task begins. The task goes on from the checkpoint of its predecessor,
// which was last known to be at iteration `known`. The run has taken `run_elapsed`.
absl::Status CheckFirstIter(const std::string& task_id, int64_t iter, int64_t known,
                            absl::Duration run_elapsed);

// Checks that announced items have the columns of `expected`, and that each has as many rows as `sequences`
// says. An item that is an episode may have any number.
absl::Status CheckItemLayout(const Spec& expected, const ItemSequences& sequences,
                             const SegmentBatch& items);

// Checks the train iterations at which rows were collected, if the items have them: none may be beyond
// `newest`, the highest one of a published policy.
absl::Status CheckCollectIters(const SegmentBatch& items, int64_t newest);

// Checks that the version by which a finished task was played was published.
absl::Status CheckPlayedVersion(const CollectorTask& task, const CollectorFinished& info,
                                uint64_t newest_version, int64_t newest_iter);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_CLAIM_CHECKS_H_
