// What ends a run by its config: sentences for people who begin or resume one.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_CONFIG_RUN_BUDGET_H_
#define DING_WORKER_WORKER_CONFIG_RUN_BUDGET_H_

#include <cstdint>
#include <string>

#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Returns a sentence if nothing in a resolved config ends the run; else an empty text. A hook of
// one's own counts as something that may.
std::string EndlessRunWarning(const ExperimentConfig& config);

// Returns a sentence that names each budget of the config that a run has used up by these numbers,
// and the flag that raises it; empty if there is none.
std::string SpentBudgets(const ExperimentConfig& config, int64_t env_step, int64_t train_iter);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_RUN_BUDGET_H_
