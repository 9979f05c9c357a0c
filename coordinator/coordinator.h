// The coordinator of a parallel run: it gives tasks to workers, keeps the buffers of announced
// rows, answers the demands of learners, and decides when the run is over. It knows workers by
// their numbers, and does not depend on the transport.
//
//                 BaseCommander: which tasks
//                        │
//     WorkerJoined ──► Coordinator ──► CoordinatorSender      StartTask, CloseTask, EndRun
//     Handle       ──►   │     │
//     WorkerLost   ──►   │     └──► DataDeleter               unused chunks and policies
//                    IBuffer per buffer_id
//
// A call becomes an event. One thread applies events and timeouts. It takes all waiting events,
// writes the journal once for them, and then sends the answers.
//
//   tasks    given ──► waits (for its buffer's learner, for a free worker) ──► runs ──► over
//            The buffer is made before the task of its learner is sent. Collectors get tasks when
//            that learner has started. A worker is free again when it has reported the end of its
//            task, or when it was sent CloseTask; later messages about the task are dropped. The
//            coordinator only checks whether the settings of a task are valid; programs apply them.
//            A task with invalid settings is given back to the commander; a few such tasks in a row
//            end the run.
//   data     Rows are pushed and then acknowledged. While the buffer's rate limiter refuses a push,
//            the message is not done, and its worker waits. An acknowledged row is in the buffer,
//            or was drawn or evicted by the rules of the buffer, even if its worker or the learner
//            dies.
//   demands  A demand is answered as soon as there are rows, with all batches that can be drawn.
//   ratio    With Options::replay_ratio, pushes wait while the replay ratio is too low, and demands
//            wait if they would make it too high.
//   chunks   A chunk is deleted when its last item has left the buffer, and all demands that were
//            answered before that have been read. All items of a chunk come in one message, and
//            chunks come in the order of their numbers.
//   policies Collectors act by the newest version. A version is deleted when there are two newer
//            ones, and neither the commander nor a task needs it.
//   peers    Claims of workers are checked (docs/explanation/coordinator_design.md, "What a peer
//            says"). Env steps count only as far as the pushed rows support them. An evaluation
//            that would end the run counts only if another worker confirms it. An evaluation
//            outside of min_return..max_return never counts.
//   restart  With a journal, everything that was acknowledged or sent to a worker survives this
//            process: rows, steps, policies, the state of the commander, and numbers. A new
//            coordinator with the same journal continues the run; running tasks count as failed,
//            and workers join again. Requests of operators survive, too: draining collectors are
//            told to leave, and a stopped run ends.
//
// Ownership: owns the commander and the buffers. The sender must outlive it.
//            The commander, the buffers, the stoppers and Parts must not call the coordinator.
// Threads:   thread-safe. The functions of WorkerHandler do not wait, except WorkerJoined(), which
//            may list keys of the store. Their callbacks are called by the coordinator's thread,
//            and must not wait for the coordinator. While the journal cannot be written, only the
//            end of the run is applied, and only status requests are answered.
// Errors:    An error of Handle() means that the message is invalid: the caller ends the worker's
//            session and calls WorkerLost(). WaitUntilDone() returns the errors of the run itself.
//
// Example: coordinator/example_test.cc.
#ifndef DING_WORKER_COORDINATOR_COORDINATOR_H_
#define DING_WORKER_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/state/learning_rounds.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/control/worker_server.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/stopper_registry.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/time_histogram.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"
#include "ding_worker/replay_buffer/used_data_remover.h"

namespace ding {

// How the coordinator talks to workers.
using CoordinatorSender = WorkerSender;

class Coordinator : public WorkerHandler {
 public:
  struct Options {
    std::string run;  // the name of the run
    absl::Duration collector_task_timeout = absl::Seconds(30);
    absl::Duration learner_task_timeout = absl::Seconds(600);
    // The number of collectors for which the commander's task space is sized. Each further
    // collector adds a task.
    int collectors = 1;
    // How many collectors there should be. The coordinator only reports this number, which an
    // operator may change.
    int wanted_collectors = 0;
    int max_collectors = 64;  // the most that an operator may ask for, at least 1
    // The run fails when this many tasks of one kind have failed in a row on living workers.
    int max_task_failures = 3;
    // The run ends when one of these budgets is used up; 0: no limit.
    int64_t max_env_step = 0;
    int64_t max_train_iter = 0;
    absl::Duration max_time = absl::ZeroDuration();
    // Whether an opponent learns beside the policy (kOpponentTask). Its iterations do not count for
    // the budget.
    bool has_opponent = false;
    // The range of mean returns that the env's reward bounds allow.
    double min_return = -std::numeric_limits<double>::infinity();
    double max_return = std::numeric_limits<double>::infinity();
    // A learner without progress for this time is reported as stalled, in the log and in RunStatus.
    // Before its first iteration the time is six times as long. A learner that waits for rows is
    // not reported while envs are stepped.
    absl::Duration stall_timeout = absl::Seconds(10);
    // Bounds on the rows drawn per row pushed, for each buffer
    // (docs/reference/parallel_learning.md). Not set: no bounds.
    std::optional<ReplayRatioLimiter::Options> replay_ratio;
    // The rounds of an on-policy policy, which uses each row once
    // (docs/reference/parallel_learning.md). Not set: the policy is off-policy.
    std::optional<LearningRounds> rounds;
    // The number at which this run begins to count env steps, if it continues an earlier one; at
    // least 0.
    int64_t first_env_step = 0;
    // The rows of each buffer that are collected at random before the policy acts.
    int64_t random_collect_size = 0;
    // In lockstep: the number of collecting tasks in a round. Their rows are pushed in the order of
    // the tasks, and each demand is answered when a further round is pushed. A failed task ends the
    // run. 0: not in lockstep.
    int lockstep_tasks = 0;
    // How collectors cut their rows into items. Buffers, limits and counters count items.
    ItemSequences sequences;
    // Whether to continue a run that an operator has stopped; otherwise it ends at once.
    bool goes_on_after_stop = false;
    // The policies with a checkpoint of this run. Their learners resume from it, even if the
    // journal has lost the beginning of their tasks.
    std::set<std::string> saved_policies;
  };
  // Makes a buffer for a learner task with these settings. The factory must pass `on_removed` on to
  // the buffer.
  using BufferFactory = std::function<absl::StatusOr<std::unique_ptr<IBuffer>>(
      const std::string& buffer_id, absl::Span<const std::string> settings, OnRemoved on_removed)>;
  // Returns an error if the settings of a task are invalid.
  using SettingsCheck = std::function<absl::Status(const StartTask& task)>;
  struct Parts {
    std::unique_ptr<BaseCommander> commander;
    StopperList stoppers;  // they can end the run, too
    BufferFactory make_buffer;
    SettingsCheck check_settings;  // null: no task may have settings
    DataDeleter delete_key;        // deletes a key of the store: of a chunk, or of a policy
    CoordinatorSender* sender = nullptr;
    // Records the state that must survive the process; must outlive the coordinator. If it already
    // has a run, that run continues. Null: nothing survives.
    Journal* journal = nullptr;
    // The layout of the items that collectors announce; null: the layout of the first push.
    SpecPtr items;
    // Lists the keys of the store with this prefix. Needed with a journal: after a restart, rows
    // without data are dropped, and data without rows are deleted.
    std::function<absl::StatusOr<std::vector<std::string>>(const std::string& prefix)> list_keys;
  };
  struct Counters {
    int64_t rows_pushed = 0;
    int64_t rows_acknowledged = 0;  // how many of the pushed rows were acknowledged
    int64_t demands_answered = 0;
    int64_t demands_waited = 0;  // demands for which there were too few rows at first
    int64_t pushes_waited = 0;   // pushes that the rate limit or the replay ratio delayed
    int64_t late_messages = 0;   // messages about tasks that were over
  };

  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  //   kInvalidArgument  lists the options that are out of range
  //   kResourceExhausted  the system refuses to start the coordinator's thread
  //   kDataLoss, ...    the journal or its content cannot be read
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(const Options& options, Parts parts,
                                                             const ComponentDeps& deps);
  ~Coordinator() override = default;  // as Close()

  // Begins to give tasks. Call it once.
  virtual void Start() = 0;

  // As WorkerHandler::Handle(). A message with waiting data is done when they are pushed, or when
  // its worker is lost: the task is then given to another worker, and announced rows stay.
  // Operators get RunStatus and OperatorReply.
  //   kInvalidArgument, kDataLoss  the message is invalid
  //   kResourceExhausted           the learner demands more than it reads
  //   kPermissionDenied            the worker was sent away
  //   kNotFound                    there is no such worker
  void Handle(uint32_t worker, WorkerMessage message, Done done) override = 0;

  // Functions with the names that DI-engine uses. Each calls Handle() with a message that holds its
  // argument.
  void DealWithCollectorSendData(uint32_t worker, CollectorData data, Done done);
  void DealWithCollectorFinishTask(uint32_t worker, CollectorFinished info, Done done);
  void DealWithLearnerGetData(uint32_t worker, LearnerDemand demand, Done done);
  void DealWithLearnerSendInfo(uint32_t worker, LearnerInfo info, Done done);
  // Does the same as DealWithLearnerSendInfo(), and says that the learner is done. The task ends if
  // the commander agrees.
  void DealWithLearnerFinishTask(uint32_t worker, LearnerInfo info, Done done);
  // Return whether the commander would finish the task of the message now; false if no worker runs
  // the task.
  virtual bool DealWithCollectorJudgeFinish(const CollectorFinished& info) const = 0;
  virtual bool DealWithLearnerJudgeFinish(const LearnerInfo& info) const = 0;
  // Note that a collector has joined, or is gone. Beyond Options::collectors this changes the
  // commander's task space.
  void DealWithIncreaseCollector(uint32_t worker, const Hello& hello, const std::string& peer) {
    WorkerJoined(worker, hello, peer);
  }
  void DealWithDecreaseCollector(uint32_t worker, const absl::Status& why) {
    WorkerLost(worker, why);
  }
  // Whether the run is over.
  bool system_shutdown_flag() {
    return !absl::IsDeadlineExceeded(WaitUntilDone(absl::ZeroDuration()));
  }

  // The status of the run.
  virtual RunStatus status() const = 0;

  // Waits for the end of the run. Returns OK if it has converged or used up a budget, or if Close()
  // was called; otherwise why it failed.
  //   kAborted           another coordinator has taken over the run
  //   kDeadlineExceeded  the run is not over after `timeout`
  virtual absl::Status WaitUntilDone(absl::Duration timeout) = 0;
  // Ends the run, if it is not over, and tells every worker.
  virtual void RequestEnd(const std::string& reason) = 0;
  // Completes the journal. After OK, the journal holds everything that was acknowledged, and
  // nothing more is written to it, so that a resumed run finds the rows that Close() forgets. Call
  // it once, after RequestEnd().
  //   kUnavailable  the store of the journal cannot be reached; the call may be repeated
  //   kAborted      another coordinator has taken over this run, and owns the data in the store
  virtual absl::Status CloseJournal() = 0;
  // Makes Close() leave the chunks and policies in the store, for a resume.
  virtual void KeepData() = 0;
  // Calls RequestEnd(). Then forgets all rows, and deletes their chunks and the policies unless
  // KeepData() was called. Returns the first error of deleting. May be called again, and by several
  // threads, which wait for each other.
  virtual absl::Status Close(const std::string& reason) = 0;

  virtual Counters counters() const = 0;

  // How long the requests of workers took, including all waiting: "push" until the data were
  // acknowledged, "sample" until the demand was answered, "publish" until the policy was sent to
  // the collectors. Also how long collectors took for the tasks that have a result: "collect_task"
  // and "evaluate".
  virtual StageTimes stage_times() const { return {}; }
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COORDINATOR_H_
