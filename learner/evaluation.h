// The result of an evaluation, as hooks and stoppers see it, and how well its mean is known; and
// what a run and the hooks of its learner tell each other about it (RunSignals).
//
// Threads: values and pure functions, but for RunSignals.
#ifndef DING_WORKER_LEARNER_EVALUATION_H_
#define DING_WORKER_LEARNER_EVALUATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
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

// `returns` are at least 2. If `mean`, by which the evaluator judges, is another score than their
// mean, its error is unknown and taken as 0.
ReturnEstimate EstimateReturn(absl::Span<const double> returns, double mean);

// What a run and the hooks of its learner tell each other: the run says how the policy was
// evaluated, and a hook may ask for the end of the run.
//
//     run ── NoteEvaluation() ──► after_eval hooks ── RequestStop() ──► the run ends normally
//
// Threads: thread-compatible, as the learner that it belongs to.
//
// Example: a hook that ends the run when the loss is no number any more.
//   absl::Status Call(LearnerView* learner) override {
//     const double loss = learner->current_step()->scalars.GetOr("total_loss", 0);
//     if (std::isnan(loss)) learner->run_signals()->RequestStop("the loss is NaN");
//     return absl::OkStatus();
//   }
class RunSignals {
 public:
  // For hooks: ends the run after the current batch, as if it had come to its end. `why` is written
  // to the result; it is not empty. Only the first request counts.
  void RequestStop(absl::string_view why) {
    if (stop_request_.empty()) stop_request_ = std::string(why);
  }
  // For hooks: the last evaluation; none if there was none.
  const std::optional<Evaluation>& evaluation() const { return evaluation_; }

  // For programs. The request of a hook; empty: there is none.
  const std::string& stop_request() const { return stop_request_; }
  void NoteEvaluation(Evaluation evaluation) { evaluation_ = std::move(evaluation); }

 private:
  std::string stop_request_;
  std::optional<Evaluation> evaluation_;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_EVALUATION_H_
