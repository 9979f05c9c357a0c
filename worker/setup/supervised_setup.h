// Makes the parts that serial and parallel runs with a data set have in common from an experiment
// config.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_SETUP_SUPERVISED_SETUP_H_
#define DING_WORKER_WORKER_SETUP_SUPERVISED_SETUP_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/data/shuffled_epochs.h"
#include "ding_worker/env/env.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/setup/data_set.h"

namespace ding {

// Loads the data set of the config, as LoadDataSet() does, and gives `env` the spaces of the data
// set. `env` is the spec of the env in which the policy is evaluated, or EnvSpec() if there is
// none.
absl::StatusOr<DataSet> LoadDataSetOf(const ExperimentConfig& config, EnvSpec* env);

// Returns the epochs of batches that the run learns from. They load the rows of `data`.
absl::StatusOr<std::unique_ptr<ShuffledEpochs>> EpochsOf(const ExperimentConfig& config,
                                                         const DataSet& data);

// Returns the metric that the config names. Without a name the action determines it: "accuracy" for
// categories, "action_mse" for boxes.
absl::StatusOr<std::shared_ptr<const IMetric>> MetricOf(const ExperimentConfig& config,
                                                        const DataSet& data);

// kInvalidArgument if the config has a data set and `policy` (null: it does not learn) cannot learn
// from one; if `policy` learns from a data set and the config has none; or if the config says how
// returns are made for a policy that learns from no rewards.
absl::Status CheckLearnsFromData(const ExperimentConfig& config, const LearnMode* policy);

// Replaces the rows of data->training by transitions (TransitionsOf()) if `policy` learns from
// these.
absl::Status UseTransitions(const ExperimentConfig& config, const LearnMode& policy, DataSet* data);

// kInvalidArgument if the data set has another content than when the run began.
absl::Status CheckSameDataSet(const ExperimentConfig& config, const DataSet& data,
                              int64_t checksum_at_begin);

}  // namespace ding

#endif  // DING_WORKER_WORKER_SETUP_SUPERVISED_SETUP_H_
