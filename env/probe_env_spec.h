// Finds out the spec of an env without building the env in this process, so that a crash or a hang of
// its code cannot harm this process.
//
// Ownership: keeps nothing.
// Threads:   call it before the program starts threads: see ForkServer.
#ifndef DING_WORKER_ENV_PROBE_ENV_SPEC_H_
#define DING_WORKER_ENV_PROBE_ENV_SPEC_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/env/env.h"

namespace ding {

// Builds an env in a process of its own, which then ends, and returns the spec of the env.
//   kDeadlineExceeded  the env was not built within `timeout`
//   kUnavailable       its process died before, or the system refuses processes or memory
//   other              the error of the factory
absl::StatusOr<EnvSpec> ProbeEnvSpec(const EnvFactory& factory, absl::Duration timeout);

}  // namespace ding

#endif  // DING_WORKER_ENV_PROBE_ENV_SPEC_H_
