// The result of an evaluation as hooks and stoppers see it, the standard error of its mean, and the
// signals between a run and the hooks of its learner (RunSignals).
//
// Threads: values and pure functions, except RunSignals.
#ifndef DING_WORKER_LEARNER_EVALUATION_H_
#define DING_WORKER_LEARNER_EVALUATION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

// A value that the env gives at the ends of its episodes.
struct InfoMean {
  double mean = 0;
  int64_t count = 0;  // the number of episodes with a finite value
};

struct Evaluation {
  int64_t train_iter = 0;  // of the policy that was evaluated
  int64_t env_step = 0;    // env steps that the run had collected; 0 in a supervised run
  double mean_return = 0;  // or the evaluator's score, if it is another value
  std::vector<double> episode_return;  // of all episodes
  // The values of the env's info at the ends of the episodes, by their names, such as "success".
  std::map<std::string, InfoMean> info = {};
};

// Returns the value by which evaluations are compared: the mean of the info value `name`, or the
// mean return if `name` is empty.
//   kInvalidArgument  the evaluation has no such value; the message lists the values that it has
absl::StatusOr<double> ValueOf(const Evaluation& evaluation, absl::string_view name);

// The mean return of a policy, estimated from some episodes.
struct ReturnEstimate {
  int64_t episodes = 0;
  double mean = 0;
  double standard_error = 0;  // of the mean: the deviation of the returns / sqrt(episodes)

  double lower_bound() const { return mean - standard_error; }
};

// Needs at least 2 `returns`. `mean` is the evaluator's score. If it differs from the mean of
// `returns`, the standard error is unknown and set to 0.
ReturnEstimate EstimateReturn(absl::Span<const double> returns, double mean);

// The signals between a run and the hooks of its learner: the run notes evaluations of the policy,
// and a hook may request the end of the run.
//
//     run ── NoteEvaluation() ──► after_eval hooks ── RequestStop() ──► the run ends normally
//
// Threads: thread-compatible, like the learner that they belong to.
//
// Example: a hook that ends the run when the loss becomes NaN.
//   absl::Status Call(LearnerView* learner) override {
//     const double loss = learner->current_step()->scalars.GetOr("total_loss", 0);
//     if (std::isnan(loss)) learner->run_signals()->RequestStop("the loss is NaN");
//     return absl::OkStatus();
//   }
class RunSignals {
 public:
  // For hooks: ends the run normally after the current batch. `why` (not empty) is written to the
  // result. Only the first request counts.
  void RequestStop(absl::string_view why) {
    if (stop_request_.empty()) stop_request_ = std::string(why);
  }
  // For hooks: the last evaluation; not set before the first one.
  const std::optional<Evaluation>& evaluation() const { return evaluation_; }

  // For programs: why a hook has requested the end; empty: no hook has.
  const std::string& stop_request() const { return stop_request_; }
  void NoteEvaluation(Evaluation evaluation) { evaluation_ = std::move(evaluation); }

 private:
  std::string stop_request_;
  std::optional<Evaluation> evaluation_;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_EVALUATION_H_
