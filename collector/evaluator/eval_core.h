// The building block of evaluators that play episodes: it has an env manager, a policy per player,
// the schedule and the best result. A single-player env has one player; player 0 is evaluated.
//
// An evaluator of your own creates a core, inherits from CoreEvaluator and makes its result from
// the Outcome. Options::score says what "better" means. docs/reference/collector_core.md has an
// example.
//
// Ownership: as ISerialEvaluator: the core owns neither envs nor policies, and these must outlive
// it.
// Threads: thread-compatible: one caller at a time, envs and policies are called on its thread.
// Errors:    errors name the evaluator. After an error the best result is as before.
//
// Example:
//   absl::StatusOr<EvalResult> Eval(const EvalOptions& options) override {
//     DING_ASSIGN_OR_RETURN(const EvalCore::Outcome outcome, core()->Eval(options, /*videos=*/nullptr));
//     return outcome.ToResult();
//   }
#ifndef DING_WORKER_COLLECTOR_EVALUATOR_EVAL_CORE_H_
#define DING_WORKER_COLLECTOR_EVALUATOR_EVAL_CORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/collector/evaluator/vector_eval_monitor.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// The options of all evaluators that play episodes.
struct SerialEvaluatorOptions {
  int64_t eval_freq = 1000;  // train iterations between two evaluations, at least 1
  int64_t n_episode = 4;     // per evaluation, at least one per env
  double stop_value = 1e10;  // mean return at which training may stop
  // Eval() fails after this many abnormal steps of one env without a finished episode in between;
  // at least 1.
  int max_abnormal = 10;
  // Steps after which an episode is cut, with a warning; it counts with the return that it has by
  // then. 0: kMaxEpisodeSteps, or the env's own limit if that is higher.
  int64_t max_episode_steps = 0;
  static constexpr int64_t kMaxEpisodeSteps = 100000;
  // Problems that the caller found, for instance in the params. Create() reports them with its own.
  std::vector<std::string> problems;
};

class EvalCore {
 public:
  struct Options {
    SerialEvaluatorOptions common;
    bool game = false;  // whether the env is a game with a player per policy
    // Computes the score of an evaluation from its finished episodes. A new best score saves
    // "ckpt_best", and a score that reaches stop_value may end the training. NaN does neither.
    // Null: the score is the mean return of player 0.
    std::function<double(const VectorEvalMonitor& episodes)> score;
  };
  // The result of an evaluation.
  struct Outcome {
    VectorEvalMonitor monitor;  // the results of all episodes
    int64_t envsteps = 0;
    int64_t abnormal_episodes = 0;
    bool stop = false;  // whether the score has reached stop_value and train_iter > 0
    double score = 0;

    // The result of an evaluator for single-player envs.
    EvalResult ToResult() const;
  };

  // Launches `env` if it is not launched.
  //   kInvalidArgument  lists all problems: options, a null env or policy, or ones that do not fit
  static absl::StatusOr<std::unique_ptr<EvalCore>> Create(Options options, EnvManager* env,
                                                          std::vector<EvalMode*> policies,
                                                          ComponentDeps deps);

  // As in ISerialEvaluator. Empty `policies` keep the current ones.
  absl::Status ResetEnv(EnvManager* env);
  absl::Status ResetPolicies(std::vector<EvalMode*> policies);
  absl::Status Reset(std::vector<EvalMode*> policies, EnvManager* env);
  bool ShouldEval(int64_t train_iter) { return schedule_.ShouldEval(train_iter); }

  const ComponentDeps& deps() const { return deps_; }
  int env_num() const { return env_->env_num(); }
  int player_num() const { return static_cast<int>(players_.size()); }
  // The best score so far; minus infinity before the first evaluation.
  double best_score() const { return best_score_; }

  // Plays n_episode whole episodes, logs, and keeps the best result. Records pictures in `videos`
  // unless it is null.
  absl::StatusOr<Outcome> Eval(const EvalOptions& options, EvalVideos* videos);

  // Returns an error if the envs cannot be rendered.
  absl::Status CheckRender();

  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  struct Player {
    EvalMode* policy = nullptr;
    BatchBuilder output;
    SpecPtr observation;
    int first_field = 0;              // index of its first field in the env obs
    PlayerActs acts;                  // of the current step, in a game
    std::optional<BatchBuilder> obs;  // of the envs in which it acts, if not in all
  };
  // The part of an episode that has been played.
  struct Episode {
    int64_t steps = 0;
    double episode_return = 0;
    std::vector<double> other_returns;  // in a game, returns of players 1, 2, ...
  };
  // A running evaluation.
  struct Run {
    VectorEvalMonitor* monitor = nullptr;
    EvalVideos* videos = nullptr;  // null: no pictures
    int64_t envsteps = 0;
    int64_t abnormal_episodes = 0;
    std::vector<int> abnormal;      // abnormal steps per env since its last finished episode
    std::vector<bool> asked;        // per env, whether it has not answered yet
    std::vector<Episode> episodes;  // per env, the one that it plays
    int waits = 0;                  // consecutive waits for a ready env
    absl::Status last_pictures;     // of episodes that have ended
  };

  EvalCore(Options options, ComponentDeps deps);

  // Uses this env manager and these policies from now on, if they fit together.
  absl::Status Use(EnvManager* env, const std::vector<EvalMode*>& policies);
  std::vector<EvalMode*> policies() const;
  absl::Status ForgetRecurrentState(absl::Span<const int> env_ids);
  absl::Span<const int> SeatsOf(int player, absl::Span<const int> env_ids);
  absl::Status Play(const EvalOptions& options, Run* run);
  absl::Status StepEnvs(const EvalOptions& options, Run* run);
  // Returns the ready envs whose quota is not full, with their observations.
  ReadyObs Playing(const ReadyObs& ready, const VectorEvalMonitor& monitor);
  absl::Status TakePictures(const ReadyObs& playing, Run* run);
  absl::Status TakePicture(int env_id, Run* run);
  absl::Status Act(int player, const ReadyObs& playing, const EvalOptions& options);
  absl::Status Account(const Timesteps& timesteps, Run* run);
  void AddStep(const Timesteps& timesteps, size_t row, Run* run) const;
  absl::Status NoteFinished(const Timesteps& timesteps, const FinishedEpisode& finished, Run* run);
  // Ends the episodes that have reached the limit of steps, and begins new ones.
  absl::Status CutEndlessEpisodes(absl::Span<const int> env_ids, Run* run);
  int64_t StepLimit() const;
  absl::Status NoteAbnormal(int env_id, const std::string& cause, Run* run) const;
  void Log(const EvalOptions& options, const Outcome& outcome, double seconds);
  absl::Status NoteBest(const EvalOptions& options, double score);

  const Options options_;
  const ComponentDeps deps_;
  EnvManager* env_ = nullptr;
  std::vector<Player> players_;
  std::optional<BatchBuilder> obs_;  // observations of the playing envs, if not all play
  EvalSchedule schedule_;
  double best_score_ = -std::numeric_limits<double>::infinity();

  std::vector<std::byte*> action_columns_;  // of the current step, one per player
  std::vector<int> seats_;                  // scratch of SeatsOf()
  std::vector<int> playing_ids_;            // scratch of Playing()
  std::vector<int64_t> playing_rows_;       // scratch of Playing()
  std::vector<int> ended_envs_;             // scratch of Account()
  bool has_cut_ = false;                    // whether it has warned of an episode without an end
};

// Returns the list of policies of a core with one player; empty if `policy` is null. Create()
// refuses an empty list. With one, ResetPolicies() and Reset() keep the current policy.
std::vector<EvalMode*> PoliciesOf(EvalMode* policy);

// Base of evaluators that use a core with one player. Implements ISerialEvaluator, except for
// Eval().
//
// Ownership: owns the core.
class CoreEvaluator : public ISerialEvaluator {
 public:
  absl::Status ResetEnv(EnvManager* env) override { return core_->ResetEnv(env); }
  absl::Status ResetPolicy(EvalMode* policy) override {
    return core_->ResetPolicies(PoliciesOf(policy));
  }
  absl::Status Reset(EvalMode* policy, EnvManager* env) override {
    return core_->Reset(PoliciesOf(policy), env);
  }
  bool ShouldEval(int64_t train_iter) override { return core_->ShouldEval(train_iter); }
  absl::Status Close() override { return FlushSink(core_->deps().metrics.get()); }
  absl::Status SaveState(StateWriter* writer) const override { return core_->SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return core_->LoadState(reader); }

 protected:
  explicit CoreEvaluator(std::unique_ptr<EvalCore> core) : core_(std::move(core)) {}
  EvalCore* core() const { return core_.get(); }

 private:
  const std::unique_ptr<EvalCore> core_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVALUATOR_EVAL_CORE_H_
