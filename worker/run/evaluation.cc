#include "ding_worker/worker/run/evaluation.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/serial/episode_serial_collector.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/env/game_spec.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/policy/eval_collect_mode.h"
#include "ding_worker/worker/run/experiment_setup.h"
#include "ding_worker/worker/run/game_setup.h"

namespace ding {
namespace {

// Evaluates by means of a collector, which keeps the rows, and records them.
absl::StatusOr<EvalResult> Record(const EvaluationOptions& options, EnvManager* envs,
                                  EvalMode* policy) {
  EvalCollectMode collect(policy);
  ComponentDeps deps;
  deps.name = "recorder";
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<EpisodeSerialCollector> collector,
                        EpisodeSerialCollector::Create({}, envs, &collect, deps));
  CollectOptions collect_options;
  collect_options.target = options.n_episode;
  EpisodeSet set;
  DING_ASSIGN_OR_RETURN(set.episodes, collector->Collect(collect_options));
  set.env = envs->env_spec().name;
  DING_RETURN_IF_ERROR(WriteEpisodes(options.record_episodes, set));
  EvalResult result;
  DING_ASSIGN_OR_RETURN(result.episode_return, EpisodeReturns(set.episodes));
  result.mean_return =
      std::accumulate(result.episode_return.begin(), result.episode_return.end(), 0.0) /
      static_cast<double>(result.episode_return.size());
  return result;
}

absl::StatusOr<EvalResult> Evaluate(const EvaluationOptions& options) {
  DING_ASSIGN_OR_RETURN(const CheckpointReader checkpoint, OpenTrainCheckpoint(options.checkpoint));
  DING_ASSIGN_OR_RETURN(ExperimentConfig config, ConfigOfCheckpoint(checkpoint.info()));

  if (config.env().type().empty()) {
    return absl::FailedPreconditionError(
        "its run had no env, so that there is nothing to play: it was judged on its data set "
        "alone");
  }
  const auto env_num =
      static_cast<int>(std::min<int64_t>(options.n_episode, config.env().evaluator_env_num()));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<EnvManager> envs,
                        MakeEvaluatorEnvManager(config, env_num, Clock::Real()));
  DING_RETURN_IF_ERROR(envs->Seed(Rng::DeriveSeed(options.seed, "evaluate"), /*dynamic=*/true));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Policy> policy,
                        LoadEvalPolicy(checkpoint, config, PlayerSpec(envs->env_spec())));
  if (!options.record_episodes.empty()) return Record(options, envs.get(), policy->eval_mode());

  config.mutable_policy()->mutable_eval()->mutable_evaluator()->set_n_episode(options.n_episode);
  ComponentDeps deps;
  deps.name = "evaluator";
  deps.seed = options.seed;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<ISerialEvaluator> evaluator,
                        MakeEvaluator(config, envs.get(), policy->eval_mode(), deps));
  return evaluator->Eval(EvalOptions());
}

}  // namespace

absl::StatusOr<EvalResult> EvaluateCheckpoint(const EvaluationOptions& options) {
  if (options.n_episode < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("n_episode is ", options.n_episode, ", expected 1 or more"));
  }
  absl::StatusOr<EvalResult> result = Evaluate(options);
  if (result.ok()) return result;
  return Annotate(result.status(), absl::StrCat("cannot evaluate ", options.checkpoint));
}

}  // namespace ding
