// A run in one process, from its config to its result. This is the interface that the serial
// program uses.
//
// Ownership: a pipeline owns all of its workers.
// Threads:   thread-compatible; runs on the caller's thread.
#ifndef DING_WORKER_WORKER_PIPELINE_PIPELINE_H_
#define DING_WORKER_WORKER_PIPELINE_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/time_histogram.h"
#include "ding_worker/worker/run_folder/run_result.h"

namespace ding {

struct SerialOptions {
  std::string exp_dir;  // folder of the run; must exist
  std::shared_ptr<MetricSink> metrics = std::make_shared<NullSink>();
  const Clock* clock = Clock::Real();
  // Called after every round with the progress of the run.
  std::function<void(const ProgressState&)> progress = [](const ProgressState&) {};
  // Polled at every safe point: returns whether to save `ckpt_interrupt` and end.
  std::function<bool()> interrupted = [] { return false; };
  // Polled within rounds and evaluations: returns whether to give them up. A resumed run then
  // repeats them. Null: they are never given up.
  std::function<bool()> overdue;
  // Asked after every evaluation and round: why the run should end now, in words that follow "the
  // run ended: "; empty: it goes on.
  std::function<std::string()> why_stop = [] { return std::string(); };
  // Called once, when the run begins to save itself at its end.
  std::function<void()> ending = [] {};
  // Adds to a resume point's manifest what the program needs besides the pipeline's state. A resume
  // point for which this fails is not written.
  std::function<absl::Status(CheckpointInfo*)> describe = [](CheckpointInfo*) {
    return absl::OkStatus();
  };
};

struct SerialResult {
  bool stop = false;  // the stop value was reached
  std::string why;    // why the run ended
  bool interrupted = false;
  bool saved = true;     // of an interrupted run: whether there was anything to save
  std::string saved_as;  // of a run that failed: the checkpoint of its learner; empty: none
  int64_t env_step = 0;
  int64_t train_iter = 0;
  // Mean return and all returns of the last evaluation; none if there was no evaluation.
  std::optional<double> eval_value;
  std::vector<double> eval_value_raw;
  std::optional<BestEvaluation> best;
  // The last confirmation of a stop value that an evaluation had reached; none if there was none.
  std::optional<ReturnEstimate> confirmation;
  NamedValues metric;  // of the last evaluation on held-out data; empty: none
  // Duration of the whole run, including the time before it was resumed.
  double wall_seconds = 0;
};

class Pipeline {
 public:
  virtual ~Pipeline() = default;

  // Restores the state of a resume point, so that Run() continues from there. The config must be
  // the config of the run that wrote it (CheckSameExperiment). After an error the pipeline must not
  // be used.
  //   kInvalidArgument  other modules or another env wrote it; the message names the component
  virtual absl::Status Resume(const CheckpointReader& checkpoint) = 0;

  // May be called once. After an error, the checkpoints saved before it are intact, and the learner
  // is saved as `ckpt_exception` if it can be.
  virtual absl::Status Run(SerialResult* result) = 0;

  // Another thread calls it while Run() does not get to a safe point. Saves the last safe point,
  // and tells the sinks that the run was interrupted. The run keeps a copy of that safe point in
  // memory if SerialOptions::overdue is set. The process must end next.
  virtual absl::Status SaveLastSafePoint(SerialResult* result) = 0;

  // The progress of the run so far, and the values that its policy and its collector name for it:
  // "return" (the mean of the last training episodes), "loss", "eps" ...
  virtual ProgressState progress() const = 0;
  virtual ProgressValues progress_values() const = 0;

  // The run as `ctl status` shows a parallel run, without workers; the time of its stages. The
  // thread of Run() may call these two, in SerialOptions::progress.
  virtual RunStatus status() const = 0;
  virtual StageTimes stage_times() const = 0;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PIPELINE_PIPELINE_H_
