// The envs of a parallel run, and what its processes must know about them.
//
// Threads: thread-safe.
// Errors:  kInvalidArgument names the setting that does not fit, and the values that would.
#ifndef DING_WORKER_WORKER_TASKS_PARALLEL_ENVS_H_
#define DING_WORKER_WORKER_TASKS_PARALLEL_ENVS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/setup/experiment_setup.h"

namespace ding {

// Whether the run is a league.
bool PlaysGames(const ExperimentConfig& config);

// Whether policies are evaluated in an env: always, but for a run with a data set, which needs no
// env.
bool Evaluates(const ExperimentConfig& config);

// Number of collectors to begin with: none if there is nothing to do for them.
int CollectorsOf(const ExperimentConfig& config);

// Returns the spec of the env that collects, which may be a game. It is an error if the run cannot
// collect in envs of this kind. `place` is the place of a learner or coordinator.
absl::StatusOr<EnvSpec> SpecOfGame(const ExperimentConfig& config, const Clock* clock,
                                   const EnvPlace& place = {EnvPlace::kCoordinator, 0});
// Returns the observations and actions of `player` in it.
absl::StatusOr<EnvSpec> SpecOfEnv(const ExperimentConfig& config, const Clock* clock,
                                  const EnvPlace& place = {EnvPlace::kCoordinator, 0},
                                  int player = 0);

// Makes the opponent of the config's policy; null if there is none. It is an error if it does not
// fit the env that collects. Only an opponent that learns has other modes than the eval mode.
absl::StatusOr<std::shared_ptr<Policy>> MakeOpponent(const ExperimentConfig& config,
                                                     const Clock* clock);

// Makes the envs that evaluate; in a league, against the opponent that the task names.
absl::StatusOr<std::unique_ptr<EnvManager>> MakeEvaluatorEnvs(const ExperimentConfig& config,
                                                              const std::string& opponent,
                                                              int env_num, const Clock* clock,
                                                              const EnvPlace& place);

// The number of learning tasks at a time: one for each policy that learns.
int LearnerTasksOf(const ExperimentConfig& config);

// The opponents of a league's evaluations.
std::vector<EvalOpponent> OpponentsOf(const ExperimentConfig& config);

// Checks that a player of the envs that evaluate has the observations and actions of `player`, and
// that the evaluator fits these envs: in a game, a checkpoint of the opponent is loaded. Returns
// the bounds of the returns of evaluations.
absl::StatusOr<ReturnBounds> CheckEvaluatorEnvs(const ExperimentConfig& config,
                                                const EnvSpec& player, const Clock* clock);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TASKS_PARALLEL_ENVS_H_
