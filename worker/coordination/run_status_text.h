// The status of a parallel run for people (progress line, and table of `ctl status`), for programs
// (JSON), and as metrics.
//
// Threads: thread-safe (pure functions); RunRates is thread-compatible.
#ifndef DING_WORKER_WORKER_COORDINATION_RUN_STATUS_TEXT_H_
#define DING_WORKER_WORKER_COORDINATION_RUN_STATUS_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

// The progress line.
ProgressState ProgressOf(const RunStatus& status);
// The values of the progress line: the values of the policy and the collectors ("return", "loss",
// "eps"), "workers", and for the first buffer "staleness" (how many train iterations ago the drawn
// rows were collected) and "drawn/pushed", a ratio of rows.
ProgressValues ProgressValuesOf(const RunStatus& status);

// The table: a line for the run, one for each worker and one for each buffer.
//
//   run cartpole-1795 for 0:12  env_step 81920  train_iter 4000  eval 187.2  policy 400
//   worker  name         role       pid   resources         task              rate        waits for
//        1  learner-0    learner    4711  8 cpus, 15.6 GiB  learner_task_0    3981 /s
//        2  collector-0  collector  4712  8 cpus, 15.6 GiB  collector_task_7  40960 /s    the buffer: ...
//   buffer buffer_0: 81920 rows of 81920 pushed, 256000 drawn, 640 chunks, 210 iterations old
std::string FormatRunStatus(const RunStatus& status);

// Breaks the lines of `text` that have more than `width` columns (at least 20) between fields or
// words, as far as there are any. The rest of a line goes into further lines below it, indented.
std::string FoldLines(absl::string_view text, int width);

// Keeps the first lines of `text` if it has more than `most` (at least 2), and says in the last one
// how many are missing.
std::string KeepFirstLines(absl::string_view text, int most);

// The status as JSON, for other programs: `ctl status --json`. Its keys are always all there and
// keep their meaning; new ones may come. docs/reference/parallel.md describes them. Returns one
// line, without a line end. A value that is not known, or is not a finite number, is null.
std::string RunStatusToJson(const RunStatus& status);

// How fast a parallel run is, and what its buffers hold: written as metrics about once a second,
// and at the end.
//
//   run_step/env_steps_per_second        of all workers, since it was written last
//   run_step/updates_per_second          likewise
//   replay_buffer_step/rows              rows in the buffer
//   replay_buffer_step/age               train iterations since the rows that were drawn last were
//                                        collected, on average
//   replay_buffer_step/drawn_per_pushed  rows drawn per row pushed, of the whole run
//
// A run with several buffers has the names of the buffers in place of replay_buffer. A run with a
// data set, which takes no env steps, writes its updates_per_second as run_iter/... .
//
// Ownership: the sink must outlive it.
class RunRates {
 public:
  // `start`: the status from which the rates count.
  RunRates(const RunStatus& start, bool has_env_steps, MetricSink* metrics);

  // Writes if a second of the run has passed since it wrote last.
  void WriteIfDue(const RunStatus& status);
  // Writes if the run has made env steps or updates since the last write.
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

#endif  // DING_WORKER_WORKER_COORDINATION_RUN_STATUS_TEXT_H_
