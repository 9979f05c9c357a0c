// Makes the parts of a run from its config: envs, contexts of policies, metric sinks, and what a
// checkpoint says of the run.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_SETUP_EXPERIMENT_SETUP_H_
#define DING_WORKER_WORKER_SETUP_EXPERIMENT_SETUP_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Which process of a run makes envs, from which their numbers derive (EnvUse.number). Envs of the
// last two kinds are probes: only their specs are wanted.
struct EnvPlace {
  enum Kind { kCollector, kLearner, kCoordinator };
  Kind kind = kCollector;  // also a serial run, and an evaluation
  int index = 0;           // among the processes of its kind
};

struct EnvsOptions {
  std::string video_folder;  // for the wrapper record_video; if it is empty, nothing is recorded
  bool pictures = false;     // whether Render() will be called for other reasons than the config
  EnvPlace place;
};

// Makes a manager of `env_num` envs, which is not launched and not seeded.
absl::StatusOr<std::unique_ptr<EnvManager>> MakeEnvManager(const ExperimentConfig& config,
                                                           int env_num, const Clock* clock,
                                                           const EnvsOptions& options = {});
// The same for the envs that evaluate.
absl::StatusOr<std::unique_ptr<EnvManager>> MakeEvaluatorEnvManager(
    const ExperimentConfig& config, int env_num, const Clock* clock,
    const EnvsOptions& options = {});
// The same for the envs in which the policy of a league plays against `opponent`. kNotFound: the
// config has no opponent of that name.
absl::StatusOr<std::unique_ptr<EnvManager>> MakeOpponentEnvManager(const ExperimentConfig& config,
                                                                   const std::string& opponent,
                                                                   int env_num, const Clock* clock,
                                                                   const EnvsOptions& options = {});

// Makes the context of a policy. `env` is the spec of an env for one player; for a game it is its
// PlayerSpec().
PolicyContext MakePolicyContext(const ExperimentConfig& config, const EnvSpec& env,
                                const PolicyModes& modes);
// Makes the policy with this context.
absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(const ExperimentConfig& config,
                                                   const EnvSpec& env, const PolicyModes& modes);
// Return the modes of a policy that only acts: without exploration, or to collect.
PolicyModes EvalModeOnly();
PolicyModes CollectModeOnly();

// What envs have learned and the policy needs beside its model: a component of every checkpoint of
// a run whose envs have statistics (EnvManager::has_statistics).
inline constexpr char kEnvStatisticsComponent[] = "env_statistics";
// Gives `to` the statistics of `from`, an env manager of the same wrappers, if they have any.
absl::Status CopyEnvStatistics(const EnvManager& from, EnvManager* to);
// Loads the statistics of a checkpoint, if `envs` have any.
absl::Status LoadEnvStatistics(const CheckpointReader& checkpoint, EnvManager* envs);
// kInvalidArgument, saying why, if `envs` have statistics: for programs that cannot share them
// among their envs.
absl::Status RefuseEnvStatistics(const EnvManager& envs);

// Adds to a checkpoint what an evaluation needs to start from it alone: "config", "env", "policy",
// and what DescribePolicy() adds (worker/saved_policy/policy_description.h). `env` may be a game.
void DescribeRun(const ExperimentConfig& config, const EnvSpec& env, CheckpointInfo* info);
// Returns the config that DescribeRun() wrote. kNotFound: the checkpoint has none.
absl::StatusOr<ExperimentConfig> ConfigOfCheckpoint(const CheckpointInfo& info);

// Loads the policy, with its eval mode only, from a checkpoint that DescribeRun() described, for a
// player of this spec. Only the model in the checkpoint is needed. Errors name the checkpoint:
//   kNotFound, kDataLoss  it does not exist, or it is truncated or corrupted
//   kInvalidArgument      its model does not fit
absl::StatusOr<std::unique_ptr<Policy>> LoadEvalPolicy(const std::string& checkpoint,
                                                       const EnvSpec& player);
// The same for a checkpoint that is already open, and its config; errors do not name the
// checkpoint.
absl::StatusOr<std::unique_ptr<Policy>> LoadEvalPolicy(const CheckpointReader& checkpoint,
                                                       const ExperimentConfig& config,
                                                       const EnvSpec& player);

// Bounds of the return (sum of rewards) of an episode; infinite where the env does not declare any.
struct ReturnBounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};
// Returns the bounds of returns that an env allows, by the bounds of its rewards.
ReturnBounds BoundsOfReturns(const EnvSpec& env);
// Returns bounds that include both `a` and `b`.
ReturnBounds EitherOf(const ReturnBounds& a, const ReturnBounds& b);

// Makes the sinks that the config names (metrics.sink) for the metrics of `process`. Replaces
// `*metrics`, which writes the files of the process, by a sink that passes everything to these
// sinks and, unless the config turns the files off, to the old sink. Its axis() is the one that the
// config names.
// Returns the errors of create_sink(), which name the field.
absl::Status AddSinks(const ExperimentConfig& config, const std::string& exp_dir,
                      const std::string& process, std::shared_ptr<MetricSink>* metrics);

// Make the arguments of MetricSink::BeginRun() and EndRun(): the fields of the config that are not
// defaults, and the results "final_eval" (if there was an evaluation), "env_steps" and
// "wall_seconds".
RunDescription DescribeRunForSinks(const ExperimentConfig& config);
RunResults ResultsForSinks(std::optional<double> eval_value, int64_t env_steps,
                           double wall_seconds);

}  // namespace ding

#endif  // DING_WORKER_WORKER_SETUP_EXPERIMENT_SETUP_H_
