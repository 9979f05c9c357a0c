// Which returns an env allows, by the bounds of its rewards.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_RUN_RETURN_BOUNDS_H_
#define DING_WORKER_WORKER_RUN_RETURN_BOUNDS_H_

#include <limits>

#include "ding_worker/env/env.h"

namespace ding {

// Bounds of the return (sum of rewards) of an episode; infinite where the env does not declare any.
struct ReturnBounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};
ReturnBounds BoundsOfReturns(const EnvSpec& env);
// Returns bounds that include both `a` and `b`.
ReturnBounds EitherOf(const ReturnBounds& a, const ReturnBounds& b);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_RETURN_BOUNDS_H_
