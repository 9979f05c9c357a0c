// What a run leaves behind for programs: result.json and the last line of stdout.
#ifndef DING_WORKER_WORKER_RUN_RESULT_H_
#define DING_WORKER_WORKER_RUN_RESULT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/data/named_values.h"

namespace ding {

struct RunResult {
  bool stop = false;  // the stop value was reached
  int64_t env_step = 0;
  int64_t train_iter = 0;
  // Mean and returns of the last evaluation; none if there was no evaluation.
  std::optional<double> eval_value;
  std::vector<double> eval_value_raw;
  NamedValues metric;  // of the last evaluation on data that were held out; empty: none
  double wall_seconds = 0;
  // Parallel runs: since the first task to collect was given, without start and end of processes.
  std::optional<double> collecting_seconds;
  absl::Time finish_time;
};

// One line: {"stop": true, "env_step": 1080, ...}. A value that there is not, or that is not
// finite, is null; "metric" and "collecting_seconds" are there only if there are any.
std::string ToJson(const RunResult& result);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_RESULT_H_
