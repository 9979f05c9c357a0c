// An evaluator that goes on where an earlier one of the run has stopped. In a parallel run each evaluation is a
// task with an evaluator of its own, in whatever process is free. What it must know of earlier evaluations, such
// as when it last made videos, is in a folder that all processes see.
//
//     folder ── LoadState ──► evaluator ── Eval ──► SaveState ──► folder
//
// A state that cannot be read or written is a warning in the log: the evaluation counts all the same, and the
// next one goes on with what is in the folder.
//
// Ownership: owns the evaluator, which does not own env and policy.
// Threads:   as ISerialEvaluator. Of two processes that evaluate at once, the last one to finish is kept.
//
// Example:
//   LastingEvaluator evaluator(std::move(videos), JoinPath(exp_dir, "evaluator"));
//   DING_ASSIGN_OR_RETURN(const EvalResult result, evaluator.Eval(options));
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_LASTING_EVALUATOR_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_LASTING_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class LastingEvaluator : public ISerialEvaluator {
 public:
  // `folder` need not exist, its parent must.
  LastingEvaluator(std::unique_ptr<ISerialEvaluator> evaluator, std::string folder);

  absl::StatusOr<EvalResult> Eval(const EvalOptions& options) override;

  absl::Status ResetEnv(EnvManager* env) override { return evaluator_->ResetEnv(env); }
  absl::Status ResetPolicy(EvalMode* policy) override { return evaluator_->ResetPolicy(policy); }
  absl::Status Reset(EvalMode* policy, EnvManager* env) override {
    return evaluator_->Reset(policy, env);
  }
  bool ShouldEval(int64_t train_iter) override { return evaluator_->ShouldEval(train_iter); }
  absl::Status SaveState(StateWriter* writer) const override {
    return evaluator_->SaveState(writer);
  }
  absl::Status LoadState(StateReader* reader) override { return evaluator_->LoadState(reader); }

 private:
  absl::Status Load();
  absl::Status Save() const;

  const std::unique_ptr<ISerialEvaluator> evaluator_;
  const std::string folder_;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_LASTING_EVALUATOR_H_
