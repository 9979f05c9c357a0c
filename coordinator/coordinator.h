// Runs a parallel run: gives tasks to workers, keeps the buffers of what collectors announce, answers
// the demands of learners, and says when it is over. It knows workers by their numbers and no wire.
//
//                 BaseCommander: which tasks
//                        │
//     WorkerJoined ──► Coordinator ──► CoordinatorSender      StartTask, CloseTask, EndRun
//     Handle       ──►   │     │
//     WorkerLost   ──►   │     └──► DataDeleter               chunks and policies nobody needs
//                    IBuffer per buffer_id
//
// Everything happens in the call that brought it about; a thread of its own waits for what comes
// with time: a task that nobody takes, the end of max_seconds.
//
//   task     given ──► waits (for its buffer's learner, for a free worker) ──► runs ──► over
//            The buffer is there before its learner's task is sent, and collectors are given tasks
//            once that learner has started (D92). Who is given a task is free again when it reports
//            the end, or when CloseTask is sent: what it still says of the task is dropped then.
//   data     are pushed, then acknowledged. A push that the buffer refuses for its rate keeps its
//            caller, and so the worker, waiting. A row that was acknowledged is in the buffer, or was
//            drawn or evicted by its rules; also if its worker or the learner dies.
//   demand   is answered when there are rows, with all batches that can be drawn then.
//   chunk    is deleted when its last item left the buffer and all demands answered before that are
//            read. All items of a chunk come in one message, chunks in the order of their numbers.
//   policy   only the newest version counts. One is deleted when there are two newer ones, and
//            neither the commander keeps it nor a task plays by it.
//   peers    are not believed what cannot be: see "What a peer says" in docs/coordinator.md. Env steps
//            count as far as pushed rows back them. An evaluation that would end the run, or that is
//            out of min_return..max_return, counts when another worker says the same.
//   restart  with a journal, what was acknowledged or told to somebody survives this process: rows,
//            steps, policies, the commander's state, numbers. A new coordinator of the same journal
//            goes on with them; tasks that ran have failed, and workers join anew. So does what an
//            operator has asked for: who was being drained is, and a run that was stopped ends.
//
// Ownership: owns commander and buffers; the sender is not owned and outlives it.
// Threads:   thread-safe. Handle() is called by one thread per worker at a time, and may wait: not
//            longer than until WorkerLost() or Close().
// Errors:    of Handle(): what the worker sent cannot be; its session is to be ended, and
//            WorkerLost() called. Errors of the run itself come out of WaitUntilDone().
//
// Example: coordinator/example_test.cc.
#ifndef DING_WORKER_COORDINATOR_COORDINATOR_H_
#define DING_WORKER_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/base_commander.h"
#include "ding_worker/coordinator/journal.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/worker_server.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/removed_items.h"
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
    // Collectors that the commander's task space is for; each one that joins beyond them adds a task.
    int collectors = 1;
    // That there are to be, for whoever starts and ends them; an operator may change it.
    int wanted_collectors = 0;
    int max_collectors = 64;  // for which an operator may ask, at least 1
    // Tasks of one kind that fail in a row, while their workers live, after which the run fails.
    int max_task_failures = 3;
    // The run ends when one of them is reached; 0: no limit.
    int64_t max_env_step = 0;
    int64_t max_train_iter = 0;
    absl::Duration max_time = absl::ZeroDuration();
    // What an evaluation's mean return can be, by the env's reward bounds.
    double min_return = -std::numeric_limits<double>::infinity();
    double max_return = std::numeric_limits<double>::infinity();
    // A learner that has made no progress for so long stalls: the log and RunStatus say so.
    absl::Duration stall_timeout = absl::Seconds(10);
    // Goes on with a run of the journal that an operator had stopped; else it ends at once.
    bool goes_on_after_stop = false;
  };
  // `on_removed` is to be passed on to the buffer.
  using BufferFactory = std::function<absl::StatusOr<std::unique_ptr<IBuffer>>(
      const std::string& buffer_id, OnRemoved on_removed)>;
  struct Parts {
    std::unique_ptr<BaseCommander> commander;
    BufferFactory make_buffer;  // called under the lock
    DataDeleter delete_key;     // deletes a key of the store: of a chunk, or of a policy
    CoordinatorSender* sender = nullptr;
    // Where it remembers what must survive its process; outlives it. A run that is in there already
    // goes on. Null: nothing survives.
    Journal* journal = nullptr;
    // Items that collectors announce, each of one row; null: the first push says which they are.
    SpecPtr items;
    // The keys of the store with this prefix; needed with a journal, after a restart: rows whose data
    // are gone are dropped, and data of no row are deleted.
    std::function<absl::StatusOr<std::vector<std::string>>(const std::string& prefix)> list_keys;
  };
  struct Counters {
    int64_t rows_pushed = 0;
    int64_t rows_acknowledged = 0;  // of these
    int64_t demands_answered = 0;
    int64_t demands_waited = 0;  // found too few rows at first
    int64_t pushes_waited = 0;   // were refused for their rate at first
    int64_t late_messages = 0;   // of tasks that were over
  };

  // A sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  //   kInvalidArgument  lists them
  //   kDataLoss, ...    the journal, or what is in it, cannot be read
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(const Options& options, Parts parts,
                                                             const ComponentDeps& deps);
  ~Coordinator() override = default;  // as Close()

  // From now on tasks are given. Once.
  virtual void Start() = 0;

  // Of WorkerHandler. The task of one that is lost is given to another one; what it announced stays.
  //   kInvalidArgument, kDataLoss  what it sent cannot be
  //   kResourceExhausted           it demands more than it reads
  //   kNotFound                    no such worker
  absl::Status Handle(uint32_t worker, const WorkerMessage& message) override = 0;

  // OK when the run has converged or used up its budget, or Close() was called; else why it failed
  // (kAborted: another coordinator goes on with it), or kDeadlineExceeded: it goes on.
  virtual absl::Status WaitUntilDone(absl::Duration timeout) = 0;
  // Ends the run if it goes on: every worker is told.
  virtual void RequestEnd(const std::string& reason) = 0;
  // Everything that was acknowledged stands in the journal from here on, and nothing more is written
  // to it: what Close() forgets is there for a run that goes on. Once, after RequestEnd().
  //   kUnavailable  its store is away: it may be called again
  //   kAborted      another coordinator goes on with this run: what is in the store is that one's
  virtual absl::Status CloseJournal() = 0;
  // Close() is to leave chunks and policies where they are, for a run that goes on with them.
  virtual void KeepData() = 0;
  // The same as RequestEnd(), and forgets all rows and deletes their chunks, and the policies, unless
  // they are to be kept. The first error of deleting. May be repeated.
  virtual absl::Status Close(const std::string& reason) = 0;

  virtual Counters counters() const = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COORDINATOR_H_
