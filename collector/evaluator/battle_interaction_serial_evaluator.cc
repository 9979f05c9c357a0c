#include "ding_worker/collector/evaluator/battle_interaction_serial_evaluator.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::StatusOr<std::unique_ptr<BattleInteractionSerialEvaluator>>
BattleInteractionSerialEvaluator::Create(Options options, EnvManager* env,
                                         std::vector<EvalMode*> policies, ComponentDeps deps) {
  EvalCore::Options core_options;
  core_options.common = options;
  core_options.game = true;
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<EvalCore> core,
      EvalCore::Create(std::move(core_options), env, std::move(policies), std::move(deps)));
  return absl::WrapUnique(new BattleInteractionSerialEvaluator(std::move(core)));
}

absl::Status BattleInteractionSerialEvaluator::ResetEnv(EnvManager* env) {
  return core_->ResetEnv(env);
}

absl::Status BattleInteractionSerialEvaluator::ResetPolicies(std::vector<EvalMode*> policies) {
  return core_->ResetPolicies(std::move(policies));
}

absl::Status BattleInteractionSerialEvaluator::Reset(std::vector<EvalMode*> policies,
                                                     EnvManager* env) {
  return core_->Reset(std::move(policies), env);
}

absl::StatusOr<BattleEvalResult> BattleInteractionSerialEvaluator::Eval(
    const EvalOptions& options) {
  if (options.force_render) {
    return absl::InvalidArgumentError(
        absl::StrCat(core_->deps().name, ": force_render is set, but games are not filmed"));
  }
  DING_ASSIGN_OR_RETURN(const EvalCore::Outcome outcome, core_->Eval(options, nullptr));
  BattleEvalResult result;
  result.stop = outcome.stop;
  result.mean_return = outcome.score;
  result.envstep_count = outcome.envsteps;
  for (int player = 0; player < core_->player_num(); ++player) {
    result.episode_return.push_back(outcome.monitor.GetEpisodeReturn(player));
  }
  result.episode_info = outcome.monitor.GetEpisodeInfo();
  return result;
}

absl::Status BattleInteractionSerialEvaluator::SaveState(StateWriter* writer) const {
  return core_->SaveState(writer);
}

absl::Status BattleInteractionSerialEvaluator::LoadState(StateReader* reader) {
  return core_->LoadState(reader);
}

}  // namespace ding
