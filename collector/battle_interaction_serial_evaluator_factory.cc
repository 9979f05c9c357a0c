// Registers BattleInteractionSerialEvaluator as "battle_interaction".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/battle_evaluator.h"
#include "ding_worker/collector/evaluator/battle_interaction_serial_evaluator.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_config.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<IBattleEvaluator>> CreateBattleInteractionSerialEvaluator(
    const SerialEvaluatorConfig& config, EnvManager* env, const std::vector<EvalMode*>& policies,
    const ComponentDeps& deps) {
  std::vector<std::string> problems;
  ReadParams(config, /*params=*/nullptr, &problems);
  BattleInteractionSerialEvaluator::Options options;
  ReadSerialEvaluatorOptions(config, &options);
  DING_RETURN_IF_ERROR(SerialProblemsToStatus(std::move(problems), options.Problems(), deps.name));
  return BattleInteractionSerialEvaluator::Create(options, env, policies, deps);
}

DING_REGISTER(BattleEvaluatorRegistry(), "battle_interaction",
              CreateBattleInteractionSerialEvaluator,
              "mean return of player 0 over n_episode games between policies");

}  // namespace
}  // namespace ding
