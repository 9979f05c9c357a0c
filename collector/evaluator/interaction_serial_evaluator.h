// Evaluates a policy by its mean return over n_episode whole episodes without exploration.
//
//   - Each env plays its share of the episodes (VectorEvalMonitor) and is then not stepped any
//     more.
//   - A new best mean return saves "ckpt_best"; if that fails, Eval() fails and the result does not
//     count as the best.
//   - Training may stop when the mean return has reached stop_value and train_iter > 0.
//   - Every evaluation first resets all envs: with seeds that are not dynamic they play the same
//     episodes each time.
// An abnormal episode does not count; its env plays another one. An episode that does not end is
// cut after max_episode_steps.
//
// Videos: an evaluation that is filmed writes the worst, the median and the best episode as GIFs
// (collector/evaluator/vector_eval_monitor.h): the picture "<name>_train_iter/<which>" (or
// "_envstep") in the metrics, and the file <figure_path>/<name>_train_iter_<n>_<which>.gif. The
// last picture of an episode is the one before its last step. An env that cannot be rendered fails
// the evaluation at its first picture; a folder that cannot be written fails it before it begins.
//
// Each evaluation writes the metrics that docs/reference/collector.md lists, as
// "<name>_iter/<metric>" and "<name>_step/<metric>", and a line in the log.
//
// Ownership and threads: as ISerialEvaluator.
//
// Example, for one player and for a game:
//   DING_ASSIGN_OR_RETURN(auto evaluator, InteractionSerialEvaluator::Create(
//                                             {}, &envs, policy->eval_mode(), deps));
//   if (evaluator->ShouldEval(train_iter)) {
//     DING_ASSIGN_OR_RETURN(const EvalResult result, evaluator->Eval({}));
//   }
//   DING_ASSIGN_OR_RETURN(auto judge, BattleInteractionSerialEvaluator::Create(
//                                         {}, &games, {ours, theirs}, deps));
#ifndef DING_WORKER_COLLECTOR_EVALUATOR_INTERACTION_SERIAL_EVALUATOR_H_
#define DING_WORKER_COLLECTOR_EVALUATOR_INTERACTION_SERIAL_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/evaluator/eval_core.h"
#include "ding_worker/collector/evaluator/vector_eval_monitor.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class InteractionSerialEvaluator : public CoreEvaluator {
 public:
  enum class RenderMode { kTrainIter, kEnvstep };
  struct Options : SerialEvaluatorOptions {
    // The least train iterations or env steps (render_mode) between two filmed evaluations; -1:
    // only evaluations with force_render are filmed.
    int64_t render_freq = -1;
    RenderMode render_mode = RenderMode::kTrainIter;
    // The folder of the GIF files, relative to the folder of the run; it is created if needed.
    // Empty: videos go to the metrics only.
    std::string figure_path;
    // The maximal number of pictures per episode, at least 1; further ones are dropped.
    int64_t max_video_frames = 2000;
  };

  // Launches `env` if it is not launched.
  //   kInvalidArgument  lists all problems: options, a null env or policy, or ones that do not fit
  static absl::StatusOr<std::unique_ptr<InteractionSerialEvaluator>> Create(Options options,
                                                                            EnvManager* env,
                                                                            EvalMode* policy,
                                                                            ComponentDeps deps);

  absl::Status Reset(EvalMode* policy, EnvManager* env) override;
  absl::StatusOr<EvalResult> Eval(const EvalOptions& options) override;

  // The best mean return so far; minus infinity before the first evaluation.
  double best_return() const { return core()->best_score(); }

  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  InteractionSerialEvaluator(Options options, std::unique_ptr<EvalCore> core);

  // Returns the train iterations or env steps that render_freq counts.
  int64_t RenderClock(const EvalOptions& options) const;
  bool ShouldRender(const EvalOptions& options) const;
  // Fails in the first evaluation if videos are wanted but cannot be made. Otherwise the error
  // would come only when the first video is due, perhaps hours later.
  absl::Status CheckCanFilm(const EvalOptions& options);
  std::string FigureFolder() const;
  absl::Status CheckFigurePath() const;
  absl::Status WriteVideos(const EvalOptions& options, EvalVideos* videos) const;

  const Options options_;
  int64_t last_render_iter_ = -1;
  bool can_film_ = false;  // whether CheckCanFilm() has found that it can
};

// The same for games of two or more players, without videos. Policy p plays player p, and player 0
// is evaluated. In the metrics reward_* is for player 0, and reward<p>_mean, _std, _max and _min
// for each other player p.
class BattleInteractionSerialEvaluator : public IBattleEvaluator {
 public:
  struct Options : SerialEvaluatorOptions {
    Options() { eval_freq = 50; }
  };

  // As InteractionSerialEvaluator::Create().
  static absl::StatusOr<std::unique_ptr<BattleInteractionSerialEvaluator>> Create(
      Options options, EnvManager* env, std::vector<EvalMode*> policies, ComponentDeps deps);

  absl::Status ResetEnv(EnvManager* env) override { return core_->ResetEnv(env); }
  absl::Status ResetPolicies(std::vector<EvalMode*> policies) override {
    return core_->ResetPolicies(std::move(policies));
  }
  absl::Status Reset(std::vector<EvalMode*> policies, EnvManager* env) override {
    return core_->Reset(std::move(policies), env);
  }
  bool ShouldEval(int64_t train_iter) override { return core_->ShouldEval(train_iter); }
  absl::StatusOr<BattleEvalResult> Eval(const EvalOptions& options) override;
  absl::Status Close() override { return FlushSink(core_->deps().metrics.get()); }

  // The best mean return of player 0 so far; minus infinity before the first evaluation.
  double best_return() const { return core_->best_score(); }

  absl::Status SaveState(StateWriter* writer) const override { return core_->SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return core_->LoadState(reader); }

 private:
  explicit BattleInteractionSerialEvaluator(std::unique_ptr<EvalCore> core)
      : core_(std::move(core)) {}

  const std::unique_ptr<EvalCore> core_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVALUATOR_INTERACTION_SERIAL_EVALUATOR_H_
