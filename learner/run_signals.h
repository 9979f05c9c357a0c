// What a run and the hooks of its learner tell each other: the run says how the policy was evaluated, and a
// hook may ask for the end of the run.
//
//     run ── NoteEvaluation() ──► after_eval hooks ── RequestStop() ──► the run ends normally
//
// Threads: thread-compatible, as the learner that it belongs to.
//
// Example: a hook that ends the run when the loss is no number any more.
//   absl::Status Call(ILearner* learner) override {
//     const double loss = learner->current_step()->scalars.GetOr("total_loss", 0);
//     if (std::isnan(loss)) learner->run_signals()->RequestStop("the loss is NaN");
//     return absl::OkStatus();
//   }
#ifndef DING_WORKER_LEARNER_RUN_SIGNALS_H_
#define DING_WORKER_LEARNER_RUN_SIGNALS_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "ding_worker/learner/evaluation.h"

namespace ding {

class RunSignals {
 public:
  // For hooks: ends the run after the current batch, as if it had come to its end. `why` is written to the
  // result; it is not empty. Only the first request counts.
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

#endif  // DING_WORKER_LEARNER_RUN_SIGNALS_H_
