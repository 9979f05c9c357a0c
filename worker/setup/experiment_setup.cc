#include "ding_worker/worker/setup/experiment_setup.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/utf8.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/metrics/sink_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/policy_defaults.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/saved_policy/policy_description.h"

namespace ding {
namespace {

constexpr char kConfigField[] = "config";
// Results of a run, for its sinks.
constexpr char kFinalEval[] = "final_eval";
constexpr char kEnvSteps[] = "env_steps";
constexpr char kWallSeconds[] = "wall_seconds";

// Whether the evaluator of the config takes pictures. An evaluator of somebody else's may do so.
bool Films(const SerialEvaluatorConfig& evaluator) {
  InteractionEvaluatorParams params;
  const bool ours = evaluator.type() == "interaction" || evaluator.type() == "battle_interaction";
  if (!ours || !evaluator.params().UnpackTo(&params)) return !ours;
  return params.render().render_freq() != -1;
}

// Python processes that take turns on the cores train several times slower.
void WarnOfManyProcesses(const EnvConfig& env, const EnvManagerConfig& manager, int env_num) {
  const bool in_processes = manager.type() == "subprocess" || manager.type() == "async_subprocess";
  const int each = manager.envs_per_process();
  if (!in_processes || each <= 0 || !EnvGroupRegistry().Find(env.type()).ok()) return;
  const int processes = (env_num - 1) / each + 1;
  const int cores = UsableCores();
  if (processes <= cores) return;
  DING_LOG_FIRST_N(WARNING, 1) << "env.manager.envs_per_process is " << each << ": " << env_num
                               << " Python envs run in " << processes << " processes on " << cores
                               << " cores, which is slow; leave it out, or write "
                                  "envs_per_process: 0, for one process per core";
}

// The numbers of the envs of a process are a block: those that collect, those that evaluate, and a
// probe of the process, of the learner and of the coordinator with the same index.
absl::StatusOr<std::unique_ptr<EnvManager>> ManagerOf(const EnvConfig& env,
                                                      const ExperimentConfig& config, int env_num,
                                                      const Clock* clock, bool evaluates,
                                                      const EnvsOptions& options) {
  const int64_t collectors = config.env().collector_env_num();
  const int64_t players = collectors + config.env().evaluator_env_num();
  const int64_t first = options.place.index * (players + 3);
  EnvsUse use;
  use.evaluates = evaluates;
  use.video_folder = options.video_folder;
  use.probes = options.place.kind != EnvPlace::kCollector;
  use.pictures = options.pictures || (evaluates && Films(config.policy().eval().evaluator()));
  use.first_number = first + (evaluates ? collectors : 0);
  use.probe_number = first + players + options.place.kind;
  WarnOfManyProcesses(env, config.env().manager(), env_num);
  return create_envs(env, config.env().manager(), env_num, clock, use);
}

// The bound of a sum of 1 to `steps` rewards; `steps` 0 stands for any number of them. `away` says
// whether more rewards move the sum away from 0.
double BoundOfSum(double reward, int64_t steps, bool away) {
  if (!away) return reward;
  return steps > 0 ? reward * static_cast<double>(steps)
                   : std::copysign(std::numeric_limits<double>::infinity(), reward);
}

MetricAxis AxisOf(const MetricsSection& config) {
  switch (config.x_axis()) {
    case MetricsSection::ENV_STEP:
      return MetricAxis::kEnvStep;
    case MetricsSection::TRAIN_ITER:
      return MetricAxis::kTrainIter;
    case MetricsSection::BOTH:
      break;
  }
  return MetricAxis::kBoth;
}

// Returns a text without the quotation marks and escapes of a file, unless it would not be a line
// of UTF-8.
std::string WithoutQuotes(absl::string_view value) {
  if (!absl::ConsumePrefix(&value, "\"")) return std::string(value);
  absl::ConsumeSuffix(&value, "\"");
  std::string text;
  const bool is_line = absl::CUnescape(value, &text) && PrintableUtf8(text) == text;
  return is_line ? text : std::string(value);
}

}  // namespace

absl::StatusOr<std::unique_ptr<EnvManager>> MakeEnvManager(const ExperimentConfig& config,
                                                           int env_num, const Clock* clock,
                                                           const EnvsOptions& options) {
  return ManagerOf(MakeEnvConfig(config), config, env_num, clock, /*evaluates=*/false, options);
}

absl::StatusOr<std::unique_ptr<EnvManager>> MakeEvaluatorEnvManager(const ExperimentConfig& config,
                                                                    int env_num, const Clock* clock,
                                                                    const EnvsOptions& options) {
  return ManagerOf(MakeEvaluatorEnvConfig(config), config, env_num, clock, /*evaluates=*/true,
                   options);
}

absl::StatusOr<std::unique_ptr<EnvManager>> MakeOpponentEnvManager(const ExperimentConfig& config,
                                                                   const std::string& opponent,
                                                                   int env_num, const Clock* clock,
                                                                   const EnvsOptions& options) {
  if (config.env().eval_opponent_size() == 0) {
    return MakeEvaluatorEnvManager(config, env_num, clock, options);
  }
  for (const EvalOpponentConfig& found : config.env().eval_opponent()) {
    if (found.name() != opponent) continue;
    EnvConfig env = MakeEvaluatorEnvConfig(config);
    env.set_type(found.evaluator_type());
    env.clear_params();
    if (found.has_evaluator_params()) *env.mutable_params() = found.evaluator_params();
    env.clear_reward_weights();
    return ManagerOf(env, config, env_num, clock, /*evaluates=*/true, options);
  }
  return absl::NotFoundError(
      absl::StrCat("the config has no env.eval_opponent named '", opponent, "'"));
}

PolicyContext MakePolicyContext(const ExperimentConfig& config, const EnvSpec& env,
                                const PolicyModes& modes) {
  PolicyContext context;
  context.observation = env.observation;
  context.action = env.action;
  context.reward_shape = env.reward_shape;
  context.env = env.name;
  context.seed = config.seed();
  context.modes = modes;
  return context;
}

absl::Status CopyEnvStatistics(const EnvManager& from, EnvManager* to) {
  if (!to->has_statistics()) return absl::OkStatus();
  StateDict statistics("the statistics of the envs that collect");
  DING_RETURN_IF_ERROR(from.SaveStatistics(&statistics));
  return to->LoadStatistics(&statistics);
}

absl::Status LoadEnvStatistics(const CheckpointReader& checkpoint, EnvManager* envs) {
  if (!envs->has_statistics()) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> reader,
                        checkpoint.Component(kEnvStatisticsComponent));
  return Annotate(envs->LoadStatistics(reader.get()), kEnvStatisticsComponent);
}

absl::Status RefuseEnvStatistics(const EnvManager& envs) {
  if (!envs.has_statistics()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "env.wrapper 'normalize_observation' has statistics of all envs of one process, which "
      "collects: expected serial "
      "training, or a policy that normalizes (normalize_obs): impala, in supervised runs bc");
}

void DescribeRun(const ExperimentConfig& config, const EnvSpec& env, CheckpointInfo* info) {
  info->fields[kConfigField] = PrintTextConfig(config);
  info->fields["env"] = env.name;
  info->fields["policy"] = config.policy().type();
  DescribePolicy(MakePolicyConfig(config), PlayerSpec(env), info);
}

absl::StatusOr<ExperimentConfig> ConfigOfCheckpoint(const CheckpointInfo& info) {
  const auto found = info.fields.find(kConfigField);
  if (found == info.fields.end()) {
    return absl::NotFoundError(
        "the checkpoint holds no config; it was not saved by //worker:serial");
  }
  return ParseExperimentConfig(found->second, "config in the checkpoint", {});
}

absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(const ExperimentConfig& config,
                                                   const EnvSpec& env, const PolicyModes& modes) {
  auto policy = create_policy(MakePolicyConfig(config), MakePolicyContext(config, env, modes));
  if (policy.ok()) return policy;
  // The message may name values that the user did not write: defaults of the policy.
  std::vector<std::string> parts = DefaultsInError(config, policy.status().message());
  parts.emplace(parts.begin(), policy.status().message());
  return absl::Status(policy.status().code(), absl::StrJoin(parts, "; "));
}

PolicyModes EvalModeOnly() {
  PolicyModes modes;
  modes.learn = modes.collect = modes.command = false;
  return modes;
}

PolicyModes CollectModeOnly() {
  PolicyModes modes;
  modes.learn = modes.eval = modes.command = false;
  return modes;
}

absl::StatusOr<std::unique_ptr<Policy>> LoadEvalPolicy(const CheckpointReader& checkpoint,
                                                       const ExperimentConfig& config,
                                                       const EnvSpec& player) {
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy, MakePolicy(config, player, EvalModeOnly()));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> model,
                        checkpoint.Component(kModelComponent));
  DING_RETURN_IF_ERROR(policy->eval_mode()->LoadModel(model.get()));
  return policy;
}

absl::StatusOr<std::unique_ptr<Policy>> LoadEvalPolicy(const std::string& checkpoint,
                                                       const EnvSpec& player) {
  const auto load = [&]() -> absl::StatusOr<std::unique_ptr<Policy>> {
    DING_ASSIGN_OR_RETURN(const CheckpointReader reader, OpenTrainCheckpoint(checkpoint));
    DING_ASSIGN_OR_RETURN(const ExperimentConfig config, ConfigOfCheckpoint(reader.info()));
    return LoadEvalPolicy(reader, config, player);
  };
  absl::StatusOr<std::unique_ptr<Policy>> policy = load();
  if (!policy.ok()) return Annotate(policy.status(), absl::StrCat("checkpoint ", checkpoint));
  return policy;
}

ReturnBounds BoundsOfReturns(const EnvSpec& env) {
  ReturnBounds bounds;
  // The return is the sum of the components, if there are several; the bounds are those of each.
  const auto components = static_cast<double>(std::max<int64_t>(1, env.reward_components()));
  bounds.low =
      BoundOfSum(components * env.reward_low, env.max_episode_steps, /*away=*/env.reward_low < 0);
  bounds.high =
      BoundOfSum(components * env.reward_high, env.max_episode_steps, /*away=*/env.reward_high > 0);
  return bounds;
}

ReturnBounds EitherOf(const ReturnBounds& a, const ReturnBounds& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

absl::Status AddSinks(const ExperimentConfig& config, const std::string& exp_dir,
                      const std::string& process, std::shared_ptr<MetricSink>* metrics) {
  std::vector<std::shared_ptr<MetricSink>> sinks;
  if (config.metrics().files()) sinks.push_back(*metrics);
  for (int i = 0; i < config.metrics().sink_size(); ++i) {
    absl::StatusOr<std::shared_ptr<MetricSink>> sink =
        create_sink(config.metrics().sink(i), {exp_dir, process});
    DING_RETURN_IF_ERROR(Annotate(sink.status(), absl::StrCat("metrics.sink[", i, "]")));
    sinks.push_back(*std::move(sink));
  }
  *metrics = std::make_shared<MultiSink>(std::move(sinks), AxisOf(config.metrics()));
  return absl::OkStatus();
}

RunDescription DescribeRunForSinks(const ExperimentConfig& config) {
  RunDescription run;
  run.name = config.exp_name();
  for (const SetField& field : ListSetFields(config)) {
    run.hyperparameters.emplace_back(field.path, WithoutQuotes(field.value));
  }
  return run;
}

RunResults ResultsForSinks(std::optional<double> eval_value, int64_t env_steps,
                           double wall_seconds) {
  RunResults results;
  if (eval_value.has_value()) results.emplace_back(kFinalEval, *eval_value);
  results.emplace_back(kEnvSteps, static_cast<double>(env_steps));
  results.emplace_back(kWallSeconds, wall_seconds);
  return results;
}

}  // namespace ding
