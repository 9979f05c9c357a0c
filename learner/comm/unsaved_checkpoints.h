// Notes in the store which learners could not save their last checkpoints: the disk may be full,
// and the coordinator takes no messages of tasks that are over.
//
//   learner ── NoteLastCheckpoint() ──► store: unsaved/<policy> ──► TakeUnsaved() ── coordinator, when all workers have left
//
// Threads: thread-safe (functions without state).
#ifndef DING_WORKER_LEARNER_COMM_UNSAVED_CHECKPOINTS_H_
#define DING_WORKER_LEARNER_COMM_UNSAVED_CHECKPOINTS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

// Notes whether the last checkpoint of a policy's learner is saved. Logs a warning if it is not.
void NoteLastCheckpoint(absl::string_view policy_id, const absl::Status& saved, Store* store);

// Returns kResourceExhausted, with the reason, for the first policy that is not saved, and removes
// all notes. Other codes: the store cannot be read.
absl::Status TakeUnsaved(Store* store);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_UNSAVED_CHECKPOINTS_H_
