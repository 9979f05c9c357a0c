// Registers BattleInteractionSerialEvaluator as "battle_interaction".
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/problems.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/battle_evaluator.h"
#include "ding_worker/collector/battle_interaction_serial_evaluator.h"
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
  ReadSerialParams(config, nullptr, &problems);
  BattleInteractionSerialEvaluator::Options options;
  ReadSerialEvaluatorOptions(config, &options);
  if (!problems.empty()) {
    const std::vector<std::string> others = options.Problems();
    problems.insert(problems.end(), others.begin(), others.end());
    return ProblemsToStatus(problems, deps.name);
  }
  return BattleInteractionSerialEvaluator::Create(options, env, policies, deps);
}

DING_REGISTER(BattleEvaluatorRegistry(), "battle_interaction",
              CreateBattleInteractionSerialEvaluator);

}  // namespace
}  // namespace ding
