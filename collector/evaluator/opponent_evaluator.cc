#include "ding_worker/collector/evaluator/opponent_evaluator.h"

#include <cstddef>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/env.h"

namespace ding {

absl::StatusOr<std::unique_ptr<OpponentEvaluator>> OpponentEvaluator::Create(
    const MakeBattleEvaluator& make, MakeOpponent make_opponent, EnvManager* env, EvalMode* policy,
    absl::string_view name) {
  if (env == nullptr || policy == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", env == nullptr ? "no env manager" : "no policy"));
  }
  if (env->env_spec().players < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": env '", env->env_spec().name,
                     "' has 1 player, expected a game of at least 2 to play an opponent"));
  }
  // One opponent sits in all other seats.
  DING_RETURN_IF_ERROR(Annotate(CheckSamePlayers(env->env_spec(), /*first=*/1), name));
  auto evaluator =
      absl::WrapUnique(new OpponentEvaluator(name, std::move(make_opponent), env, policy));
  DING_ASSIGN_OR_RETURN(evaluator->opponent_, evaluator->NewOpponent());
  DING_ASSIGN_OR_RETURN(evaluator->games_,
                        make(env, Seats(policy, evaluator->opponent_.get(), *env)));
  return evaluator;
}

OpponentEvaluator::OpponentEvaluator(absl::string_view name, MakeOpponent make_opponent,
                                     EnvManager* env, EvalMode* policy)
    : name_(name), make_opponent_(std::move(make_opponent)), env_(env), policy_(policy) {}

absl::StatusOr<std::shared_ptr<Policy>> OpponentEvaluator::NewOpponent() const {
  absl::StatusOr<std::shared_ptr<Policy>> opponent = make_opponent_();
  if (!opponent.ok()) return Annotate(opponent.status(), absl::StrCat(name_, ", opponent"));
  return opponent;
}

std::vector<EvalMode*> OpponentEvaluator::Seats(EvalMode* policy, Policy* opponent,
                                                const EnvManager& env) {
  std::vector<EvalMode*> seats(static_cast<size_t>(env.env_spec().players), opponent->eval_mode());
  seats[0] = policy;
  return seats;
}

absl::Status OpponentEvaluator::Use(
    EnvManager* env, EvalMode* policy,
    absl::FunctionRef<absl::Status(const std::vector<EvalMode*>& seats)> reset) {
  EnvManager* const next_env = env == nullptr ? env_ : env;
  EvalMode* const next_policy = policy == nullptr ? policy_ : policy;
  DING_RETURN_IF_ERROR(Annotate(CheckSamePlayers(next_env->env_spec(), /*first=*/1), name_));
  DING_RETURN_IF_ERROR(reset(Seats(next_policy, opponent_.get(), *next_env)));
  env_ = next_env;
  policy_ = next_policy;
  return absl::OkStatus();
}

absl::Status OpponentEvaluator::ResetEnv(EnvManager* env) {
  return Use(env, nullptr, [&](const auto& /*seats*/) { return games_->ResetEnv(env); });
}

absl::Status OpponentEvaluator::ResetPolicy(EvalMode* policy) {
  if (policy == nullptr) return games_->ResetPolicies({});
  return Use(nullptr, policy, [&](const auto& seats) { return games_->ResetPolicies(seats); });
}

absl::Status OpponentEvaluator::Reset(EvalMode* policy, EnvManager* env) {
  return Use(env, policy, [&](const auto& seats) { return games_->Reset(seats, env); });
}

absl::StatusOr<EvalResult> OpponentEvaluator::Eval(const EvalOptions& options) {
  DING_ASSIGN_OR_RETURN(std::shared_ptr<Policy> opponent, NewOpponent());
  DING_RETURN_IF_ERROR(games_->ResetPolicies(Seats(policy_, opponent.get(), *env_)));
  opponent_ = std::move(opponent);
  DING_ASSIGN_OR_RETURN(BattleEvalResult games, games_->Eval(options));
  EvalResult result;
  result.stop = games.stop;
  result.mean_return = games.mean_return;
  result.envstep_count = games.envstep_count;
  result.abnormal_episode_count = games.abnormal_episode_count;
  result.episode_return = std::move(games.episode_return[0]);
  result.episode_info = std::move(games.episode_info);
  return result;
}

}  // namespace ding
