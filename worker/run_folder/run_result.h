// The result of a run: result.json, and what a program prints at its end.
#ifndef DING_WORKER_WORKER_RUN_FOLDER_RUN_RESULT_H_
#define DING_WORKER_WORKER_RUN_FOLDER_RUN_RESULT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/learner/evaluation.h"

namespace ding {

// One of several policies that a parallel run has trained.
struct PolicyResult {
  std::string policy_id;
  bool stop = false;  // it has reached the stop value
  int64_t env_step = 0;
  int64_t train_iter = 0;
  std::optional<double> eval_value;
  std::vector<double> eval_value_raw;
};

// The best evaluation of a run.
struct BestEvaluation {
  double value = 0;         // the number by which evaluations are compared
  int64_t train_iter = -1;  // of the policy that was evaluated; -1: unknown
  std::string checkpoint;   // the name of the checkpoint that holds this policy
};

struct RunResult {
  bool stop = false;    // the stop value was reached
  std::string why;      // why the run ended
  std::string unsaved;  // what could not be saved at its end; empty: all is saved
  int64_t env_step = 0;
  int64_t train_iter = 0;
  // Mean return and all returns of the last evaluation; none if there was no evaluation.
  std::optional<double> eval_value;
  std::vector<double> eval_value_raw;
  std::optional<BestEvaluation> best;
  // The last confirmation of a stop value that an evaluation had reached; none if there was none.
  std::optional<ReturnEstimate> confirmation;
  NamedValues metric;  // of the last evaluation on held-out data; empty: none
  double wall_seconds = 0;
  // For parallel runs: time since the first collecting task was given, without the start and end of
  // processes.
  std::optional<double> collecting_seconds;
  // If the run has trained several policies at a time: each of them. The values above then describe
  // the whole run, and eval_value is the lowest one of all policies.
  std::vector<PolicyResult> policies;
  absl::Time finish_time;
};

// Returns one line: {"stop": true, "env_step": 1080, ...}. A value that is missing or not finite is
// null; "best", "unsaved", "confirmation", "metric", "collecting_seconds" and "policies" are left out if
// there are none.
std::string ToJson(const RunResult& result);

// Returns `json` for a terminal: of a list of more than five numbers, the first five, followed by
// the string "... 95 more".
std::string ShortenJson(absl::string_view json);

// Returns what a program prints at the end of the run in `exp_dir`, with a newline at its end; `json`
// is the result. For other programs that is one line: "result " and ShortenJson(json). On a terminal
// it is a summary for people, with the commands that evaluate, draw and export the run if the
// program was started by tools/train (DING_WORKER_COMMAND).
std::string ResultText(absl::string_view json, const std::string& exp_dir, bool on_terminal);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_FOLDER_RUN_RESULT_H_
