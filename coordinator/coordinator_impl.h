// The composition of the coordinator, for its own sources only: users include coordinator.h.
//
//   what it knows, each in an object that owns its state:
//     WorkerRoster         the workers, and what they said
//     TaskScheduler        tasks that wait, free workers, failures in a row
//     TaskBuffer           the rows of a learner's task, and the demands for them
//     PolicyCatalogue      versions of policies
//     DoubtedEvaluations   results that need a witness
//     OperatorCommands     what operators ask for
//     RunProgress          time, steps, budgets
//     RunJournal           what has to be written down
//   what it does with them, in these files:
//     coordinator.cc           workers join and leave, the timer, the end of the run
//     coordinator_data.cc      pushes the items of collectors, and answers the demands of learners
//     coordinator_messages.cc  handles all other messages of workers
//     coordinator_tasks.cc     starts and ends tasks, and deletes what they leave
//     coordinator_status.cc    answers operators
//     coordinator_trust.cc     checks claims, sends workers away, notices stalls
//     coordinator_recovery.cc  writes the journal, and goes on with one
//
// Threads: as Coordinator. One mutex guards the objects. Each of them is thread-compatible and calls
//          none of the others, so that only this class has to think of the lock. Rows are pushed
//          and drawn without it.
#ifndef DING_WORKER_COORDINATOR_COORDINATOR_IMPL_H_
#define DING_WORKER_COORDINATOR_COORDINATOR_IMPL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/journal/recovery.h"
#include "ding_worker/coordinator/state/doubted_evaluations.h"
#include "ding_worker/coordinator/state/known_chunks.h"
#include "ding_worker/coordinator/state/operator_commands.h"
#include "ding_worker/coordinator/state/policy_catalogue.h"
#include "ding_worker/coordinator/state/run_journal.h"
#include "ding_worker/coordinator/state/run_progress.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/task_scheduler.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/stopper_list.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/replay_buffer/used_data_remover.h"

namespace ding {
namespace internal_coordinator {

// Prefixes of the keys of chunks and of policies in the store.
inline constexpr char kDataPrefix[] = "data/";
inline constexpr char kPolicyPrefix[] = "policy/";
// The reason for the end of a run that an operator has stopped.
inline constexpr char kStopped[] = "an operator has stopped it";

// The items that a message of a collector announces. Empty if it reports progress only.
struct AnnouncedItems {
  SegmentBatch items;
  std::vector<int64_t> chunks;  // of the items, each once

  int64_t rows_of_items = 0;  // the sum of their lengths

  int64_t rows() const { return items.rows.rows(); }
};

class CoordinatorImpl : public Coordinator {
 public:
  CoordinatorImpl(const Options& options, Parts parts, const ComponentDeps& deps)
      : options_(options),
        make_buffer_(std::move(parts.make_buffer)),
        make_task_buffer_(std::move(parts.make_task_buffer)),
        check_settings_(std::move(parts.check_settings)),
        items_(std::move(parts.items)),
        list_keys_(std::move(parts.list_keys)),
        sender_(parts.sender),
        deps_(deps),
        remover_(std::move(parts.delete_key)),
        commander_(std::move(parts.commander)),
        stoppers_(std::move(parts.stoppers)),
        scheduler_({options.learner_task_timeout, options.collector_task_timeout}),
        doubted_(options.min_return, options.max_return),
        commands_(options.wanted_collectors, options.max_collectors),
        progress_({options.max_env_step, options.max_train_iter, options.max_time}, deps.clock),
        journal_(parts.journal, /*on_replaced=*/[this] { timer_.Signal(); }) {
    progress_.AddFinishedSteps(options.first_env_step);  // those of a journal take their place
  }
  ~CoordinatorImpl() override { Close("the coordinator is closed").IgnoreError(); }

  // Continues the run in the journal, if there is one. Call it once, before any other function. After an error the journal
  // and the data are as before.
  absl::Status Recover() ABSL_LOCKS_EXCLUDED(mutex_);

  void Start() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<uint32_t> Admit(const Hello& hello) override ABSL_LOCKS_EXCLUDED(mutex_);
  void WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void WorkerLost(uint32_t worker, const absl::Status& why) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Handle(uint32_t worker, const WorkerMessage& message) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status WaitUntilDone(absl::Duration timeout) override ABSL_LOCKS_EXCLUDED(mutex_);
  void RequestEnd(const std::string& reason) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CloseJournal() override ABSL_LOCKS_EXCLUDED(mutex_);
  void KeepData() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Close(const std::string& reason) override ABSL_LOCKS_EXCLUDED(mutex_);
  OperatorReply Operate(const OperatorRequest& request) override ABSL_LOCKS_EXCLUDED(mutex_);
  int32_t incarnation() const override ABSL_LOCKS_EXCLUDED(mutex_);
  RunStatus status() const override ABSL_LOCKS_EXCLUDED(mutex_);
  Counters counters() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Messages.
  absl::Status Dispatch(uint32_t worker, const WorkerMessage& message) ABSL_LOCKS_EXCLUDED(mutex_);
  void HandleTaskStarted(uint32_t worker, const TaskStarted& started) ABSL_LOCKS_EXCLUDED(mutex_);
  void HandleTaskFailed(uint32_t worker, const TaskFailed& failed) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteFailure(uint32_t worker, const TaskScheduler::TaskKind& kind, const std::string& task_id,
                   const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status HandleCollectorData(uint32_t worker, const CollectorData& data)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status HandleCollectorFinished(uint32_t worker, const CollectorFinished& info)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status HandleLearnerDemand(uint32_t worker, const LearnerDemand& demand)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status HandleLearnerInfo(uint32_t worker, const LearnerInfo& info)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status HandlePolicyVersion(uint32_t worker, const PolicyVersion& version)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status HandleResources(uint32_t worker, const Resources& resources)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status HandleBadChunks(uint32_t worker, const BadChunks& bad) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status HandleGroupStatus(uint32_t worker, const GroupStatus& group)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void SendPolicy(uint32_t id, const PolicyVersion& version, Worker* worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteHeard(uint32_t id, Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Claims of workers. An error is the fault of the worker that made the claim.
  absl::Status CheckPaceOf(const RunningTask& task, int64_t steps) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The highest train iteration that collectors of the policy may act by.
  int64_t NewestIter(const std::string& policy_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckIter(const RunningTask& task, int64_t iter) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckVersion(const RunningTask& task, const PolicyVersion& version,
                            const std::string& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the commander the result of its task.
  void CountResult(const CollectorTask& task, const CollectorFinished& info)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Passes the result of an evaluation to the stoppers and to the hooks of the policy's learner.
  void TellOfEvaluation(const CollectorTask& task, const CollectorFinished& info)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `evaluation` may be null.
  void AskStoppers(const Evaluation* evaluation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountEvaluation(uint32_t worker, const CollectorTask& task, const CollectorFinished& info)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets another worker evaluate the same version of the policy.
  void AskWitness(DoubtedEvaluation doubted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Settle(const DoubtedEvaluation& doubted, const std::string& witness,
              const CollectorFinished& info) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AssignWitnesses() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes back a collector's task that has no result: tells the commander, or asks another witness.
  void GiveBack(const CollectorTask& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropDoubted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Accuse(uint32_t learner, const BadChunk& bad, RunningTask* task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDoubted(const std::string& learner, RunningTask* task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendAway(uint32_t id, const std::string& why, Worker* worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds a warning to the log and to the status.
  void Warn(const std::string& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes the train iteration that a message of a learner has named.
  void NoteProgress(int64_t iter, const Worker& worker, RunningTask* task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteStalls() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Data.
  absl::StatusOr<AnnouncedItems> DecodeItems(uint32_t worker, const CollectorData& data) const;
  absl::StatusOr<std::shared_ptr<TaskBuffer>> AdmitData(uint32_t worker, const CollectorData& data,
                                                        const AnnouncedItems& announced)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<bool> PushItems(uint32_t worker, const CollectorData& data,
                                 const AnnouncedItems& announced, TaskBuffer* buffer)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void DropData(uint32_t worker, const CollectorData& data, const AnnouncedItems& announced,
                TaskBuffer* buffer) ABSL_LOCKS_EXCLUDED(mutex_);
  void AcknowledgeData(uint32_t worker, const CollectorData& data, const AnnouncedItems& announced,
                       const std::shared_ptr<TaskBuffer>& buffer) ABSL_LOCKS_EXCLUDED(mutex_);
  Worker* FinishData(uint32_t worker, const CollectorData& data)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool JournalPush(uint32_t worker, const std::string& task_id, const JournalRecord& push,
                   absl::Status status, Journal* journal, TaskBuffer* buffer)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool WaitForRoom(uint32_t worker, const std::string& task_id, const std::string& why,
                   int64_t answers, TaskBuffer* buffer) ABSL_LOCKS_EXCLUDED(mutex_);
  void WaitToGoOn(uint32_t worker, const std::string& task_id, TaskBuffer* buffer)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Serve(const std::shared_ptr<TaskBuffer>& buffer) ABSL_LOCKS_EXCLUDED(mutex_);
  // Draws for a demand: a round from a buffer with rounds, or else batches.
  absl::StatusOr<Drawn> DrawFor(const LearnerDemand& demand, const ChunkSet* undrawable,
                                TaskBuffer* buffer) ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<LearnerDemand> NextDemand(bool answered, TaskBuffer* buffer,
                                          std::shared_ptr<const ChunkSet>* undrawable,
                                          absl::Status* may_draw) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckPush(int64_t rows, TaskBuffer* buffer) ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t CountPush(int64_t rows, TaskBuffer* buffer) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Answer(const LearnerDemand& demand, absl::StatusOr<Drawn> drawn, TaskBuffer* buffer)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Tasks.
  void Schedule() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeTasks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the settings of the task, which has some, are valid. If not, warns, and ends the run after a few such tasks in a
  // row.
  bool HasValidSettings(const StartTask& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBackExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Says which tasks no worker can be given, and ends the run if none will come that can.
  void NoteUnmet() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called when the task has waited for as long as it may. Ends the run if no worker will ever have the resources that tasks
  // of this kind need.
  void EndIfUnmet(Hello::Role kind, const std::string& task_id, const Resources& needed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether as many workers of the kind are here as the run was begun with or has tasks for, and each has
  // all the resources that it will have.
  bool AllHaveJoined(Hello::Role kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool StartLearnerTask(const LearnerTask& waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts the task on a free worker; returns false if there is none. If `witness_of` is set, the task confirms a result of
  // that worker, which therefore does not get it.
  bool StartCollectorTask(const CollectorTask& waiting,
                          std::optional<uint32_t> witness_of = std::nullopt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the buffer; makes it, with these settings, if it does not exist.
  absl::StatusOr<std::shared_ptr<TaskBuffer>> BufferOf(const std::string& buffer_id,
                                                       std::vector<std::string> settings)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RunningTask EndTask(uint32_t id, Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailTask(uint32_t id, Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseTask(uint32_t id, Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishLearnerTask(uint32_t id, Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropFinishedPolicies() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsKept(const PolicyVersion& version) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AskStoppersIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckBudget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const absl::Status& status, const std::string& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunTimer() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration TimeToNextEvent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The journal.
  void RecoverState(const RecoveredRun& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RecoverStoppers(const std::string& bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RecoverFromJournal() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status RecoverRows(const RecoveredRun& run) ABSL_LOCKS_EXCLUDED(mutex_);
  void RecoverPolicies(const RecoveredRun& run) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the keys of the store; nullopt if the store cannot list them.
  std::optional<std::unordered_set<std::string>> ListKeys(const std::string& prefix) const;
  void SkipNumbersOf(const std::unordered_set<std::string>& keys) ABSL_LOCKS_EXCLUDED(mutex_);
  // Deletes what a worker that joins again left under its previous number.
  void ForgetPrevious(const Hello& hello) ABSL_LOCKS_EXCLUDED(mutex_);
  JournalRecord StateNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<JournalRecord>> AllNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does what RunJournal::Persist() does.
  absl::Status Persist() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes all that is known, but rows, in the place of what the journal says of it.
  absl::Status ReplaceJournal() ABSL_LOCKS_EXCLUDED(mutex_);

  // These functions note, under the lock, what to delete. DeleteForgotten() runs without the lock,
  // because it waits for the store.
  void ForgetKeys(const std::vector<std::string>& keys) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetChunks(const std::vector<int64_t>& chunks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetRemoved(TaskBuffer* buffer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetUnannounced(uint32_t id, const Worker& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DeleteForgotten() ABSL_LOCKS_EXCLUDED(mutex_);

  // Operators.
  absl::StatusOr<std::string> CarryOut(const OperatorRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drain(uint32_t id, Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells a worker that is not needed any more to leave.
  void LetGo(uint32_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // As WorkerRoster::FindTask(). Counts the message as late if the worker does not run the task any more.
  RunningTask* FindTaskOf(uint32_t worker, const std::string& task_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t EnvSteps() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The env steps of the policy that learns from the buffer.
  int64_t EnvStepsOf(const TaskBuffer& buffer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration Elapsed(int64_t since_nanos) const {
    return absl::Nanoseconds(deps_.clock->MonotonicNanos() - since_nanos);
  }

  const Options options_;
  const BufferFactory make_buffer_;
  const TaskBufferFactory make_task_buffer_;
  const SettingsCheck check_settings_;
  const SpecPtr items_;
  const std::function<absl::StatusOr<std::vector<std::string>>(const std::string& prefix)>
      list_keys_;
  CoordinatorSender* const sender_;
  const ComponentDeps deps_;
  UsedDataRemover remover_;

  // Held by Close(), which joins threads. mutex_ may be taken while it is held.
  Mutex close_mutex_;
  mutable Mutex mutex_;
  CondVar changed_;  // a draw, the end of a task, the end of the run
  CondVar timer_;    // waiting tasks, the end of the run
  const std::unique_ptr<BaseCommander> commander_ ABSL_PT_GUARDED_BY(mutex_);
  StopperList stoppers_ ABSL_GUARDED_BY(mutex_);
  std::optional<int64_t> asked_stoppers_nanos_ ABSL_GUARDED_BY(mutex_);  // between evaluations
  WorkerRoster workers_ ABSL_GUARDED_BY(mutex_);
  TaskScheduler scheduler_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<TaskBuffer>> buffers_ ABSL_GUARDED_BY(mutex_);
  PolicyCatalogue policies_ ABSL_GUARDED_BY(mutex_);
  DoubtedEvaluations doubted_ ABSL_GUARDED_BY(mutex_);
  OperatorCommands commands_ ABSL_GUARDED_BY(mutex_);
  RunProgress progress_ ABSL_GUARDED_BY(mutex_);
  RunJournal journal_ ABSL_GUARDED_BY(mutex_);

  int32_t incarnation_ ABSL_GUARDED_BY(mutex_) = 1;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status final_status_ ABSL_GUARDED_BY(mutex_);
  std::string end_reason_ ABSL_GUARDED_BY(mutex_);
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> warnings_ ABSL_GUARDED_BY(mutex_);  // the last few
  // How many tasks in a row the commander gave with invalid settings.
  std::map<Hello::Role, int> invalid_settings_ ABSL_GUARDED_BY(mutex_);
  // For each kind of task: why no worker can be given a task of this kind that waits.
  std::map<Hello::Role, std::string> unmet_ ABSL_GUARDED_BY(mutex_);
  // Noted for deletion: keys of the store, and the rows of buffers.
  std::vector<std::string> forgotten_keys_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<TaskBuffer>> forgotten_buffers_ ABSL_GUARDED_BY(mutex_);
  // Keys of the chunks that were there when this coordinator began.
  std::unordered_set<std::string> recovered_keys_ ABSL_GUARDED_BY(mutex_);
  bool keeps_data_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread timer_thread_;
};

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COORDINATOR_IMPL_H_
