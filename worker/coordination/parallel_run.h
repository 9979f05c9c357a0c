// Runs the coordinator's process of a parallel run, from its config to its result.
//
// The files in the run's folder, and the functions that read them, are in parallel_run_folder.h,
// which this header includes.
//
// An orderly end saves the data of the run in its folder. Data that cannot be saved there, as on a
// full disk, stay in the store.
//
// If the journal is in the store, all data stay there, unless the run has converged. The store then
// also has the keys run/info and run/config, from which AdoptRun() makes such a folder on another
// machine.
//
// Threads: to be called from main().
#ifndef DING_WORKER_WORKER_COORDINATION_PARALLEL_RUN_H_
#define DING_WORKER_WORKER_COORDINATION_PARALLEL_RUN_H_

#include <cstdio>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/transport.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/metrics/time_histogram.h"
#include "ding_worker/worker/coordination/parallel_run_folder.h"  // IWYU pragma: export
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

struct ParallelRunOptions {
  std::string exp_dir;  // as for RunFolder::Create(); absolute, if the run is to be resumed
  std::string listen;   // address at which workers connect
  // Whether to resume the run in exp_dir, from wherever it has come.
  bool resume = false;
  // Whether this process replaces a coordinator that was killed. It resumes the run if the killed
  // coordinator had begun it. Otherwise it begins the run, in the folder that the killed
  // coordinator may have made.
  bool again = false;
  // Whether to listen at the same address as before, if the run has listened already.
  bool as_before = false;
  // How the progress is shown; start, limits and values are set by the run.
  ProgressOptions progress = ProgressTo(stderr);
  // Called many times a second with the status of the run.
  std::function<void(const RunStatus&, const StageTimes&)> show = [](const RunStatus&,
                                                                     const StageTimes&) {};
  // Polled: returns whether to end the run.
  std::function<bool()> interrupted = [] { return false; };
  // Called once with the run's folder, when the run begins: from then on `interrupted` is polled.
  std::function<void(const std::string& exp_dir)> began = [](const std::string&) {};
};

struct ParallelOutcome {
  std::string result;  // the content of result.json, without the newline at its end
  // If the last checkpoints, or the data that the run needs to continue, could not be saved: why,
  // where the data are now, and how to continue from there. OK: all was saved, or the run has
  // converged.
  absl::Status saved;
  std::string exp_dir;  // of the run; empty if it had converged before
};

// Runs until the run has converged, its budget is used up, or it is interrupted; writes the run's
// folder and returns the result. A run that had already converged is not started again: its earlier
// result is returned. FindParallelProblems() must return no problem for `config`.
//   kNotFound            there is no run to resume
//   kInvalidArgument     the run to resume has another config
//   kFailedPrecondition  the run is still alive; or it had converged, at a lower stop value
//   kDataLoss            its journal is damaged
//   kAborted             another coordinator has taken over the run
absl::StatusOr<ParallelOutcome> RunParallel(const ExperimentConfig& config,
                                            const ParallelRunOptions& options,
                                            Transport* transport);

// Makes the folder `exp_dir`, if it does not exist, for the run whose journal is in the store at
// `store_url`. This is for a machine that shares only the store with the one on which the run was
// begun.
//   kNotFound       the store has no such run
//   kAlreadyExists  the folder exists and is not a run folder
absl::Status AdoptRun(const std::string& store_url, const std::string& exp_dir);

// Cleans up after a run whose coordinator has died without a successor: removes the run's folder in
// the memory of this machine if it has no data from which the run can continue, and otherwise marks
// it to be kept. Returns where such data are and how to continue from them. The result is empty if
// there are none, if they were already marked to be kept, or if nothing of the run exists.
// `exp_dir` is absolute.
absl::StatusOr<std::string> SettleDeadRun(const std::string& exp_dir);

}  // namespace ding

#endif  // DING_WORKER_WORKER_COORDINATION_PARALLEL_RUN_H_
