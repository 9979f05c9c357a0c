// Plays n_episode whole episodes without exploration and judges the policy by their mean return.
//
//   - Each env plays its share of the episodes (VectorEvalMonitor) and is then left alone.
//   - A mean return above all before saves "ckpt_best"; if that fails, Eval() fails and the result
//     does not count as the best.
//   - Training may stop once the mean return has reached stop_value and train_iter > 0.
//   - Every evaluation begins with a reset of all envs: with seeds that are not dynamic they play
//     the same episodes each time.
// An abnormal episode does not count; its env plays another one. An env whose episodes never end
// keeps Eval() from returning: give envs a time limit.
//
// Videos: of an evaluation that is filmed the worst, the median and the best episode become a GIF
// each (collector/eval_videos.h): the picture "<name>_train_iter/<which>" (or "_envstep") in the
// metrics, and the file <figure_path>/<name>_train_iter_<n>_<which>.gif. The last picture of an
// episode is that before its last step. An env that cannot be rendered fails the evaluation with
// its first picture; a folder that cannot be written, before it begins.
//
// Metrics of each evaluation: those of docs/collector.md, as "<name>_iter/<metric>" and
// "<name>_step/<metric>", and a line in the log.
//
// Ownership and threads: as ISerialEvaluator.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto evaluator, InteractionSerialEvaluator::Create(
//                                             {}, &envs, policy->eval_mode(), deps));
//   if (evaluator->ShouldEval(train_iter)) {
//     DING_ASSIGN_OR_RETURN(const EvalResult result, evaluator->Eval({}));
//   }
#ifndef DING_WORKER_COLLECTOR_INTERACTION_SERIAL_EVALUATOR_H_
#define DING_WORKER_COLLECTOR_INTERACTION_SERIAL_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/eval_core.h"
#include "ding_worker/collector/eval_videos.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class InteractionSerialEvaluator : public ISerialEvaluator {
 public:
  enum class RenderMode { kTrainIter, kEnvstep };
  struct Options : SerialEvaluatorOptions {
    // Train iterations or env steps, as render_mode says, from one evaluation that is filmed to the
    // next; -1: only those with force_render are.
    int64_t render_freq = -1;
    RenderMode render_mode = RenderMode::kTrainIter;
    // Folder for the videos as GIF files, in the folder of the run unless it is absolute; made if
    // there is none. Empty: videos go to the metrics only.
    std::string figure_path;
    // Pictures of an episode, at least 1; what follows is left out.
    int64_t max_video_frames = 2000;

    // What is wrong with them; empty if nothing is.
    std::vector<std::string> Problems() const;
  };

  // Launches `env` if it is not launched.
  //   kInvalidArgument  options (all problems at once), env or policy null or not fitting together
  static absl::StatusOr<std::unique_ptr<InteractionSerialEvaluator>> Create(Options options,
                                                                            EnvManager* env,
                                                                            EvalMode* policy,
                                                                            ComponentDeps deps);

  absl::Status ResetEnv(EnvManager* env) override;
  absl::Status ResetPolicy(EvalMode* policy) override;
  absl::Status Reset(EvalMode* policy, EnvManager* env) override;
  bool ShouldEval(int64_t train_iter) override { return core_->ShouldEval(train_iter); }
  absl::StatusOr<EvalResult> Eval(const EvalOptions& options) override;

  // Best mean return so far; minus infinity before the first evaluation.
  double best_return() const { return core_->best_return(); }

  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  InteractionSerialEvaluator(Options options, std::unique_ptr<EvalCore> core);

  // What render_freq counts.
  int64_t RenderClock(const EvalOptions& options) const;
  bool ShouldRender(const EvalOptions& options) const;
  std::string FigureFolder() const;
  absl::Status CheckFigurePath() const;
  absl::Status WriteVideos(const EvalOptions& options, EvalVideos* videos) const;

  const Options options_;
  const std::unique_ptr<EvalCore> core_;
  int64_t last_render_iter_ = -1;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_INTERACTION_SERIAL_EVALUATOR_H_
