// Where a run goes on: by its journal, by the learners' checkpoints in its folder, or by a
// checkpoint of an earlier run.
//
// A run has one history: what the journal does not know is adopted with a sentence in the log, or
// refused (CheckHistory()).
//
//   journal             checkpoint learner_resume  what happens
//   at iteration 900    of iteration 1200          the learner goes on from 1200, says the log
//   at iteration 900    none                       the learner begins anew, says the log
//   empty               of iteration 1200          refused: a machine that went down, or somebody
//                                                  who removed the journal; a new run may begin
//                                                  with the checkpoint
//   empty               none                       the run begins anew, says the log
//   of another run, or  of another run             refused
//
// Threads: thread-safe (functions without state).
#ifndef DING_WORKER_WORKER_TASKS_RUN_HISTORY_H_
#define DING_WORKER_WORKER_TASKS_RUN_HISTORY_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// The fields of a learner's checkpoint that say whose it is. Checkpoints of earlier versions lack
// them.
inline constexpr char kRunField[] = "run";
inline constexpr char kPolicyField[] = "policy_id";

// Whether the checkpoint may be one of that policy: it names that policy, or names none.
bool MayBeOf(const CheckpointInfo& info, const std::string& policy_id);

// Compares the journal of a run that goes on with the learners' checkpoints in its folder
// `exp_dir`. Returns the policies of which there is a checkpoint learner_resume. Their learners go
// on from it, whether the journal knows of it or not.
//   kFailedPrecondition  the journal is empty although there are checkpoints, or something is of
//                        another run
absl::StatusOr<std::set<std::string>> CheckHistory(const std::string& exp_dir,
                                                   const std::string& run, const Journal& journal);

// Returns the env steps from which a run that begins with a checkpoint of an earlier run counts on:
// the env steps of the earlier run, or 0 if the config does not set policy.learn.resume_training. A
// run that is in `journal` (which may be null) has its own count and does not need the checkpoint
// any more.
//   kInvalidArgument  the checkpoint does not say how many they were
//   other codes       it cannot be read
absl::StatusOr<int64_t> FirstEnvStep(const ExperimentConfig& config, const Journal* journal);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TASKS_RUN_HISTORY_H_
