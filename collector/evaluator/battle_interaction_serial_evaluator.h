// Plays n_episode whole episodes of a game between policies and evaluates player 0 by its mean return,
// like InteractionSerialEvaluator, but for two or more players and without videos.
//
// Metrics: those of InteractionSerialEvaluator, where reward_* is for player 0, and reward<p>_mean, _std,
// _max and _min for each other player p.
//
// Ownership and threads: as IBattleEvaluator.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto evaluator, BattleInteractionSerialEvaluator::Create(
//                                             {}, &games, {ours, theirs}, deps));
//   if (evaluator->ShouldEval(train_iter)) {
//     DING_ASSIGN_OR_RETURN(const BattleEvalResult result, evaluator->Eval({}));
//   }
#ifndef DING_WORKER_COLLECTOR_EVALUATOR_BATTLE_INTERACTION_SERIAL_EVALUATOR_H_
#define DING_WORKER_COLLECTOR_EVALUATOR_BATTLE_INTERACTION_SERIAL_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/battle_evaluator.h"
#include "ding_worker/collector/evaluator/eval_core.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class BattleInteractionSerialEvaluator : public IBattleEvaluator {
 public:
  struct Options : SerialEvaluatorOptions {
    Options() { eval_freq = 50; }
  };

  // Launches `env` if it is not launched.
  //   kInvalidArgument  lists all problems: options, a null env or policy, or ones that do not fit
  static absl::StatusOr<std::unique_ptr<BattleInteractionSerialEvaluator>> Create(
      Options options, EnvManager* env, std::vector<EvalMode*> policies, ComponentDeps deps);

  absl::Status ResetEnv(EnvManager* env) override;
  absl::Status ResetPolicies(std::vector<EvalMode*> policies) override;
  absl::Status Reset(std::vector<EvalMode*> policies, EnvManager* env) override;
  bool ShouldEval(int64_t train_iter) override { return core_->ShouldEval(train_iter); }
  absl::StatusOr<BattleEvalResult> Eval(const EvalOptions& options) override;

  // The best mean return of player 0 so far; minus infinity before the first evaluation.
  double best_return() const { return core_->best_score(); }

  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  explicit BattleInteractionSerialEvaluator(std::unique_ptr<EvalCore> core)
      : core_(std::move(core)) {}

  const std::unique_ptr<EvalCore> core_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVALUATOR_BATTLE_INTERACTION_SERIAL_EVALUATOR_H_
