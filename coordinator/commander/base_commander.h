// Decides which tasks a parallel run needs next, and when it has converged.
//
//     Get...Task ──► task runs ──┬──► Finish...Task        the task has a result
//                                └──► NotifyFail...Task    the task has no result
//
// One of the two is called once for each task that was given, unless the run ends before a worker has taken the task.
// The id of a task is never used again.
//
// Ownership: the coordinator owns it.
// Threads:   thread-compatible. It must not call the coordinator.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_BASE_COMMANDER_H_
#define DING_WORKER_COORDINATOR_COMMANDER_BASE_COMMANDER_H_

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Returns the mean of the returns. There must be at least one.
inline double MeanReturn(absl::Span<const double> returns) {
  return std::accumulate(returns.begin(), returns.end(), 0.0) / static_cast<double>(returns.size());
}

// Returns how good an evaluation was: the score of its evaluator, or else its mean return.
inline double EvalScore(const CollectorFinished& info) {
  return info.has_eval_score() ? info.eval_score() : MeanReturn(info.episode_return());
}

// Gives the task tensors for the forward pass of its policy (CollectMode::ForwardWith), beside its collect_setting. A task
// with more than 1 MiB of them is given back as invalid.
//   kInvalidArgument  a tensor has no elements
inline absl::Status SetCollectTensors(const TensorMap& tensors, CollectorTask* task) {
  DING_ASSIGN_OR_RETURN(const EncodedBatch encoded, EncodeState([&tensors](StateWriter* writer) {
                          return StateDict(tensors, "collect_tensors").SaveState(writer);
                        }));
  task->set_collect_tensors(encoded.ToString());
  return absl::OkStatus();
}

class BaseCommander {
 public:
  virtual ~BaseCommander() = default;

  // Return the next task, or nullopt if there is none now. The task counts as running until it is finished or has failed.
  virtual std::optional<CollectorTask> GetCollectorTask() = 0;
  virtual std::optional<LearnerTask> GetLearnerTask() = 0;
  // If this is an error, the coordinator ends the run with it.
  virtual absl::Status status() const { return absl::OkStatus(); }
  // The time after which there may be a new task although nothing has happened; infinite if there will be none.
  virtual absl::Duration AskAgainAfter() const { return absl::InfiniteDuration(); }

  virtual bool JudgeCollectorFinish(const CollectorFinished& info) const {
    return info.collector_done();
  }
  virtual bool JudgeLearnerFinish(const LearnerInfo& info) const { return info.learner_done(); }

  // Whether the run would end if this result of an evaluation is true.
  virtual bool WouldConverge(const CollectorTask& /*task*/,
                             const CollectorFinished& /*info*/) const {
    return false;
  }
  // Takes the result of a task. Returns whether the run has converged; from then on no task is given.
  virtual bool FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) = 0;
  // Takes note that a task is done. Returns the id of its buffer, which the coordinator then closes.
  virtual std::string FinishLearnerTask(const LearnerTask& task) = 0;

  // Take note that a task has no result, because no worker took it in time or its worker is gone.
  virtual void NotifyFailCollectorTask(const CollectorTask& task) = 0;
  virtual void NotifyFailLearnerTask(const LearnerTask& task) = 0;

  virtual void UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) = 0;

  // Takes note of a version of a policy that a learner has stored.
  virtual void PolicyPublished(const PolicyVersion& /*version*/) {}
  // Whether a version is needed although there are newer ones. The coordinator may delete a version as soon as this was
  // false once.
  virtual bool KeepsPolicy(const PolicyVersion& /*version*/) const { return false; }

  // Called when a collector has joined beyond those that the run was begun with, or when such a collector has left. They
  // change how many collecting tasks may run; tasks that run already go on.
  virtual void IncreaseCollectorTaskSpace() = 0;
  virtual void DecreaseCollectorTaskSpace() = 0;

  // Save and load the state of the commander, for a coordinator that replaces one that died. After
  // the load, that coordinator reports all tasks that ran as failed. It has no collectors then, so
  // the task space is that of the options. Names and sizes must fit EncodeState(). The default has
  // no state.
  virtual absl::Status SaveState(StateWriter* /*writer*/) const { return absl::OkStatus(); }
  virtual absl::Status LoadState(StateReader* /*reader*/) { return absl::OkStatus(); }

  // The env steps of all finished collecting tasks.
  virtual int64_t total_collector_env_step() const = 0;
  // The mean return and the returns of the last evaluation; nullopt and empty if there was none.
  virtual std::optional<double> last_eval_value() const = 0;
  virtual std::vector<double> last_eval_returns() const = 0;
  // Adds what the commander knows to the status of the run.
  virtual void AddStatus(RunStatus* /*status*/) const {}
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_BASE_COMMANDER_H_
