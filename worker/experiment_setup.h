// From an experiment config to the parts that serial training and evaluation have in common.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_EXPERIMENT_SETUP_H_
#define DING_WORKER_WORKER_EXPERIMENT_SETUP_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// A manager of `env_num` envs, not launched and not seeded.
absl::StatusOr<std::unique_ptr<EnvManager>> MakeEnvManager(const ExperimentConfig& config,
                                                           int env_num, const Clock* clock);
// The same of envs that evaluate.
absl::StatusOr<std::unique_ptr<EnvManager>> MakeEvaluatorEnvManager(const ExperimentConfig& config,
                                                                    int env_num,
                                                                    const Clock* clock);
// The same of envs in which a league's policy plays this opponent. kNotFound: the config has none of
// that name.
absl::StatusOr<std::unique_ptr<EnvManager>> MakeOpponentEnvManager(const ExperimentConfig& config,
                                                                   const std::string& opponent,
                                                                   int env_num, const Clock* clock);

// `env`: or, of a game, PlayerSpec() of it.
PolicyContext MakePolicyContext(const ExperimentConfig& config, const EnvSpec& env,
                                const PolicyModes& modes);

// Adds to a checkpoint what an evaluation needs to start from it alone: "config", "env", "policy".
void DescribeRun(const ExperimentConfig& config, absl::string_view env_name, CheckpointInfo* info);
// The config that DescribeRun() wrote. kNotFound if the checkpoint has none.
absl::StatusOr<ExperimentConfig> ConfigOfCheckpoint(const CheckpointInfo& info);

// The modes of a policy that is to act without exploration, and nothing else.
PolicyModes EvalModeOnly();
// The policy in a checkpoint of DescribeRun(), with its eval mode, for a player of that spec. It
// needs the model only. Errors name the checkpoint:
//   kNotFound, kDataLoss  it is not there, truncated or corrupted
//   kInvalidArgument      its model does not fit
absl::StatusOr<std::unique_ptr<Policy>> LoadEvalPolicy(const std::string& checkpoint,
                                                       const EnvSpec& player);
// The same of one that is open already, with its config; errors do not name it.
absl::StatusOr<std::unique_ptr<Policy>> LoadEvalPolicy(const CheckpointReader& checkpoint,
                                                       const ExperimentConfig& config,
                                                       const EnvSpec& player);

}  // namespace ding

#endif  // DING_WORKER_WORKER_EXPERIMENT_SETUP_H_
