// Finds out the spec of an env without building the env in this process, so that a crash or a hang of
// its code cannot harm this process.
//
// Ownership: keeps nothing.
// Threads:   call it before the program starts threads: see ForkServer.
#ifndef DING_WORKER_ENV_PROBE_ENV_SPEC_H_
#define DING_WORKER_ENV_PROBE_ENV_SPEC_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/process_memory.h"

namespace ding {

// Builds an env in a process of its own, which then ends, and returns the spec of the env.
//   kDeadlineExceeded  the env was not built within `timeout`
//   kUnavailable       its process died before, or the system refuses processes or memory
//   other              the error of the factory
absl::StatusOr<EnvSpec> ProbeEnvSpec(const EnvFactory& factory, absl::Duration timeout);
// The same for an env that is not built by a factory. `run` is called in the process; it leaves a message for
// env 0 that holds a status and, if it is OK, the spec and further bytes, and returns 0. `rest`, if not null, gets
// these bytes.
absl::StatusOr<EnvSpec> ProbeEnvSpec(const std::function<int(ProcessMemory*)>& run,
                                     absl::Duration timeout, std::string* rest);

// Whether this process is one in which ProbeEnvSpec() builds an env.
bool InEnvProbe();

}  // namespace ding

#endif  // DING_WORKER_ENV_PROBE_ENV_SPEC_H_
