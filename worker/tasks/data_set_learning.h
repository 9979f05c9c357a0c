// What the learner of a parallel run with a data set has beside its policy: the batches of the run,
// and the metric evaluator, which judges the policy by the held-out episodes.
//
//     file of episodes ──┬── to learn from ──► epochs of shuffled batches ──► this learner's share of each
//                        └── held out ──► metric evaluator (rank 0) ──► log, ckpt_best, end of the run
//
// The batch of a train iteration is a function of the data set, the seed and the iteration alone.
// So a learner that replaces another one continues with the same batch, and all learners of a group
// agree.
//
// Ownership: owns the data; policy and learner outlive it.
// Threads:   thread-compatible; belongs to the learner's thread.
#ifndef DING_WORKER_WORKER_TASKS_DATA_SET_LEARNING_H_
#define DING_WORKER_WORKER_TASKS_DATA_SET_LEARNING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/shuffled_epochs.h"
#include "ding_worker/env/env.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/setup/data_set.h"
#include "ding_worker/worker/setup/experiment_setup.h"

namespace ding {

// Returns the spec of the env in which a run with a data set evaluates, with the spaces of `data`,
// which is loaded from the file of the config; without an env it has nothing else. Returns the
// errors of LoadDataSet() and SpecOfEnv().
absl::StatusOr<EnvSpec> SpecOfDataSetRun(const ExperimentConfig& config, const Clock* clock,
                                         const EnvPlace& place, DataSet* data);

class DataSetLearning : public OwnData {
 public:
  static absl::StatusOr<std::unique_ptr<DataSetLearning>> Create(const ExperimentConfig& config,
                                                                 DataSet data);

  // If a batch has fewer rows than there are learners, all of them learn from the whole batch.
  absl::StatusOr<Batch> BatchOf(int64_t train_iter, int rank, int world_size) override;

  // Adds hooks to `learner` that evaluate `policy` before the first iteration, and after each
  // iteration in which an evaluation is due. Call it once. `checkpoint` is the path of a checkpoint
  // that an earlier rank 0 may have left; empty: there is none. The checkpoint has the best result
  // so far, and must be of the same data set.
  absl::Status Judge(EvalMode* policy, ILearner* learner, ComponentDeps deps,
                     const std::string& checkpoint);

  // Its components of a checkpoint of the learner.
  std::vector<CheckpointComponent> Components();

 private:
  class JudgeHook;

  DataSetLearning(const ExperimentConfig& config, DataSet data)
      : config_(config), data_(std::move(data)) {}

  // Loads the state that an earlier rank 0 has left.
  absl::Status Load();
  absl::Status EvaluateIfDue(LearnerView* learner);

  const ExperimentConfig config_;
  const DataSet data_;
  std::unique_ptr<ShuffledEpochs> epochs_;
  std::shared_ptr<const IMetric> metric_;
  std::unique_ptr<IMetricEvaluator> evaluator_;
  std::string checkpoint_;
  bool was_rank_0_ = false;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_TASKS_DATA_SET_LEARNING_H_
