// The result of an evaluation, as hooks and stoppers see it, and how well its mean is known.
//
// Threads: values and pure functions; thread-safe.
#ifndef DING_WORKER_LEARNER_EVALUATION_H_
#define DING_WORKER_LEARNER_EVALUATION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace ding {

struct Evaluation {
  int64_t train_iter = 0;  // of the policy that was evaluated
  int64_t env_step = 0;    // env steps that the run had collected; 0 in a supervised run
  double mean_return = 0;  // or the score, if the evaluator judges by another one
  std::vector<double> episode_return;  // of all episodes
};

// The mean return of a policy, estimated from some episodes.
struct ReturnEstimate {
  int64_t episodes = 0;
  double mean = 0;
  double standard_error = 0;  // of the mean: the deviation of the returns / sqrt(episodes)

  double lower_bound() const { return mean - standard_error; }
};

// `returns` are at least 2. If `mean`, by which the evaluator judges, is another score than their mean, its
// error is unknown and taken as 0.
ReturnEstimate EstimateReturn(absl::Span<const double> returns, double mean);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_EVALUATION_H_
