// Finds out the spec of an env without building the env in this process: what its code does to a process
// happens to another one.
//
// Ownership: keeps nothing.
// Threads:   to be called before the program starts threads: see ForkServer.
#ifndef DING_WORKER_ENV_PROBE_ENV_SPEC_H_
#define DING_WORKER_ENV_PROBE_ENV_SPEC_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/env/env.h"

namespace ding {

// Builds an env in a process of its own, which ends then.
//   kDeadlineExceeded  it was not built in `timeout`
//   kUnavailable       its process ended otherwise, or the system refuses processes or memory
//   else               what the factory said
absl::StatusOr<EnvSpec> ProbeEnvSpec(const EnvFactory& factory, absl::Duration timeout);

}  // namespace ding

#endif  // DING_WORKER_ENV_PROBE_ENV_SPEC_H_
