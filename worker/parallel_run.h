// The coordinator's process of a parallel run, from its config to its result.
//
//   <exp_dir>/coordinator/
//     run.textproto   name of the run, and where its store is
//     address         where it listens
//     journal         what survives the process (coordinator/journal.h), unless that is in the store
//     saved/          what was in the store when the run came to an orderly end,
//     saved.textproto   and how much that is: written last
//
// What cannot be saved there, as on a full disk, stays in the store.
//
// With the journal in the store, all of that stays there, unless the run has converged; and run/info
// and run/config, from which AdoptRun() makes such a folder on another machine.
//
// Threads: for main().
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/interaction/transport.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/parallel_run.pb.h"

namespace ding {

struct ParallelRunOptions {
  std::string exp_dir;  // as of RunFolder::Create(); absolute, if the run is to go on
  std::string listen;   // where workers are to connect to
  // Go on with the run in exp_dir, from wherever it has come.
  bool resume = false;
  // In the place of a coordinator that was killed: go on with the run if it had begun one, else begin
  // it, in the folder that it may have made.
  bool again = false;
  // Listen where the run did, if it did already.
  bool as_before = false;
  // Asked now and then: whether to end the run.
  std::function<bool()> interrupted = [] { return false; };
};

struct ParallelOutcome {
  std::string result;  // the content of result.json, without the end of the line
  // Why what a run needs to go on could not be saved, where it is now, and how to go on from there. OK:
  // it was saved, or the run has converged.
  absl::Status saved;
};

// Runs until it has converged, its budget is used up, or it is interrupted; writes the run's folder
// and returns the result. One that is resumed after it had converged is not begun: its result is there.
// `config` has no FindParallelProblems().
//   kNotFound            there is nothing to go on with
//   kInvalidArgument     that run has another config
//   kFailedPrecondition  it is alive; or it had converged, at a lower stop value
//   kDataLoss            its journal is damaged
//   kAborted             another coordinator goes on with it
absl::StatusOr<ParallelOutcome> RunParallel(const ExperimentConfig& config,
                                            const ParallelRunOptions& options,
                                            Transport* transport);

// Makes `exp_dir`, if it is not there, for the run whose journal is in that store: for a machine that
// shares nothing else with the one where it was begun.
//   kNotFound       the store has no such run
//   kAlreadyExists  the folder is of something else
absl::Status AdoptRun(const std::string& store_url, const std::string& exp_dir);

// Settles a run whose coordinator has died and has no successor: removes its memory
// of this machine, if nothing is in it that the run would go on with, else makes it stay. Returns where
// such data are and how to go on; empty: there are none, or somebody works for the run. `exp_dir` is
// absolute.
absl::StatusOr<std::string> SettleDeadRun(const std::string& exp_dir);

// Where the result of the run in `exp_dir` is, once there is one.
std::string ResultPath(const std::string& exp_dir);
// The config of the run in `exp_dir`, as text.
absl::StatusOr<std::string> ReadRunConfig(const std::string& exp_dir);
// Where its coordinator listens. kNotFound: it does not yet.
absl::StatusOr<std::string> ReadRunAddress(const std::string& exp_dir);
absl::StatusOr<ParallelRunInfo> ReadRunInfo(const std::string& exp_dir);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_H_
