// The processes of EnvProcessPool as workers of AsyncEnvManager: sends requests to envs through the
// shared memory, collects their answers, and answers for envs whose process has ended.
//
// Ownership, threads: as EnvWorkers; creating them forks (ForkServer).
// Errors:    a step whose process ended is void (StepResult::abnormal), and void_cause says how it
//            ended. A reset is retried in a new process, with max_retry attempts in all.
#ifndef DING_WORKER_ENV_PROCESS_PROCESS_ENV_WORKERS_H_
#define DING_WORKER_ENV_PROCESS_PROCESS_ENV_WORKERS_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_adapters.h"
#include "ding_worker/env/env_workers.h"
#include "ding_worker/env/process/env_process_pool.h"

namespace ding {

// Each process calls `run`; its envs have the spec `spec`. `out_of_bounds`, if set, says how to
// treat observations outside of their bounds (ObservationBounds); the first observation of an
// episode must then be finite, too.
//   kUnavailable  the system refuses processes or memory
absl::StatusOr<std::unique_ptr<EnvWorkers>> CreateProcessEnvWorkers(
    EnvProcessPool::Options options, EnvSpec spec, int env_num, EnvProcessPool::Run run,
    std::optional<OutOfBounds> out_of_bounds = std::nullopt);

}  // namespace ding

#endif  // DING_WORKER_ENV_PROCESS_PROCESS_ENV_WORKERS_H_
