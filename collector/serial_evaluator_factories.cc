// Registers the evaluators "interaction", "battle_interaction" (for games) and "metric" (on
// labelled data), and the metrics "accuracy" and "action_mse".
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/collector/evaluator/metric_serial_evaluator.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

using RenderMode = InteractionSerialEvaluator::RenderMode;

absl::StatusOr<std::unique_ptr<ISerialEvaluator>> CreateInteractionSerialEvaluator(
    const SerialEvaluatorConfig& config, const InteractionEvaluatorParams& params, EnvManager* env,
    EvalMode* policy, const ComponentDeps& deps) {
  InteractionSerialEvaluator::Options options;
  ReadSerialEvaluatorOptions(config, &options);
  options.render_freq = params.render().render_freq();
  options.figure_path = params.figure_path();
  options.max_video_frames = params.max_video_frames();
  if (params.render().mode() == "envstep") {
    options.render_mode = RenderMode::kEnvstep;
  } else if (params.render().mode() != "train_iter") {
    options.problems.push_back(absl::StrCat("render.mode is '", params.render().mode(),
                                            "', expected 'train_iter' or 'envstep'"));
  }
  return InteractionSerialEvaluator::Create(std::move(options), env, policy, deps);
}

DING_REGISTER(SerialEvaluatorRegistry(), "interaction", CreateInteractionSerialEvaluator,
              "mean return over n_episode episodes; can write videos");

absl::StatusOr<std::unique_ptr<IBattleEvaluator>> CreateBattleInteractionSerialEvaluator(
    const SerialEvaluatorConfig& config, const NoParams& /*params*/, EnvManager* env,
    const std::vector<EvalMode*>& policies, const ComponentDeps& deps) {
  BattleInteractionSerialEvaluator::Options options;
  ReadSerialEvaluatorOptions(config, &options);
  return BattleInteractionSerialEvaluator::Create(std::move(options), env, policies, deps);
}

DING_REGISTER(BattleEvaluatorRegistry(), "battle_interaction",
              CreateBattleInteractionSerialEvaluator,
              "mean return of player 0 over n_episode games between policies");

absl::StatusOr<std::unique_ptr<IMetricEvaluator>> CreateMetricSerialEvaluator(
    const MetricEvaluatorConfig& config, const NoParams& /*params*/, IEvalData* data,
    const IMetric* metric, EvalMode* policy, const ComponentDeps& deps) {
  MetricSerialEvaluator::Options options;
  options.eval_freq = config.eval_freq();
  // A sorted map, because the order of a proto map depends on hashes.
  const std::map<std::string, double> stop_value(config.stop_value().begin(),
                                                 config.stop_value().end());
  for (const auto& [name, value] : stop_value) options.stop_value.Set(name, value);
  return MetricSerialEvaluator::Create(std::move(options), data, metric, policy, deps);
}

DING_REGISTER(MetricEvaluatorRegistry(), "metric", CreateMetricSerialEvaluator,
              "mean of a metric, such as accuracy, over labelled data");
DING_REGISTER(MetricRegistry(), "accuracy", std::make_shared<const ActionAccuracy>(),
              "share of the steps whose action is the recorded one; categories");
DING_REGISTER(MetricRegistry(), "action_mse", std::make_shared<const ActionSquaredError>(),
              "mean squared distance of the action from the recorded one; boxes");

}  // namespace
}  // namespace ding
