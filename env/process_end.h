// Says how a process that ran envs ended, in the words of an error.
//
// Threads: thread-safe, as ForkServer is.
// Errors:  none of its own: the returned status is the answer.
#ifndef DING_WORKER_ENV_PROCESS_END_H_
#define DING_WORKER_ENV_PROCESS_END_H_

#include <cstdint>

#include "absl/status/status.h"
#include "ding_worker/env/fork_server.h"

namespace ding {

// Returns why `child`, which has ended, did so, with the last 5 lines that it wrote to stderr. `kill_cause`
// says why the manager killed it; it is OK if the manager did not.
//   kResourceExhausted  the child passed memory_limit_mb
//   kUnavailable        it exited, or somebody else killed it
//   other               the code of `kill_cause`
absl::Status WhyProcessEnded(const ForkServer& server, int child, int64_t memory_limit_mb,
                             const absl::Status& kill_cause);

}  // namespace ding

#endif  // DING_WORKER_ENV_PROCESS_END_H_
