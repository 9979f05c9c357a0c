// Formats the status of a parallel run for people: the progress line, and the table of `ctl
// status`.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_RUN_STATUS_TEXT_H_
#define DING_WORKER_WORKER_RUN_STATUS_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/progress.h"

namespace ding {

ProgressState ProgressOf(const RunStatus& status);
// What the status shows of policy and collectors ("return", "loss", "eps"), "workers", and of the first buffer
// "staleness" (how many train iterations ago the drawn rows were collected) and "drawn/pushed", a ratio of rows.
ProgressValues ProgressValuesOf(const RunStatus& status);

// Returns a line for the run, one for each worker and one for each buffer:
//
//   run cartpole-1795 for 0:12  env_step 81920  train_iter 4000  eval 187.2  policy 400
//   worker  name         role       pid   resources         task              rate        waits for
//        1  learner-0    learner    4711  8 cpus, 15.6 GiB  learner_task_0    3981 /s
//        2  collector-0  collector  4712  8 cpus, 15.6 GiB  collector_task_7  40960 /s    the buffer: ...
//   buffer buffer_0: 81920 rows of 81920 pushed, 256000 drawn, 640 chunks, 210 iterations old
std::string FormatRunStatus(const RunStatus& status);

// Breaks the lines of `text` that have more than `width` columns (at least 20) between fields or words, as far as there
// are any. What is left of a line stands below it, indented.
std::string FoldLines(absl::string_view text, int width);

// Keeps the first lines of `text` if it has more than `most` (at least 2), and says in the last one how many are missing.
std::string KeepFirstLines(absl::string_view text, int most);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_STATUS_TEXT_H_
