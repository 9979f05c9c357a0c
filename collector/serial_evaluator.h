// Evaluates a policy: plays whole episodes without exploration, keeps the best result, and says
// when training may stop. ISerialEvaluator does so in envs for one player, IBattleEvaluator in
// games (env/env.h).
//
// Ownership and threads: as ISerialCollector.
#ifndef DING_WORKER_COLLECTOR_SERIAL_EVALUATOR_H_
#define DING_WORKER_COLLECTOR_SERIAL_EVALUATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Saves a checkpoint under the name "ckpt_best"; called after a new best evaluation.
using SaveCheckpointFn = std::function<absl::Status(absl::string_view name)>;

struct EvalOptions {
  SaveCheckpointFn save_checkpoint;  // may be empty
  int64_t train_iter = -1;
  int64_t envstep = -1;
  std::optional<int64_t> n_episode;  // default: the config's value
  NamedValues policy_settings;
  TensorMap policy_tensors;   // as in CollectOptions
  bool force_render = false;  // makes videos also if they are not due
  // If set, it is called between two vector steps; true ends the evaluation with kCancelled.
  std::function<bool()> cancelled;
};

struct EvalResult {
  // Whether the mean return has reached the stop value and train_iter > 0.
  bool stop = false;
  double mean_return = 0;              // or the score, if the evaluator computes another one
  int64_t envstep_count = 0;           // env steps of the evaluation
  int64_t abnormal_episode_count = 0;  // episodes that an abnormal step ended; they do not count
  std::vector<double> episode_return;  // all returns, env by env
  // The values of episodes by name, env by env: the env's values at the end of the episode, as
  // "info/<name>"; our "eval_episode_return"; and for a reward with components "return_0",
  // "return_1", ... Some episodes may lack a value.
  std::map<std::string, std::vector<double>> episode_info;
};

// A value that an env gives at the end of its episodes.
struct EpisodeValue {
  std::string name;
  double mean = 0;         // of the finite values; NaN if there are none
  int64_t count = 0;       // episodes that gave a finite value
  int64_t not_finite = 0;  // episodes that gave NaN or infinity
};

class ISerialEvaluator {
 public:
  virtual ~ISerialEvaluator() = default;

  // Use `env`, or `policy`, from now on. Null: resets all current envs, or keeps the current policy
  // and drops its recurrent state.
  virtual absl::Status ResetEnv(EnvManager* env) = 0;
  virtual absl::Status ResetPolicy(EvalMode* policy) = 0;
  // Does both, and drops the best result and the time of the last evaluation.
  virtual absl::Status Reset(EvalMode* policy, EnvManager* env) = 0;

  // Whether an evaluation is due. It returns true at most once per iteration, which then counts as
  // evaluated.
  virtual bool ShouldEval(int64_t train_iter) = 0;
  // Plays the episodes. Calls options.save_checkpoint if the result is the best so far.
  virtual absl::StatusOr<EvalResult> Eval(const EvalOptions& options) = 0;
  // Flushes the metrics. May be called again. The env manager stays open: its owner closes it.
  virtual absl::Status Close() { return absl::OkStatus(); }

  // Save and load the best result and the time of the last evaluation.
  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

struct BattleEvalResult {
  // Whether the mean return of player 0 has reached the stop value and train_iter > 0.
  bool stop = false;
  double mean_return = 0;                           // of player 0
  int64_t envstep_count = 0;                        // env steps of the evaluation
  int64_t abnormal_episode_count = 0;               // as in EvalResult
  std::vector<std::vector<double>> episode_return;  // for each player, all returns, env by env
  std::map<std::string, std::vector<double>> episode_info;  // as in EvalResult
};

// Policy p plays player p; player 0 is evaluated.
class IBattleEvaluator {
 public:
  virtual ~IBattleEvaluator() = default;

  // As in ISerialEvaluator. Empty `policies` keep the current ones.
  virtual absl::Status ResetEnv(EnvManager* env) = 0;
  virtual absl::Status ResetPolicies(std::vector<EvalMode*> policies) = 0;
  virtual absl::Status Reset(std::vector<EvalMode*> policies, EnvManager* env) = 0;
  virtual bool ShouldEval(int64_t train_iter) = 0;
  virtual absl::StatusOr<BattleEvalResult> Eval(const EvalOptions& options) = 0;
  virtual absl::Status Close() { return absl::OkStatus(); }

  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_EVALUATOR_H_
