// Registers InteractionSerialEvaluator as "interaction".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_config.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

using RenderMode = InteractionSerialEvaluator::RenderMode;

absl::StatusOr<std::unique_ptr<ISerialEvaluator>> CreateInteractionSerialEvaluator(
    const SerialEvaluatorConfig& config, EnvManager* env, EvalMode* policy,
    const ComponentDeps& deps) {
  std::vector<std::string> problems;
  InteractionEvaluatorParams params;
  ReadParams(config, &params, &problems);
  InteractionSerialEvaluator::Options options;
  ReadSerialEvaluatorOptions(config, &options);
  options.render_freq = params.render().render_freq();
  options.figure_path = params.figure_path();
  options.max_video_frames = params.max_video_frames();
  if (params.render().mode() == "envstep") {
    options.render_mode = RenderMode::kEnvstep;
  } else if (params.render().mode() != "train_iter") {
    problems.push_back(absl::StrCat("render.mode is '", params.render().mode(),
                                    "', expected 'train_iter' or 'envstep'"));
  }
  DING_RETURN_IF_ERROR(SerialProblemsToStatus(std::move(problems), options.Problems(), deps.name));
  return InteractionSerialEvaluator::Create(std::move(options), env, policy, deps);
}

DING_REGISTER(SerialEvaluatorRegistry(), "interaction", CreateInteractionSerialEvaluator,
              "mean return over n_episode episodes; can write videos",
              &InteractionEvaluatorParams::descriptor);

}  // namespace
}  // namespace ding
