// The data that collectors can send in a run, derived from its env and policy. The learner and the
// coordinator check received data against it, since they do not trust collectors.
//
// Threads: thread-safe, where the policy is (pure functions).
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_EXPECTED_DATA_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_EXPECTED_DATA_H_

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Returns the layout of rows that `policy` makes of an env as `player` sees it. The result is
// without layouts if the policy cannot process one row of zeros (CollectMode::GetTrainSample()).
absl::StatusOr<CollectedLayout> LayoutOfCollected(const EnvSpec& player, CollectMode* policy);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_EXPECTED_DATA_H_
