// One config for one process and for several: makes the config of a parallel run of one that is
// written for a serial run.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_TASKS_DERIVED_CONFIG_H_
#define DING_WORKER_WORKER_TASKS_DERIVED_CONFIG_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Changes `config`, which ParseExperimentConfig() returned, so that several processes learn from as
// many rows, as often, as one process would. system.derived gets a line for each change,
// "<path>: <value>  # <why>". `on_policy`: whether the policy is. `players`: whose rows it learns
// from.
//
// A config that sets collector_num and no field of serial runs (update_per_collect, eval_freq,
// overlap, resume.period_rounds) is one for several processes already: nothing changes. So a second
// call changes nothing. What cannot be derived stays, and FindParallelProblems() refuses it.
void DeriveParallelConfig(bool on_policy, ExperimentConfig* config, int players = 1);

// Makes an env and the policy, which say what kind of run it is, and derives the config of the
// parallel run from `config`, which is named by `source` in messages. A run with a data set needs
// neither.
//   kInvalidArgument  lists everything that a parallel run refuses, a line each
absl::StatusOr<ExperimentConfig> PrepareParallelConfig(const ExperimentConfig& config,
                                                       absl::string_view source,
                                                       const Clock* clock);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TASKS_DERIVED_CONFIG_H_
