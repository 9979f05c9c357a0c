// Registers InteractionSerialEvaluator as "interaction".
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/interaction_serial_evaluator.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_common.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<ISerialEvaluator>> CreateInteractionSerialEvaluator(
    const SerialEvaluatorConfig& config, EnvManager* env, EvalMode* policy,
    const ComponentDeps& deps) {
  InteractionSerialEvaluator::Options options;
  options.eval_freq = config.eval_freq();
  options.n_episode = config.n_episode();
  options.stop_value = config.stop_value();
  options.max_abnormal = config.max_abnormal();
  if (config.has_params()) {
    std::vector<std::string> problems = options.Problems();
    problems.push_back("params are given, but type 'interaction' has none of its own");
    return ProblemsToStatus(problems, deps.name);
  }
  return InteractionSerialEvaluator::Create(options, env, policy, deps);
}

DING_REGISTER(SerialEvaluatorRegistry(), "interaction", CreateInteractionSerialEvaluator);

}  // namespace
}  // namespace ding
