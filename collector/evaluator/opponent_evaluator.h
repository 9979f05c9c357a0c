// Adapts the evaluation in games to ISerialEvaluator: the policy is player 0, and an opponent plays
// all other seats.
//
//     policy ──► seat 0 ─┐
//                        ├─► IBattleEvaluator ──► result of player 0
//     opponent ──► 1, ...┘
//
// A new opponent is created for each evaluation, so that a random opponent acts the same in all of
// them. If the envs also play the same episodes, results are comparable and a resumed run continues
// exactly.
//
// Ownership, threads, errors: as ISerialEvaluator. Games are not filmed (force_render is refused).
//
// Example:
//   const auto opponent = [options] { return CreateRandomPolicy(options); };
//   const auto make = [](EnvManager* env, const std::vector<EvalMode*>& policies) {
//     return BattleInteractionSerialEvaluator::Create({}, env, policies, ComponentDeps());
//   };
//   DING_ASSIGN_OR_RETURN(auto evaluator,
//                         OpponentEvaluator::Create(make, opponent, &games, policy, "evaluator"));
#ifndef DING_WORKER_COLLECTOR_EVALUATOR_OPPONENT_EVALUATOR_H_
#define DING_WORKER_COLLECTOR_EVALUATOR_OPPONENT_EVALUATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class OpponentEvaluator : public ISerialEvaluator {
 public:
  // Creates the evaluator of the games with a policy per player.
  using MakeBattleEvaluator = std::function<absl::StatusOr<std::unique_ptr<IBattleEvaluator>>(
      EnvManager* env, const std::vector<EvalMode*>& policies)>;
  // Creates an opponent with an eval mode. It may always return the same object if that object acts
  // the same each time.
  using MakeOpponent = std::function<absl::StatusOr<std::shared_ptr<Policy>>()>;

  // `name` is used in messages.
  //   kInvalidArgument  env or policy are null or do not fit; the env is not a game
  static absl::StatusOr<std::unique_ptr<OpponentEvaluator>> Create(const MakeBattleEvaluator& make,
                                                                   MakeOpponent make_opponent,
                                                                   EnvManager* env,
                                                                   EvalMode* policy,
                                                                   absl::string_view name);

  absl::Status ResetEnv(EnvManager* env) override;
  absl::Status ResetPolicy(EvalMode* policy) override;
  absl::Status Reset(EvalMode* policy, EnvManager* env) override;
  bool ShouldEval(int64_t train_iter) override { return games_->ShouldEval(train_iter); }
  absl::StatusOr<EvalResult> Eval(const EvalOptions& options) override;

  absl::Status SaveState(StateWriter* writer) const override { return games_->SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return games_->LoadState(reader); }

 private:
  OpponentEvaluator(absl::string_view name, MakeOpponent make_opponent, EnvManager* env,
                    EvalMode* policy);

  absl::StatusOr<std::shared_ptr<Policy>> NewOpponent() const;
  static std::vector<EvalMode*> Seats(EvalMode* policy, Policy* opponent, const EnvManager& env);
  // Uses this env manager and this policy from now on if reset() of the games' evaluator succeeds;
  // null: the current ones.
  absl::Status Use(EnvManager* env, EvalMode* policy,
                   absl::FunctionRef<absl::Status(const std::vector<EvalMode*>& seats)> reset);

  const std::string name_;
  const MakeOpponent make_opponent_;
  EnvManager* env_;
  EvalMode* policy_;
  std::shared_ptr<Policy> opponent_;
  std::unique_ptr<IBattleEvaluator> games_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVALUATOR_OPPONENT_EVALUATOR_H_
