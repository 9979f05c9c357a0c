// What the evaluators that play episodes share: an env manager, a policy for each player, when to
// evaluate, the best result so far. An env for one has one player; player 0 is judged.
//
// Ownership, threads: as ISerialEvaluator.   Errors: name the evaluator.
#ifndef DING_WORKER_COLLECTOR_EVAL_CORE_H_
#define DING_WORKER_COLLECTOR_EVAL_CORE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/eval_schedule.h"
#include "ding_worker/collector/eval_videos.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/vector_eval_monitor.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// What can be set of every evaluator that plays episodes.
struct SerialEvaluatorOptions {
  int64_t eval_freq = 1000;  // train iterations between two evaluations, at least 1
  int64_t n_episode = 4;     // per evaluation, at least one per env
  double stop_value = 1e10;  // mean return at which training may stop
  // Abnormal steps of one env, without a finished episode in between, after which Eval() fails;
  // at least 1.
  int max_abnormal = 10;

  // What is wrong with them; empty if nothing is.
  std::vector<std::string> Problems() const;
};

class EvalCore {
 public:
  struct Options {
    SerialEvaluatorOptions common;
    bool game = false;                  // of as many players as there are policies
    std::vector<std::string> problems;  // of the evaluator's options
  };
  // What was played.
  struct Outcome {
    VectorEvalMonitor monitor;
    int64_t envsteps = 0;
    bool stop = false;       // as of EvalResult
    double mean_return = 0;  // of player 0
  };

  // Launches `env` if it is not launched.
  //   kInvalidArgument  options (all problems at once), env or a policy null or not fitting
  static absl::StatusOr<std::unique_ptr<EvalCore>> Create(Options options, EnvManager* env,
                                                          std::vector<EvalMode*> policies,
                                                          ComponentDeps deps);

  // As of ISerialEvaluator; no policies: those that there are.
  absl::Status ResetEnv(EnvManager* env);
  absl::Status ResetPolicies(std::vector<EvalMode*> policies);
  absl::Status Reset(std::vector<EvalMode*> policies, EnvManager* env);
  bool ShouldEval(int64_t train_iter) { return schedule_.ShouldEval(train_iter); }

  const ComponentDeps& deps() const { return deps_; }
  int env_num() const { return env_->env_num(); }
  int player_num() const { return static_cast<int>(players_.size()); }
  double best_return() const { return best_return_; }

  // Plays, logs and keeps the best. Takes the pictures for `videos`, if it is not null.
  absl::StatusOr<Outcome> Eval(const EvalOptions& options, EvalVideos* videos);

  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  struct Player {
    EvalMode* policy = nullptr;
    BatchBuilder output;
  };
  // An evaluation under way.
  struct Run {
    VectorEvalMonitor* monitor;
    EvalVideos* videos;
    int64_t envsteps = 0;
    std::vector<int> abnormal;  // per env, since its last finished episode
    std::vector<bool> asked;    // per env: has not answered yet
    int waits = 0;              // for an env to be ready, in a row
  };

  EvalCore(Options options, ComponentDeps deps);

  // Works with these from now on, if they fit together.
  absl::Status Use(EnvManager* env, const std::vector<EvalMode*>& policies);
  std::vector<EvalMode*> policies() const;
  absl::Status ForgetRecurrentState(absl::Span<const int> env_ids);
  absl::Span<const int> SeatsOf(int player, absl::Span<const int> env_ids);
  absl::Status Play(const EvalOptions& options, Run* run);
  absl::Status StepEnvs(const NamedValues& settings, Run* run);
  // The ready envs whose quota is not full, with their observations.
  ReadyObs Playing(const ReadyObs& ready, const VectorEvalMonitor& monitor);
  absl::Status TakePictures(const ReadyObs& playing, Run* run);
  absl::Status Act(int player, const ReadyObs& playing, const NamedValues& settings);
  absl::Status Account(const Timesteps& timesteps, Run* run);
  absl::Status NoteAbnormal(int env_id, const std::string& cause, Run* run) const;
  void Log(const EvalOptions& options, const Outcome& outcome, double seconds);
  absl::Status NoteBest(const EvalOptions& options, double mean_return);

  const Options options_;
  const ComponentDeps deps_;
  EnvManager* env_ = nullptr;
  EnvSpec player_spec_;  // what one player sees and does
  std::vector<Player> players_;
  std::optional<BatchBuilder> obs_;  // of the envs that play, when not all do
  EvalSchedule schedule_;
  double best_return_ = -std::numeric_limits<double>::infinity();

  std::vector<std::byte*> action_columns_;  // of the step under way, one per player
  std::vector<int> seats_;                  // scratch of SeatsOf()
  std::vector<int> playing_ids_;            // scratch of Playing()
  std::vector<int64_t> playing_rows_;       // scratch of Playing()
  std::vector<int> ended_envs_;             // scratch of Account()
};

// The policies of a core for one player: none if null.
std::vector<EvalMode*> PoliciesOf(EvalMode* policy);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVAL_CORE_H_
