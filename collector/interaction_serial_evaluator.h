// Plays n_episode whole episodes without exploration and judges the policy by their mean return.
//
//   - Each env plays its share of the episodes (VectorEvalMonitor) and is then left alone.
//   - A mean return above all before saves "ckpt_best"; if that fails, Eval() fails and the result
//     does not count as the best.
//   - Training may stop once the mean return has reached stop_value and train_iter > 0.
//   - Every evaluation begins with a reset of all envs: with seeds that are not dynamic they play
//     the same episodes each time.
// An abnormal episode does not count; its env plays another one. An env whose episodes never end
// keeps Eval() from returning: give envs a time limit.
//
// Metrics of each evaluation: those of docs/collector.md, as "<name>_iter/<metric>" and
// "<name>_step/<metric>", and a line in the log.
//
// Ownership and threads: as ISerialEvaluator.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto evaluator, InteractionSerialEvaluator::Create(
//                                             {}, &envs, policy->eval_mode(), deps));
//   if (evaluator->ShouldEval(train_iter)) {
//     DING_ASSIGN_OR_RETURN(const EvalResult result, evaluator->Eval({}));
//   }
#ifndef DING_WORKER_COLLECTOR_INTERACTION_SERIAL_EVALUATOR_H_
#define DING_WORKER_COLLECTOR_INTERACTION_SERIAL_EVALUATOR_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/vector_eval_monitor.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class InteractionSerialEvaluator : public ISerialEvaluator {
 public:
  struct Options {
    int64_t eval_freq = 1000;  // train iterations between two evaluations, at least 1
    int64_t n_episode = 4;     // per evaluation, at least one per env
    double stop_value = 1e10;  // mean return at which training may stop
    // Abnormal steps of one env, without a finished episode in between, after which Eval() fails;
    // at least 1.
    int max_abnormal = 10;

    // What is wrong with them; empty if nothing is.
    std::vector<std::string> Problems() const;
  };

  // Launches `env` if it is not launched.
  //   kInvalidArgument  options (all problems at once), env or policy null or not fitting together
  static absl::StatusOr<std::unique_ptr<InteractionSerialEvaluator>> Create(Options options,
                                                                            EnvManager* env,
                                                                            EvalMode* policy,
                                                                            ComponentDeps deps);

  absl::Status ResetEnv(EnvManager* env) override;
  absl::Status ResetPolicy(EvalMode* policy) override;
  absl::Status Reset(EvalMode* policy, EnvManager* env) override;
  bool ShouldEval(int64_t train_iter) override;
  absl::StatusOr<EvalResult> Eval(const EvalOptions& options) override;

  // Best mean return so far; minus infinity before the first evaluation.
  double best_return() const { return best_return_; }

  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  struct Rows {
    BatchBuilder obs;     // of the envs that play, when not all do
    BatchBuilder output;  // the policy's
  };
  // An evaluation under way.
  struct Run {
    VectorEvalMonitor monitor;
    int64_t envsteps = 0;
    std::vector<int> abnormal;  // per env, since its last finished episode
  };

  InteractionSerialEvaluator(Options options, ComponentDeps deps);

  // Works with these from now on, if they fit together.
  absl::Status Use(EnvManager* env, EvalMode* policy);
  absl::Status ForgetRecurrentState();
  absl::Status Play(const NamedValues& settings, Run* run);
  absl::Status StepEnvs(const NamedValues& settings, Run* run);
  // The ready envs whose quota is not full, with their observations.
  ReadyObs Playing(const ReadyObs& ready, const VectorEvalMonitor& monitor);
  absl::Status Account(const Timesteps& timesteps, Run* run);
  absl::Status NoteAbnormal(int env_id, const std::string& cause, Run* run) const;
  void Log(const EvalOptions& options, const Run& run, double seconds, const EvalResult& result);
  absl::Status NoteBest(const EvalOptions& options, double mean_return);

  const Options options_;
  const ComponentDeps deps_;
  EnvManager* env_ = nullptr;
  EvalMode* policy_ = nullptr;
  std::optional<Rows> rows_;
  double best_return_ = -std::numeric_limits<double>::infinity();
  int64_t last_eval_iter_ = -1;

  std::vector<int> playing_ids_;       // scratch of Playing()
  std::vector<int64_t> playing_rows_;  // scratch of Playing()
  std::vector<int> ended_envs_;        // scratch of Account()
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_INTERACTION_SERIAL_EVALUATOR_H_
