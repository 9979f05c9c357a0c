// How fast a parallel run is, and what its buffers hold: written as metrics about once a second, and at the end.
//
//   run_step/env_steps_per_second  run_step/updates_per_second    of all workers, since they were written last
//   replay_buffer_step/rows        rows in the buffer
//   replay_buffer_step/age         train iterations since the rows that were drawn last were collected, on average
//   replay_buffer_step/drawn_per_pushed                           rows drawn per row pushed, of the whole run
//
// A run with several buffers has the names of the buffers in place of replay_buffer. A run with a data set, which takes
// no env steps, writes its updates_per_second as run_iter/... .
//
// Ownership: the sink must outlive it.
// Threads:   thread-compatible.
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_RUN_RATES_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_RUN_RATES_H_

#include <cstdint>

#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

class RunRates {
 public:
  // `start`: the status from which the rates count.
  RunRates(const RunStatus& start, bool has_env_steps, MetricSink* metrics);

  // Writes if a second of the run has passed since it wrote last.
  void WriteIfDue(const RunStatus& status);
  // Writes if anything was done since it wrote last.
  void Write(const RunStatus& status);

 private:
  const bool has_env_steps_;
  MetricSink& metrics_;
  // The state when it was written last.
  double elapsed_seconds_;
  int64_t env_step_;
  int64_t train_iter_;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_RUN_RATES_H_
