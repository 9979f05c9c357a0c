// Runs a parallel run: it gives tasks to workers, keeps the buffers of the rows that collectors
// announce, answers the demands of learners, and says when the run is over. It knows workers by
// their numbers, and does not know the wire.
//
//                 BaseCommander: which tasks
//                        │
//     WorkerJoined ──► Coordinator ──► CoordinatorSender      StartTask, CloseTask, EndRun
//     Handle       ──►   │     │
//     WorkerLost   ──►   │     └──► DataDeleter               chunks and policies that nobody needs
//                    IBuffer per buffer_id
//
// Everything happens within the calls of workers. A thread of its own handles timeouts: of a task
// that nobody takes, and of the run.
//
//   task     given ──► waits (for its buffer's learner, for a free worker) ──► runs ──► over
//            The buffer is made before the task of its learner is sent. Collectors are given tasks
//            once that learner has started (D92). A worker is free again when it reports the end of
//            its task, or when CloseTask is sent; what it says of the task afterwards is dropped.
//            Settings of a task are for the programs; only whether they are valid is asked here. A task
//            whose settings are not is given back to the commander, and a few of them in a row end the run.
//   data     are pushed, then acknowledged. A push that the buffer refuses for its rate keeps its
//            caller, and so the worker, waiting. A row that was acknowledged is in the buffer, or
//            was drawn or evicted by the buffer's rules, even if its worker or the learner dies.
//   demand   is answered when there are rows, with all batches that can be drawn then.
//   ratio    With Options::replay_ratio a push waits while too few rows are drawn per row pushed, and a
//            demand while too many would be.
//   chunk    is deleted when its last item has left the buffer and all demands that were answered
//            before that are read. All items of a chunk come in one message, and chunks in the
//            order of their numbers.
//   policy   Collectors play by the newest version. A version is deleted when there are two newer
//            ones, and neither the commander nor a task needs it.
//   peers    Claims are checked: see "What a peer says" in docs/coordinator.md. Env steps count as
//            far as pushed rows back them. An evaluation that would end the run counts when another
//            worker confirms it; one outside of min_return..max_return never counts.
//   restart  With a journal, everything that was acknowledged or told to a worker survives this
//            process: rows, steps, policies, the commander's state, numbers. A new coordinator of
//            the same journal goes on with them; tasks that ran have failed, and workers join
//            again. The requests of operators survive, too: collectors that were being drained are
//            let go, and a run that was stopped ends.
//
// Ownership: owns commander and buffers; the sender is not owned and outlives it.
// Threads:   thread-safe. Handle() is called by one thread per worker at a time. It may wait, at
//            most until WorkerLost() or Close().
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
#include "ding_worker/learner/stopper_list.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/items/removed_items.h"
#include "ding_worker/replay_buffer/selection/replay_ratio_limiter.h"
#include "ding_worker/replay_buffer/used_data_remover.h"

namespace ding {

// How the coordinator talks to workers.
using CoordinatorSender = WorkerSender;

class Coordinator : public WorkerHandler {
 public:
  struct Options {
    std::string run;  // its name
    absl::Duration collector_task_timeout = absl::Seconds(30);
    absl::Duration learner_task_timeout = absl::Seconds(600);
    // The commander's task space is meant for this many collectors; each further one adds a task.
    int collectors = 1;
    // How many collectors there should be. The coordinator starts none: it only reports the number,
    // which an operator may change.
    int wanted_collectors = 0;
    int max_collectors = 64;  // the most that an operator may ask for, at least 1
    // The run fails after so many tasks of one kind failed in a row while their workers lived.
    int max_task_failures = 3;
    // The run ends when one of them is reached; 0: no limit.
    int64_t max_env_step = 0;
    int64_t max_train_iter = 0;
    absl::Duration max_time = absl::ZeroDuration();
    // The mean returns that the env's reward bounds allow.
    double min_return = -std::numeric_limits<double>::infinity();
    double max_return = std::numeric_limits<double>::infinity();
    // After this time without progress a learner is reported as stalled, in the log and in
    // RunStatus.
    absl::Duration stall_timeout = absl::Seconds(10);
    // Bounds on the rows drawn per row pushed, of each buffer; see "Replay ratio" in docs/parallel.md.
    // None: there are none.
    std::optional<ReplayRatioLimiter::Options> replay_ratio;
    // For an on-policy policy, whose buffers must use each row once; see "On-policy policies" in
    // docs/parallel.md. None: the policy is off-policy.
    std::optional<LearningRounds> rounds;
    // Env steps of an earlier run, from which a run that begins goes on counting; at least 0.
    int64_t first_env_step = 0;
    // The rows of each buffer that are collected at random before the policy acts.
    int64_t random_collect_size = 0;
    // How collectors cut their rows into items. Buffers, limits and counters count items.
    ItemSequences sequences;
    // A run of the journal that an operator has stopped goes on; otherwise it ends at once.
    bool goes_on_after_stop = false;
  };
  // `on_removed` is to be passed on to the buffer.
  using BufferFactory = std::function<absl::StatusOr<std::unique_ptr<IBuffer>>(
      const std::string& buffer_id, OnRemoved on_removed)>;
  // The same for a learner task that has settings.
  using TaskBufferFactory = std::function<absl::StatusOr<std::unique_ptr<IBuffer>>(
      const std::string& buffer_id, absl::Span<const std::string> settings, OnRemoved on_removed)>;
  // Says what is wrong with the settings of a task.
  using SettingsCheck = std::function<absl::Status(const StartTask& task)>;
  struct Parts {
    std::unique_ptr<BaseCommander> commander;
    StopperList stoppers;       // end the run beside the commander
    BufferFactory make_buffer;  // called under the lock
    // Both are called under the lock. Null: no task may have settings.
    TaskBufferFactory make_task_buffer;
    SettingsCheck check_settings;
    DataDeleter delete_key;  // deletes a key of the store: of a chunk, or of a policy
    CoordinatorSender* sender = nullptr;
    // Records what must survive the process; outlives the coordinator. A run that it holds already
    // goes on. Null: nothing survives.
    Journal* journal = nullptr;
    // The layout of the items that collectors announce; null: that of the first push.
    SpecPtr items;
    // Lists the keys of the store with this prefix. It is needed with a journal: after a restart,
    // rows whose data are gone are dropped, and data that belong to no row are deleted.
    std::function<absl::StatusOr<std::vector<std::string>>(const std::string& prefix)> list_keys;
  };
  struct Counters {
    int64_t rows_pushed = 0;
    int64_t rows_acknowledged = 0;  // of these
    int64_t demands_answered = 0;
    int64_t demands_waited = 0;  // that found too few rows at first
    int64_t pushes_waited = 0;   // that were refused for their rate, or the replay ratio, at first
    int64_t late_messages = 0;   // of tasks that were over
  };

  // A sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  //   kInvalidArgument  lists them
  //   kDataLoss, ...    the journal, or what is in it, cannot be read
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(const Options& options, Parts parts,
                                                             const ComponentDeps& deps);
  ~Coordinator() override = default;  // as Close()

  // Begins to give tasks. Once.
  virtual void Start() = 0;

  // As WorkerHandler::Handle(). The task of a worker that is lost is given to another one; the rows
  // that it announced stay.
  //   kInvalidArgument, kDataLoss  the message is invalid
  //   kResourceExhausted           the learner demands more than it reads
  //   kPermissionDenied            the worker was sent away
  //   kNotFound                    there is no such worker
  absl::Status Handle(uint32_t worker, const WorkerMessage& message) override = 0;

  // OK when the run has converged or used up its budget, or Close() was called; otherwise the
  // reason of its failure. kAborted: another coordinator goes on with it. kDeadlineExceeded: the
  // run goes on.
  virtual absl::Status WaitUntilDone(absl::Duration timeout) = 0;
  // Ends the run, if it is not over, and tells every worker.
  virtual void RequestEnd(const std::string& reason) = 0;
  // When it returns OK, the journal holds everything that was acknowledged, and nothing more is
  // written to it: a run that goes on finds what Close() forgets. Once, after RequestEnd().
  //   kUnavailable  the journal's store is away: the call may be repeated
  //   kAborted      another coordinator goes on with this run, and owns what is in the store
  virtual absl::Status CloseJournal() = 0;
  // Close() leaves chunks and policies where they are, for a run that goes on with them.
  virtual void KeepData() = 0;
  // As RequestEnd(). Then it forgets all rows, and deletes their chunks and the policies unless
  // they are kept. Returns the first error of deleting. May be repeated; a call waits for one of
  // another thread.
  virtual absl::Status Close(const std::string& reason) = 0;

  virtual Counters counters() const = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COORDINATOR_H_
