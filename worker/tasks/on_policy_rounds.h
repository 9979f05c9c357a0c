// What a parallel run of an on-policy policy takes from its config: it learns in rounds, one
// hand-over of each env of each collector, and uses each row once
// (docs/reference/parallel_learning.md).
//
//     policy.collect.n_sample samples, or n_episode episodes, of a round, as in a serial run
//
// Each collector hands over its share of them. With an unroll_len above 1, the collectors cut their
// rows into samples of as many rows: each sample is an item (data/items.h). With n_episode each
// episode is an item.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_TASKS_ON_POLICY_ROUNDS_H_
#define DING_WORKER_WORKER_TASKS_ON_POLICY_ROUNDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/coordinator/state/learning_rounds.h"
#include "ding_worker/data/items.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// The config must have no problems.
LearningRounds RoundsOf(const ExperimentConfig& config);
// How collectors announce their rows.
ItemSequences ItemSequencesOfRounds(const ExperimentConfig& config);

// The coordinator's buffer for `rounds`, from which each item is drawn once.
absl::StatusOr<std::unique_ptr<IBuffer>> MakeRoundBuffer(const LearningRounds& rounds,
                                                         const BufferDeps& deps);

// Returns a sentence for each setting that a parallel run of a policy with these attributes does
// not use, or cannot obey, because the policy is on-policy, or because it is not.
std::vector<std::string> FindPolicyKindProblems(const ExperimentConfig& config,
                                                const CollectAttributes& policy);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TASKS_ON_POLICY_ROUNDS_H_
