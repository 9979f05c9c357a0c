// Decides whether a buffer may be pushed to, or drawn from, right now.
//
// Ownership: a buffer owns its limiter.
// Threads:   called under the buffer's lock, by one thread at a time.
// Errors:    a refusal says what was requested and what is allowed. After a refusal the buffer asks again
//            until its max_wait has passed, and then returns the refusal to its caller.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_RATE_LIMITER_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_RATE_LIMITER_H_

#include <cstdint>

#include "absl/status/status.h"

namespace ding {

class IRateLimiter {
 public:
  virtual ~IRateLimiter() = default;

  // Returns kUnavailable if `rows` rows must not be pushed now.
  virtual absl::Status CheckPush(int64_t rows) = 0;
  // Returns kFailedPrecondition if `rows` rows must not be drawn now.
  virtual absl::Status CheckSample(int64_t rows) = 0;
  // Count rows that were pushed or drawn, after the check has allowed it.
  virtual void CountPush(int64_t rows) = 0;
  virtual void CountSample(int64_t rows) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_RATE_LIMITER_H_
