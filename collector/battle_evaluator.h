// The counterpart of ISerialEvaluator for games (env/game_spec.h). Policy p plays player p; player 0 is
// evaluated.
//
// Ownership and threads: as ISerialEvaluator.
#ifndef DING_WORKER_COLLECTOR_BATTLE_EVALUATOR_H_
#define DING_WORKER_COLLECTOR_BATTLE_EVALUATOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

struct BattleEvalResult {
  // Whether the mean return of player 0 has reached the stop value and train_iter > 0.
  bool stop = false;
  double mean_return = 0;                           // of player 0
  int64_t envstep_count = 0;                        // env steps of the evaluation
  std::vector<std::vector<double>> episode_return;  // for each player, all returns, env by env
  // The values of episodes by name, env by env: what the env gave at their ends, as "info/<name>", and of ours
  // "eval_episode_return" and, of a reward with components, "return_0", "return_1", ... Not every episode may have one.
  std::map<std::string, std::vector<double>> episode_info;
};

class IBattleEvaluator {
 public:
  virtual ~IBattleEvaluator() = default;

  // As in ISerialEvaluator. Empty `policies` keep the current ones.
  virtual absl::Status ResetEnv(EnvManager* env) = 0;
  virtual absl::Status ResetPolicies(std::vector<EvalMode*> policies) = 0;
  virtual absl::Status Reset(std::vector<EvalMode*> policies, EnvManager* env) = 0;
  virtual bool ShouldEval(int64_t train_iter) = 0;
  virtual absl::StatusOr<BattleEvalResult> Eval(const EvalOptions& options) = 0;

  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_BATTLE_EVALUATOR_H_
