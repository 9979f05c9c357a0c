// Envs and workers whose envs are wrapped (env/env_wrapper.h).
//
// Ownership: own the env or the workers, and the wrappers.
// Threads:   as Env and EnvWorkers.
#ifndef DING_WORKER_ENV_WRAPPED_ENV_H_
#define DING_WORKER_ENV_WRAPPED_ENV_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_workers.h"
#include "ding_worker/env/wrapper_stack.h"

namespace ding {

// Makes the stack of an env of this spec.
using WrapperStackFactory = std::function<absl::StatusOr<WrapperStack>(const EnvSpec&)>;

absl::StatusOr<std::unique_ptr<Env>> MakeWrappedEnv(std::unique_ptr<Env> env,
                                                    const WrapperStackFactory& make_stack);

// Wraps each env of `workers`; the wrappers run in the caller's thread. Observations stay where they are unless a wrapper
// changes their fields.
absl::StatusOr<std::unique_ptr<EnvWorkers>> WrapWorkers(std::unique_ptr<EnvWorkers> workers,
                                                        const WrapperStackFactory& make_stack);

}  // namespace ding

#endif  // DING_WORKER_ENV_WRAPPED_ENV_H_
