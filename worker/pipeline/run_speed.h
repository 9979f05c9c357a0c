// Measures how fast a run in one process is, and which stages take its time. Written as metrics
// about once a second, and at the end of the run.
//
//   run_step/env_steps_per_second  run_step/updates_per_second    since they were written last
//   run_step/collect_seconds  learn_seconds  evaluate_seconds  save_seconds
//       seconds that these stages took, since the program started. Checkpoints of the best policy
//       belong to the evaluation; what is left of the time goes on everything else. Stages that
//       overlap count in full
//
// A run without env steps writes them as run_iter/..., without env_steps_per_second and
// collect_seconds.
//
// Ownership: the clock must outlive it.
// Threads:   thread-compatible. Scopes of different stages may live on several threads at the same
//            time.
//
// Example:
//   {
//     const RunSpeed::Scope timed(&speed, RunSpeed::kCollect);
//     ... collector->Collect() ...
//   }
//   speed.WriteIfDue(env_step, train_iter, metrics);
#ifndef DING_WORKER_WORKER_PIPELINE_RUN_SPEED_H_
#define DING_WORKER_WORKER_PIPELINE_RUN_SPEED_H_

#include <cstdint>

#include "ding_worker/base/clock.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/time_histogram.h"

namespace ding {

class RunSpeed {
 public:
  enum Stage { kCollect, kLearn, kEvaluate, kSave };
  static constexpr int kStages = 4;

  // Adds the time that it lives to a stage.
  class Scope : public StageTimer::Scope {
   public:
    Scope(RunSpeed* speed, Stage stage) : StageTimer::Scope(&speed->timer_, stage) {}
  };

  explicit RunSpeed(const Clock* clock);

  // Sets the counters with which the run begins or is resumed.
  void Begin(int64_t env_step, int64_t train_iter);
  // How long each pass of each stage took.
  StageTimes stages() const { return timer_.times(); }
  // Writes if a second has passed. Returns whether it did. An env_step below 0: the run has none.
  bool WriteIfDue(int64_t env_step, int64_t train_iter, MetricSink* metrics);
  void Write(int64_t env_step, int64_t train_iter, MetricSink* metrics);

 private:
  const Clock* const clock_;
  StageTimer timer_;
  // The state when it was written last.
  int64_t written_nanos_ = 0;
  int64_t env_step_ = 0;
  int64_t train_iter_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PIPELINE_RUN_SPEED_H_
