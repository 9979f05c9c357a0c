// A run in one process, from its config to its result: what the serial program knows of it.
//
// Ownership: a pipeline owns all of its workers.
// Threads:   thread-compatible; runs on the caller's thread.
#ifndef DING_WORKER_WORKER_PIPELINE_H_
#define DING_WORKER_WORKER_PIPELINE_H_

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
#include "ding_worker/metrics/component.h"
#include "ding_worker/metrics/progress.h"

namespace ding {

struct SerialOptions {
  std::string exp_dir;  // of the run; exists
  std::shared_ptr<MetricSink> metrics = std::make_shared<NullSink>();
  const Clock* clock = Clock::Real();
  // Told after every round how far the run is.
  std::function<void(const ProgressState&)> progress = [](const ProgressState&) {};
  // Asked at every safe point: whether to save `ckpt_interrupt` and end.
  std::function<bool()> interrupted = [] { return false; };
  // Adds to a resume point's manifest what the program needs beside the pipeline's state. A resume
  // point whose description fails is not written.
  std::function<absl::Status(CheckpointInfo*)> describe = [](CheckpointInfo*) {
    return absl::OkStatus();
  };
};

struct SerialResult {
  bool stop = false;  // the stop value was reached
  bool interrupted = false;
  int64_t env_step = 0;
  int64_t train_iter = 0;
  // The last evaluation: mean return and all returns; none if there was no evaluation.
  std::optional<double> eval_value;
  std::vector<double> eval_value_raw;
  NamedValues metric;  // of the last evaluation on data that were held out; empty: none
  // The time of the whole run: also before it was resumed.
  double wall_seconds = 0;
};

class Pipeline {
 public:
  virtual ~Pipeline() = default;

  // Takes the state of a resume point, so that Run() goes on from there. The config is that of the
  // run it was written by (CheckSameExperiment). After an error the pipeline is of no use.
  //   kInvalidArgument  it was written by other modules or another env; the component is named
  virtual absl::Status Resume(const CheckpointReader& checkpoint) = 0;

  // Once. After an error the checkpoints saved before it are intact.
  virtual absl::Status Run(SerialResult* result) = 0;

  // How far the run is.
  virtual ProgressState progress() const = 0;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PIPELINE_H_
