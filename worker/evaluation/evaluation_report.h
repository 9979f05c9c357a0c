// Shows evaluations: statistics of their returns for people, as a paragraph or as a table, and as
// JSON.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_EVALUATION_EVALUATION_REPORT_H_
#define DING_WORKER_WORKER_EVALUATION_EVALUATION_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/worker/evaluation/evaluation.h"

namespace ding {

struct ReturnStatistics {
  double mean = 0;
  double median = 0;
  double min = 0;
  double max = 0;
  // The deviation of a sample (n - 1). A single episode has neither deviation nor interval.
  std::optional<double> deviation;
  // The 95 % confidence interval of the mean of all possible episodes, if returns are normally
  // distributed: mean +- t * deviation / sqrt(n), with Student's t for n - 1 degrees of freedom.
  std::optional<std::pair<double, double>> interval;
};

// `returns` must not be empty. The mean is the mean return, even if an evaluator judges by another
// score.
ReturnStatistics Statistics(absl::Span<const double> returns);

// The 0.975 quantile of Student's t; at least 1 degree of freedom. Exact to three decimals: a table
// up to 10, then Abramowitz and Stegun 1964, eq. 26.7.5.
double StudentT975(int64_t degrees);

struct ReportedEvaluation {
  std::string checkpoint;  // its folder
  EvaluationOptions options;
  CheckpointEvaluation result;
};

// Returns one line per fact for one evaluation, and a table with one line per evaluation for
// several. The text ends with a line break.
std::string EvaluationText(const std::vector<ReportedEvaluation>& evaluations);

// One line without a line break. For one evaluation:
//   {"checkpoint": ..., "env": ..., "train_iter": ..., "env_step": ..., "actions": "greedy" or "sampled",
//    "seed": ..., "episodes": ..., "mean": ..., "deviation": ..., "interval": [low, high],
//    "median": ..., "min": ..., "max": ..., "mean_length": ..., "returns": [...], "video": {"path",
//    "return", "cut"}}
// with null for what is missing and without "video" if none was made; "score" is there if the
// evaluator judges by something else than the mean return. For several:
//   {"best": <checkpoint with the highest mean>, "mean": <that mean>, "evaluations": [<as above>, ...]}
std::string EvaluationJson(const std::vector<ReportedEvaluation>& evaluations);

}  // namespace ding

#endif  // DING_WORKER_WORKER_EVALUATION_EVALUATION_REPORT_H_
