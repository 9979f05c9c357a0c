// Says which tasks a parallel run needs next, and when it has converged.
//
//     Get...Task ──► task runs ──┬──► Finish...Task        it has a result
//                                └──► NotifyFail...Task    it has none
//
// Every task that was given comes back by one of the two, once, unless the run ends before somebody
// took it. Its id is never used again.
//
// Ownership: a value of the coordinator's.
// Threads:   thread-compatible: the coordinator calls it under its lock.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_BASE_COMMANDER_H_
#define DING_WORKER_COORDINATOR_COMMANDER_BASE_COMMANDER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class BaseCommander {
 public:
  virtual ~BaseCommander() = default;

  // The next task, if there is one now: it counts as running until it is finished or failed.
  virtual std::optional<CollectorTask> GetCollectorTask() = 0;
  virtual std::optional<LearnerTask> GetLearnerTask() = 0;
  // After which it is worth asking again though nothing has happened; infinite: never.
  virtual absl::Duration AskAgainAfter() const { return absl::InfiniteDuration(); }

  virtual bool JudgeCollectorFinish(const CollectorFinished& info) const {
    return info.collector_done();
  }
  virtual bool JudgeLearnerFinish(const LearnerInfo& info) const { return info.learner_done(); }

  // Whether this result of an evaluation would end the run, if it is true.
  virtual bool WouldConverge(const CollectorTask& /*task*/,
                             const CollectorFinished& /*info*/) const {
    return false;
  }
  // The task has a result. True: the run has converged, which stays so: no task is given any more.
  virtual bool FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) = 0;
  // The task has a result: its buffer is not needed any more.
  virtual void FinishLearnerTask(const LearnerTask& task) = 0;

  // The task has none: nobody took it in time, or who did is gone.
  virtual void NotifyFailCollectorTask(const CollectorTask& task) = 0;
  virtual void NotifyFailLearnerTask(const LearnerTask& task) = 0;

  virtual void UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) = 0;

  // A learner has stored a version of its policy.
  virtual void PolicyPublished(const PolicyVersion& /*version*/) {}
  // Whether that version is needed though there are newer ones. What is not, once, may be deleted.
  virtual bool KeepsPolicy(const PolicyVersion& /*version*/) const { return false; }

  // A collector joined beyond those that the run was begun with, or one of these left. Tasks that run
  // go on.
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
  // The mean and the returns of the last evaluation; nullopt and empty if there was none.
  virtual std::optional<double> last_eval_value() const = 0;
  virtual const std::vector<double>& last_eval_returns() const = 0;
  // Adds the commander's own facts to the status of the run.
  virtual void AddStatus(RunStatus* /*status*/) const {}
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_BASE_COMMANDER_H_
