// What collectors can send in a run, by its env and policy: for the learner and the coordinator, who
// do not trust them.
//
// Threads: thread-safe, where the policy is (pure functions).
#ifndef DING_WORKER_WORKER_EXPECTED_DATA_H_
#define DING_WORKER_WORKER_EXPECTED_DATA_H_

#include <limits>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Rows of an env as `player` sees it, as `policy` makes them. Without layouts if the policy cannot say
// what it makes of one row of zeros (CollectMode::GetTrainSample()).
absl::StatusOr<CollectedLayout> LayoutOfCollected(const EnvSpec& player, CollectMode* policy);

// What the sum of an episode's rewards can be; unbounded where the env does not say.
struct ReturnBounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};
ReturnBounds BoundsOfReturns(const EnvSpec& env);
// Those of either.
ReturnBounds EitherOf(const ReturnBounds& a, const ReturnBounds& b);

}  // namespace ding

#endif  // DING_WORKER_WORKER_EXPECTED_DATA_H_
