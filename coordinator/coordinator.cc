#include "ding_worker/coordinator/coordinator.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/journal.h"
#include "ding_worker/coordinator/recovery.h"
#include "ding_worker/coordinator/resource_manager.h"
#include "ding_worker/coordinator/task_buffer.h"
#include "ding_worker/coordinator/task_state.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/priority_info.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/protocol.h"
#include "glog/logging.h"

namespace ding {
namespace {

// How long a refused push waits before it tries again: the rate control fades with time.
constexpr absl::Duration kPushRetry = absl::Milliseconds(5);
// Versions of a policy that are sent to a worker who says nothing.
constexpr int kMaxPoliciesUnheard = 64;
// A collector has at most eight announcements under way, and stores one chunk for the next.
constexpr int64_t kMaxUnannouncedChunks = 16;
// Between two attempts to compact a journal that could not be.
constexpr absl::Duration kCompactionRetry = absl::Seconds(10);
constexpr char kDataPrefix[] = "data/";
constexpr char kPolicyPrefix[] = "policy/";
constexpr char kStopped[] = "an operator has stopped it";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct RunningTask {
  TaskState state;
  CollectorTask collector;  // the one of state.kind
  LearnerTask learner;
  std::shared_ptr<TaskBuffer> buffer;
  int64_t steps = 0;        // env steps, or the learner's step
  int64_t first_step = -1;  // of a learner; -1: none was heard of
};

struct Worker {
  Hello hello;
  std::string peer;
  int64_t joined_nanos = 0;
  std::optional<RunningTask> task;
  uint64_t data_sequence = 0;    // the last one that was handled
  int64_t newest_chunk = -1;     // of those
  uint64_t demand_sequence = 0;  // that came
  int policies_since_heard = 0;  // versions that it was sent since it said something
  std::optional<PolicyVersion> withheld_policy;  // the newest, if it was not sent
  std::string stalled;                           // as it says itself
  std::string waits_for;                         // of the buffer
  bool draining = false;                         // gets no further task
  GroupStatus group;                             // of an aggregator, as it said last
  int64_t group_nanos = 0;                       // when that was
};

template <typename Task>
struct WaitingTask {
  Task task;
  int64_t since_nanos = 0;
};

// What the newest versions of a policy are.
struct PolicyHistory {
  uint64_t newest = 0;
  // The two newest, and older ones that somebody keeps; oldest first.
  std::deque<PolicyVersion> stored;
  bool finished = false;  // its learner task is
};

// The role whose message it is; none: anybody's.
absl::StatusOr<std::optional<Hello::Role>> SenderOf(const WorkerMessage& message) {
  switch (message.message_case()) {
    case WorkerMessage::kTaskStarted:
    case WorkerMessage::kTaskFailed:
    case WorkerMessage::kResources:
      return std::nullopt;
    case WorkerMessage::kCollectorData:
    case WorkerMessage::kCollectorFinished:
      return Hello::COLLECTOR;
    case WorkerMessage::kLearnerDemand:
    case WorkerMessage::kLearnerInfo:
    case WorkerMessage::kPolicyVersion:
    case WorkerMessage::kGroupStatus:
      return Hello::LEARNER;
    case WorkerMessage::kHello:
    case WorkerMessage::kStatusRequest:  // of operators, who have no session with the coordinator
    case WorkerMessage::kOperatorRequest:
    case WorkerMessage::kGroupReady:  // to an aggregator
    case WorkerMessage::kGroupValue:
    case WorkerMessage::MESSAGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a message of kind ", static_cast<int>(message.message_case()),
                   ", which nobody sends in the middle of a session"));
}

class CoordinatorImpl : public Coordinator {
 public:
  CoordinatorImpl(const Options& options, Parts parts, const ComponentDeps& deps)
      : options_(options),
        make_buffer_(std::move(parts.make_buffer)),
        list_keys_(std::move(parts.list_keys)),
        sender_(parts.sender),
        deps_(deps),
        remover_(std::move(parts.delete_key)),
        wanted_collectors_(options.wanted_collectors),
        commander_(std::move(parts.commander)),
        journal_(parts.journal) {}
  ~CoordinatorImpl() override { Close("the coordinator is closed").IgnoreError(); }

  // Goes on with the run that is in the journal, if there is one. Once, before all others.
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
  void HandleResources(uint32_t worker, const Resources& resources) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status HandleGroupStatus(uint32_t worker, const GroupStatus& group)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void SendPolicy(uint32_t id, const PolicyVersion& version, Worker* worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteHeard(uint32_t id, Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Data.
  absl::StatusOr<std::shared_ptr<TaskBuffer>> AdmitData(uint32_t worker, const CollectorData& data,
                                                        const std::vector<int64_t>& chunks)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<bool> PushItems(uint32_t worker, const CollectorData& data,
                                 const std::vector<int64_t>& chunks, const SegmentBatch& items,
                                 TaskBuffer* buffer) ABSL_LOCKS_EXCLUDED(mutex_);
  bool JournalPush(uint32_t worker, const std::string& task_id, const JournalRecord& push,
                   absl::Status status, Journal* journal, TaskBuffer* buffer)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool WaitForRoom(uint32_t worker, const std::string& task_id, const std::string& why,
                   int64_t answers, TaskBuffer* buffer) ABSL_LOCKS_EXCLUDED(mutex_);
  void Serve(const std::shared_ptr<TaskBuffer>& buffer) ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<LearnerDemand> NextDemand(bool answered, TaskBuffer* buffer)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool Answer(const LearnerDemand& demand, absl::StatusOr<Drawn> drawn, TaskBuffer* buffer)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Tasks.
  void Schedule() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBackExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AssignLearnerTasks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AssignCollectorTasks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool StartLearnerTask(const LearnerTask& waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool StartCollectorTask(const CollectorTask& waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<TaskBuffer>> BufferOf(const std::string& buffer_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RunningTask EndTask(uint32_t id, Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailTask(uint32_t id, Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseTask(uint32_t id, Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishLearnerTask(uint32_t id, Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropFinishedPolicies() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropPolicies(size_t keep_newest, PolicyHistory* history)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsKept(const PolicyVersion& version) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckBudget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const absl::Status& status, const std::string& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunTimer() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration TimeToNextEvent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What must survive.
  void RecoverState(const RecoveredRun& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RecoverRows(const RecoveredRun& run) ABSL_LOCKS_EXCLUDED(mutex_);
  void RecoverPolicies(const RecoveredRun& run) ABSL_LOCKS_EXCLUDED(mutex_);
  // The keys of the store; none: it does not say.
  std::optional<std::unordered_set<std::string>> ListKeys(const std::string& prefix) const;
  // What a worker that joins again left under its previous number.
  void ForgetPrevious(const Hello& hello) ABSL_LOCKS_EXCLUDED(mutex_);
  JournalRecord StateNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<JournalRecord>> AllNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // To be journaled by the next Persist().
  template <typename Task>
  void NoteGiven(const Task& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteOver(const std::string& task_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes what has changed since the last time. What cannot be written is by the next call.
  absl::Status Persist() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // If that is what `status`, of the journal, says: the run ends here, soon.
  void NoteReplaced(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Compact() ABSL_LOCKS_EXCLUDED(mutex_);
  void CompactIfWorthIt() ABSL_LOCKS_EXCLUDED(mutex_);

  // Deleting, which waits for the store, happens outside of the lock.
  void ForgetChunks(const std::vector<int64_t>& chunks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetRemoved(TaskBuffer* buffer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetUnannounced(uint32_t id, const Worker& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DeleteForgotten() ABSL_LOCKS_EXCLUDED(mutex_);

  // Operators.
  absl::StatusOr<std::string> OperateLocked(const OperatorRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::string> Want(int64_t collectors) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::string> DrainNamed(const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckKnown(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drain(uint32_t id, Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A worker that has nothing to do any more is told to leave.
  void LetGo(uint32_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Worker* FindWorker(uint32_t worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RunningTask* FindTask(uint32_t worker, const std::string& task_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // As FindTask, for the first look at a message: counts those that come late.
  RunningTask* FindTaskOf(uint32_t worker, const std::string& task_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t EnvSteps() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration Elapsed(int64_t since_nanos) const {
    return absl::Nanoseconds(deps_.clock->MonotonicNanos() - since_nanos);
  }
  void FillWorker(uint32_t id, const Worker& worker, WorkerStatus* status) const;

  const Options options_;
  const BufferFactory make_buffer_;
  const std::function<absl::StatusOr<std::vector<std::string>>(const std::string& prefix)>
      list_keys_;
  CoordinatorSender* const sender_;
  const ComponentDeps deps_;
  UsedDataRemover remover_;
  NaiveResourceManager resources_;

  mutable Mutex mutex_;
  CondVar changed_;  // a draw, a task that is over, the end
  CondVar timer_;    // waiting tasks, the end
  int wanted_collectors_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<BaseCommander> commander_ ABSL_PT_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool converged_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_wanted_ ABSL_GUARDED_BY(mutex_) = false;  // by an operator
  // Name and process of those that an earlier coordinator was draining, and that are not here yet.
  std::set<std::pair<std::string, int64_t>> were_draining_ ABSL_GUARDED_BY(mutex_);
  absl::Status final_status_ ABSL_GUARDED_BY(mutex_);
  std::string end_reason_ ABSL_GUARDED_BY(mutex_);
  int64_t start_nanos_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t elapsed_before_nanos_ ABSL_GUARDED_BY(mutex_) = 0;  // under earlier coordinators
  // Of the first collecting task.
  std::optional<int64_t> collecting_nanos_ ABSL_GUARDED_BY(mutex_);
  int64_t end_nanos_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint32_t, Worker> workers_ ABSL_GUARDED_BY(mutex_);
  int collectors_ ABSL_GUARDED_BY(mutex_) = 0;  // that are there
  int64_t workers_joined_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t workers_lost_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::shared_ptr<TaskBuffer>> buffers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, PolicyHistory> policies_ ABSL_GUARDED_BY(mutex_);
  uint64_t policy_version_ ABSL_GUARDED_BY(mutex_) = 0;  // published last
  std::deque<WaitingTask<CollectorTask>> waiting_collector_tasks_ ABSL_GUARDED_BY(mutex_);
  std::deque<WaitingTask<LearnerTask>> waiting_learner_tasks_ ABSL_GUARDED_BY(mutex_);
  std::map<Hello::Role, int> failures_ ABSL_GUARDED_BY(mutex_);  // in a row
  int64_t finished_steps_ ABSL_GUARDED_BY(mutex_) = 0;           // of tasks that are over
  int64_t train_iter_ ABSL_GUARDED_BY(mutex_) = 0;
  double best_eval_value_ ABSL_GUARDED_BY(mutex_) = -kInfinity;
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> forgotten_keys_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<TaskBuffer>> forgotten_buffers_ ABSL_GUARDED_BY(mutex_);
  Journal* journal_ ABSL_GUARDED_BY(mutex_);  // null: nothing is to survive, or not any more
  bool state_changed_ ABSL_GUARDED_BY(mutex_) = true;      // since Persist()
  bool commander_changed_ ABSL_GUARDED_BY(mutex_) = true;  // also
  std::vector<JournalRecord> unwritten_ ABSL_GUARDED_BY(mutex_);
  JournalRecord removed_ ABSL_GUARDED_BY(mutex_);  // chunks that are about to be deleted
  absl::Status replaced_ ABSL_GUARDED_BY(mutex_);  // by another coordinator, if it is not OK
  bool keeps_data_ ABSL_GUARDED_BY(mutex_) = false;
  int32_t incarnation_ ABSL_GUARDED_BY(mutex_) = 1;
  uint32_t last_worker_ ABSL_GUARDED_BY(mutex_) = 0;
  // Keys of the chunks that were there when this coordinator began.
  std::unordered_set<std::string> recovered_keys_ ABSL_GUARDED_BY(mutex_);
  std::optional<int64_t> compaction_failed_nanos_;  // of the thread below
  std::thread timer_thread_;
};

void CoordinatorImpl::Start() {
  MutexLock lock(&mutex_);
  DING_CHECK(!started_) << "the coordinator was started before";
  started_ = true;
  start_nanos_ = deps_.clock->MonotonicNanos() - elapsed_before_nanos_;
  if (converged_) End(absl::OkStatus(), "it had converged before");
  if (stop_wanted_) End(absl::OkStatus(), kStopped);
  Schedule();
  timer_thread_ = std::thread([this] { RunTimer(); });
}

void CoordinatorImpl::RunTimer() {
  bool ended = false;
  while (!ended) {
    {
      MutexLock lock(&mutex_);
      if (!ended_ && replaced_.ok()) timer_.WaitFor(&mutex_, TimeToNextEvent());
      if (!replaced_.ok()) End(replaced_, "another coordinator goes on with it");
      Schedule();
      ended = ended_;
    }
    DeleteForgotten();
    CompactIfWorthIt();
  }
}

absl::Duration CoordinatorImpl::TimeToNextEvent() const {
  absl::Duration wait = commander_->AskAgainAfter();
  // The first of each queue has waited for longest.
  if (!waiting_collector_tasks_.empty()) {
    wait = std::min(wait, options_.collector_task_timeout -
                              Elapsed(waiting_collector_tasks_.front().since_nanos));
  }
  if (!waiting_learner_tasks_.empty()) {
    wait = std::min(
        wait, options_.learner_task_timeout - Elapsed(waiting_learner_tasks_.front().since_nanos));
  }
  if (options_.max_time > absl::ZeroDuration()) {
    wait = std::min(wait, options_.max_time - Elapsed(start_nanos_));
  }
  return std::max(wait, absl::Milliseconds(1));
}

void CoordinatorImpl::WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) {
  if (hello.previous_worker() > 0) ForgetPrevious(hello);
  MutexLock lock(&mutex_);
  Worker joined;
  joined.hello = hello;
  joined.peer = peer;
  joined.joined_nanos = deps_.clock->MonotonicNanos();
  DING_CHECK(workers_.emplace(worker, std::move(joined)).second)
      << "worker " << worker << " joined before";
  ++workers_joined_;
  last_worker_ = std::max(last_worker_, worker);
  state_changed_ = true;
  LOG(INFO) << hello.name() << " joined as worker " << worker << " from " << peer;
  if (ended_) {
    CoordinatorMessage message;
    message.mutable_end_run()->set_converged(converged_);
    message.mutable_end_run()->set_reason(end_reason_);
    sender_->Send(worker, message);
    return;
  }
  if (hello.role() == Hello::COLLECTOR && ++collectors_ > options_.collectors) {
    commander_->IncreaseCollectorTaskSpace();
  }
  resources_.Update(hello.role(), worker, hello.resources());
  if (were_draining_.erase({hello.name(), hello.pid()}) > 0) Drain(worker, FindWorker(worker));
  Schedule();
}

void CoordinatorImpl::WorkerLost(uint32_t worker, const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    Worker* const lost = FindWorker(worker);
    if (lost == nullptr) return;
    const Hello::Role role = lost->hello.role();
    if (!lost->draining) ++workers_lost_;
    state_changed_ = true;
    LOG_IF(WARNING, !ended_) << lost->hello.name() << " (worker " << worker << ") is gone: " << why;
    if (!ended_) {
      if (role == Hello::COLLECTOR && collectors_-- > options_.collectors) {
        commander_->DecreaseCollectorTaskSpace();
      }
      if (lost->task.has_value()) FailTask(worker, lost);
      if (role == Hello::COLLECTOR) ForgetUnannounced(worker, *lost);
    }
    resources_.Delete(role, worker);
    workers_.erase(worker);
    changed_.SignalAll();
    Schedule();
  }
  DeleteForgotten();
}

absl::Status CoordinatorImpl::Handle(uint32_t worker, const WorkerMessage& message) {
  const absl::Status status = Dispatch(worker, message);
  DeleteForgotten();
  return Annotate(status, absl::StrCat("worker ", worker));
}

absl::Status CoordinatorImpl::Dispatch(uint32_t worker, const WorkerMessage& message) {
  DING_ASSIGN_OR_RETURN(const std::optional<Hello::Role> expected, SenderOf(message));
  {
    MutexLock lock(&mutex_);
    Worker* const sender = FindWorker(worker);
    if (sender == nullptr) return absl::NotFoundError("there is no such worker");
    if (expected.has_value() && sender->hello.role() != *expected) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a ", Hello::Role_Name(sender->hello.role()), " sent what only a ",
          Hello::Role_Name(*expected), " sends: kind ", static_cast<int>(message.message_case())));
    }
    NoteHeard(worker, sender);
  }
  switch (message.message_case()) {
    case WorkerMessage::kTaskStarted:
      HandleTaskStarted(worker, message.task_started());
      return absl::OkStatus();
    case WorkerMessage::kTaskFailed:
      HandleTaskFailed(worker, message.task_failed());
      return absl::OkStatus();
    case WorkerMessage::kCollectorData:
      return HandleCollectorData(worker, message.collector_data());
    case WorkerMessage::kCollectorFinished:
      return HandleCollectorFinished(worker, message.collector_finished());
    case WorkerMessage::kLearnerDemand:
      return HandleLearnerDemand(worker, message.learner_demand());
    case WorkerMessage::kLearnerInfo:
      return HandleLearnerInfo(worker, message.learner_info());
    case WorkerMessage::kPolicyVersion:
      return HandlePolicyVersion(worker, message.policy_version());
    case WorkerMessage::kResources:
      HandleResources(worker, message.resources());
      return absl::OkStatus();
    case WorkerMessage::kGroupStatus:
      return HandleGroupStatus(worker, message.group_status());
    default:
      DING_CHECK(false) << "SenderOf() knows it";
      return absl::OkStatus();
  }
}

Worker* CoordinatorImpl::FindWorker(uint32_t worker) {
  const auto it = workers_.find(worker);
  return it == workers_.end() ? nullptr : &it->second;
}

RunningTask* CoordinatorImpl::FindTask(uint32_t worker, const std::string& task_id) {
  Worker* const found = FindWorker(worker);
  if (found == nullptr || !found->task.has_value()) return nullptr;
  return found->task->state.task_id == task_id ? &*found->task : nullptr;
}

RunningTask* CoordinatorImpl::FindTaskOf(uint32_t worker, const std::string& task_id) {
  RunningTask* const task = FindTask(worker, task_id);
  if (task == nullptr) ++counters_.late_messages;
  return task;
}

void CoordinatorImpl::HandleTaskStarted(uint32_t worker, const TaskStarted& started) {
  MutexLock lock(&mutex_);
  RunningTask* const task = FindTaskOf(worker, started.task_id());
  if (task == nullptr || task->state.kind != Hello::LEARNER) return;
  task->buffer->set_started();
  state_changed_ = true;
  Schedule();
}

void CoordinatorImpl::HandleTaskFailed(uint32_t worker, const TaskFailed& failed) {
  MutexLock lock(&mutex_);
  RunningTask* const task = FindTaskOf(worker, failed.task_id());
  if (task == nullptr) return;
  Worker* const sender = FindWorker(worker);
  const Hello::Role kind = task->state.kind;
  // Only kCancelled says that it was not the task's fault.
  const auto code = static_cast<absl::StatusCode>(failed.code());
  const absl::Status why(code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : code,
                         failed.message());
  LOG(WARNING) << failed.task_id() << " of " << sender->hello.name() << " failed: " << why;
  const int failures = code == absl::StatusCode::kCancelled ? 0 : ++failures_[kind];
  FailTask(worker, sender);
  if (failures >= options_.max_task_failures) {
    End(Annotate(why, absl::StrCat(failures, " tasks failed in a row, the last ", failed.task_id(),
                                   " of ", sender->hello.name())),
        "tasks fail");
  }
  Schedule();
}

absl::Status CoordinatorImpl::HandleCollectorData(uint32_t worker, const CollectorData& data) {
  DING_RETURN_IF_ERROR(CheckSteps(data.progress().cur_step()));
  SegmentBatch items;
  std::vector<int64_t> chunks;
  if (!data.items().empty()) {
    DING_ASSIGN_OR_RETURN(Batch rows, DecodeBatch(data.items()));
    DING_ASSIGN_OR_RETURN(items, MakeItems(std::move(rows)));
    DING_ASSIGN_OR_RETURN(chunks, ChunksOf(items.rows, worker));
  }
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<TaskBuffer> buffer, AdmitData(worker, data, chunks));
  if (buffer == nullptr) return absl::OkStatus();
  const absl::StatusOr<bool> pushed = PushItems(worker, data, chunks, items, buffer.get());
  {
    MutexLock lock(&mutex_);
    Worker* const sender = FindWorker(worker);
    if (sender != nullptr) {
      sender->data_sequence = data.sequence();
      sender->waits_for.clear();
    }
    if (!pushed.ok() || !*pushed) {
      buffer->DropChunks(chunks.size());
      ForgetChunks(chunks);
      return pushed.status();
    }
    counters_.rows_pushed += items.rows.rows();
    // It was closed, and its rows forgotten, while these were under way.
    if (buffer->closed()) forgotten_buffers_.push_back(buffer);
    if (sender != nullptr && !buffer->closed()) {
      counters_.rows_acknowledged += items.rows.rows();
      CoordinatorMessage message;
      message.mutable_collector_data_ack()->set_task_id(data.task_id());
      message.mutable_collector_data_ack()->set_sequence(data.sequence());
      sender_->Send(worker, message);
    }
  }
  Serve(buffer);
  MutexLock lock(&mutex_);
  CheckBudget();
  if (journal_ != nullptr && journal_->WantsCompaction()) timer_.Signal();
  return absl::OkStatus();
}

// The buffer that the items go to; null: there is nothing to push.
absl::StatusOr<std::shared_ptr<TaskBuffer>> CoordinatorImpl::AdmitData(
    uint32_t worker, const CollectorData& data, const std::vector<int64_t>& chunks) {
  MutexLock lock(&mutex_);
  Worker* const sender = FindWorker(worker);
  if (sender == nullptr) return absl::NotFoundError("there is no such worker");
  const bool progress_only = !data.has_sequence() && data.items().empty();
  if (!progress_only && data.sequence() > sender->data_sequence + 1) {
    return absl::InvalidArgumentError(absl::StrCat("data ", data.sequence(), ", expected data ",
                                                   sender->data_sequence + 1, " or earlier ones"));
  }
  if (!progress_only && data.sequence() < 1) {
    return absl::InvalidArgumentError("data without a sequence number, expected one from 1 on");
  }
  if (!progress_only && data.sequence() <= sender->data_sequence) {
    CoordinatorMessage message;
    message.mutable_collector_data_ack()->set_task_id(data.task_id());
    message.mutable_collector_data_ack()->set_sequence(sender->data_sequence);
    sender_->Send(worker, message);
    return nullptr;
  }
  if (!chunks.empty()) {
    if (chunks.front() <= sender->newest_chunk) {
      return absl::InvalidArgumentError(absl::StrCat("items of chunk ", chunks.front(),
                                                     " after those of chunk ", sender->newest_chunk,
                                                     ", expected all of a chunk in one message"));
    }
    sender->newest_chunk = chunks.back();
  }
  RunningTask* const task = FindTaskOf(worker, data.task_id());
  if (task == nullptr) {
    if (!progress_only) sender->data_sequence = data.sequence();
    ForgetChunks(chunks);
    return nullptr;
  }
  if (task->collector.eval_flag() && !chunks.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data of ", data.task_id(), ", an evaluation, which sends none"));
  }
  task->steps = std::max(task->steps, data.progress().cur_step());
  sender->stalled = data.progress().stalled();
  if (progress_only) {
    CheckBudget();
    return nullptr;
  }
  task->buffer->AddChunks(chunks.size());
  return task->buffer;
}

// False: the task is over, and the items are not wanted any more.
absl::StatusOr<bool> CoordinatorImpl::PushItems(uint32_t worker, const CollectorData& data,
                                                const std::vector<int64_t>& chunks,
                                                const SegmentBatch& items, TaskBuffer* buffer) {
  if (items.rows.empty()) return true;
  const std::string& task_id = data.task_id();
  bool refused = false;
  while (true) {
    int64_t answers = 0;
    int64_t envstep = 0;
    Journal* journal = nullptr;
    {
      MutexLock lock(&mutex_);
      if (FindTask(worker, task_id) == nullptr) return false;
      answers = buffer->answers();
      envstep = EnvSteps();
      journal = journal_;
    }
    absl::Status status;
    absl::Status journaled;
    JournalRecord push;
    {
      MutexLock order(buffer->pushing());
      status = buffer->rows()->Push(items, envstep);
      if (status.ok() && journal != nullptr) {
        push.mutable_push()->set_buffer_id(buffer->id());
        push.mutable_push()->set_items(data.items());
        push.mutable_push()->mutable_chunk()->Add(chunks.begin(), chunks.end());
        push.mutable_push()->set_rows_total(buffer->rows_total());
        push.mutable_push()->set_envstep(envstep);
        journaled = journal->Append({push});
      }
    }
    if (!journaled.ok()) return JournalPush(worker, task_id, push, journaled, journal, buffer);
    if (status.ok()) return true;
    if (status.code() == absl::StatusCode::kInvalidArgument) return status;
    if (status.code() != absl::StatusCode::kUnavailable) {
      MutexLock lock(&mutex_);
      End(Annotate(status, absl::StrCat("pushing into ", buffer->id())), "a buffer failed");
      return false;
    }
    if (!refused) {
      MutexLock lock(&mutex_);
      ++counters_.pushes_waited;
    }
    refused = true;
    if (!WaitForRoom(worker, task_id, std::string(status.message()), answers, buffer)) return false;
  }
}

// Writes a push that could not be written at first: until then it is not acknowledged.
bool CoordinatorImpl::JournalPush(uint32_t worker, const std::string& task_id,
                                  const JournalRecord& push, absl::Status status, Journal* journal,
                                  TaskBuffer* buffer) {
  do {
    int64_t answers = 0;
    {
      MutexLock lock(&mutex_);
      NoteReplaced(status);
      answers = buffer->answers();
    }
    const std::string why = absl::StrCat("the journal: ", status.message());
    if (!WaitForRoom(worker, task_id, why, answers, buffer)) return false;
    status = journal->Append({push});
  } while (!status.ok());
  return true;
}

// Waits until a push is worth another try; false: its task is over.
bool CoordinatorImpl::WaitForRoom(uint32_t worker, const std::string& task_id,
                                  const std::string& why, int64_t answers, TaskBuffer* buffer) {
  MutexLock lock(&mutex_);
  if (FindTask(worker, task_id) == nullptr) return false;
  FindWorker(worker)->waits_for = why;
  bool in_time = true;
  while (in_time && FindTask(worker, task_id) != nullptr && buffer->answers() == answers) {
    in_time = changed_.WaitFor(&mutex_, kPushRetry);
  }
  return FindTask(worker, task_id) != nullptr;
}

absl::Status CoordinatorImpl::HandleCollectorFinished(uint32_t worker,
                                                      const CollectorFinished& info) {
  DING_RETURN_IF_ERROR(CheckSteps(info.step_count()));
  MutexLock lock(&mutex_);
  RunningTask* const task = FindTaskOf(worker, info.task_id());
  if (task == nullptr) return absl::OkStatus();
  task->steps = std::max(task->steps, info.step_count());
  if (!commander_->JudgeCollectorFinish(info)) {
    FailTask(worker, FindWorker(worker));
    Schedule();
    return absl::OkStatus();
  }
  failures_[Hello::COLLECTOR] = 0;
  const RunningTask finished = EndTask(worker, FindWorker(worker));
  NoteOver(info.task_id());
  const bool converged = commander_->FinishCollectorTask(finished.collector, info);
  best_eval_value_ = std::max(best_eval_value_, commander_->last_eval_value().value_or(-kInfinity));
  if (converged) {
    converged_ = true;
    End(absl::OkStatus(),
        absl::StrCat("converged: mean return ", commander_->last_eval_value().value_or(0), " in ",
                     info.task_id()));
  }
  Schedule();
  return absl::OkStatus();
}

absl::Status CoordinatorImpl::HandleLearnerDemand(uint32_t worker, const LearnerDemand& demand) {
  DING_RETURN_IF_ERROR(CheckDemand(demand));
  std::shared_ptr<TaskBuffer> buffer;
  {
    MutexLock lock(&mutex_);
    Worker* const sender = FindWorker(worker);
    if (sender == nullptr) return absl::NotFoundError("there is no such worker");
    if (demand.sequence() < 1 || demand.sequence() > sender->demand_sequence + 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "demand ", demand.sequence(), ", expected demand ", sender->demand_sequence + 1));
    }
    if (demand.sequence() <= sender->demand_sequence) return absl::OkStatus();  // came before
    sender->demand_sequence = demand.sequence();
    RunningTask* const task = FindTaskOf(worker, demand.task_id());
    if (task == nullptr) return absl::OkStatus();
    buffer = task->buffer;
    const absl::Status added = buffer->AddDemand(demand);
    ForgetRemoved(buffer.get());
    DING_RETURN_IF_ERROR(added);
  }
  Serve(buffer);
  return absl::OkStatus();
}

// Answers demands for as long as there are rows. One thread at a time: they are answered in order.
void CoordinatorImpl::Serve(const std::shared_ptr<TaskBuffer>& buffer) {
  {
    MutexLock lock(&mutex_);
    if (!buffer->BeginServing()) return;
  }
  bool answered = true;
  while (const std::optional<LearnerDemand> demand = NextDemand(answered, buffer.get())) {
    answered = Answer(*demand, Draw(buffer->rows(), *demand), buffer.get());
  }
}

std::optional<LearnerDemand> CoordinatorImpl::NextDemand(bool answered, TaskBuffer* buffer) {
  MutexLock lock(&mutex_);
  return buffer->NextDemand(answered);
}

// False: there were too few rows.
bool CoordinatorImpl::Answer(const LearnerDemand& demand, absl::StatusOr<Drawn> drawn,
                             TaskBuffer* buffer) {
  MutexLock lock(&mutex_);
  // A learner that is gone has taken its demands along.
  if (!buffer->IsAsked(demand)) return true;
  Worker* const learner = FindWorker(*buffer->learner());
  if (!drawn.ok()) {
    buffer->TooFewRows(demand);
    ForgetRemoved(buffer);
    if (drawn.status().code() != absl::StatusCode::kFailedPrecondition) {
      End(Annotate(drawn.status(), absl::StrCat("drawing from ", buffer->id())), "a buffer failed");
      return true;
    }
    if (learner->waits_for.empty()) ++counters_.demands_waited;
    learner->waits_for = std::string(drawn.status().message());
    return false;
  }
  learner->waits_for.clear();
  buffer->Answered(*drawn);
  ++counters_.demands_answered;
  CoordinatorMessage message;
  *message.mutable_learner_data() = std::move(drawn->answer);
  message.mutable_learner_data()->set_envstep(EnvSteps());
  sender_->Send(*buffer->learner(), message);
  changed_.SignalAll();
  return true;
}

absl::Status CoordinatorImpl::HandleLearnerInfo(uint32_t worker, const LearnerInfo& info) {
  DING_RETURN_IF_ERROR(CheckLearnerInfo(info));
  std::shared_ptr<TaskBuffer> buffer;
  {
    MutexLock lock(&mutex_);
    RunningTask* const task = FindTaskOf(worker, info.task_id());
    if (task == nullptr) return absl::OkStatus();
    buffer = task->buffer;
  }
  if (info.priority_size() > 0) {
    PriorityInfo priorities;
    priorities.priority.assign(info.priority().begin(), info.priority().end());
    priorities.replay_unique_id.assign(info.replay_unique_id().begin(),
                                       info.replay_unique_id().end());
    priorities.replay_buffer_idx.assign(info.replay_buffer_idx().begin(),
                                        info.replay_buffer_idx().end());
    DING_RETURN_IF_ERROR(buffer->rows()->Update(priorities));
  }
  MutexLock lock(&mutex_);
  RunningTask* const task = FindTask(worker, info.task_id());
  if (task == nullptr) return absl::OkStatus();
  Worker* const sender = FindWorker(worker);
  sender->stalled = info.stalled();
  if (task->first_step < 0) {
    task->first_step = info.learner_step();
  } else if (info.learner_step() > task->steps) {
    failures_[Hello::LEARNER] = 0;  // it trains
  }
  task->steps = info.learner_step();
  train_iter_ = info.learner_step();
  state_changed_ = commander_changed_ = true;
  commander_->UpdateLearnerInfo(task->learner, info);
  CheckBudget();
  if (!ended_ && commander_->JudgeLearnerFinish(info)) FinishLearnerTask(worker, sender);
  Schedule();
  return absl::OkStatus();
}

absl::Status CoordinatorImpl::HandlePolicyVersion(uint32_t worker, const PolicyVersion& version) {
  MutexLock lock(&mutex_);
  // What is deleted later is a key of a policy, whatever a learner sends.
  const std::string key = PolicyKey(version.policy_id(), version.version(), worker);
  const Worker* const sender = FindWorker(worker);
  if (sender == nullptr || !sender->task.has_value() ||
      sender->task->learner.policy_id() != version.policy_id()) {
    ++counters_.late_messages;
    if (ended_) forgotten_keys_.push_back(key);  // It was on its way.
    return absl::OkStatus();
  }
  PolicyHistory& history = policies_[version.policy_id()];
  if (version.version() <= history.newest) {
    return absl::InvalidArgumentError(absl::StrCat("version ", version.version(), " of ",
                                                   version.policy_id(), " after version ",
                                                   history.newest, ", expected a newer one"));
  }
  if (version.key() != key) {
    return absl::InvalidArgumentError(
        absl::StrCat("a policy with key '", version.key(), "', expected '", key, "'"));
  }
  history.newest = version.version();
  history.stored.push_back(version);
  policy_version_ = version.version();
  commander_->PolicyPublished(version);
  DropPolicies(/*keep_newest=*/2, &history);
  state_changed_ = true;
  for (auto& [id, other] : workers_) {
    if (other.task.has_value() && other.task->state.kind == Hello::COLLECTOR &&
        other.task->collector.policy_id() == version.policy_id()) {
      SendPolicy(id, version, &other);
    }
  }
  Persist().IgnoreError();  // The next call tries again.
  return absl::OkStatus();
}

// An aggregator has as much as its learners, who come and go.
void CoordinatorImpl::HandleResources(uint32_t worker, const Resources& resources) {
  MutexLock lock(&mutex_);
  Worker* const sender = FindWorker(worker);
  if (sender == nullptr) return;
  *sender->hello.mutable_resources() = resources;
  if (!sender->task.has_value() && !ended_) {
    resources_.Update(sender->hello.role(), worker, resources);
  }
  Schedule();
}

absl::Status CoordinatorImpl::HandleGroupStatus(uint32_t worker, const GroupStatus& group) {
  DING_RETURN_IF_ERROR(CheckGroupStatus(group));
  MutexLock lock(&mutex_);
  Worker* const sender = FindWorker(worker);
  if (sender == nullptr) return absl::OkStatus();
  sender->group = group;
  sender->group_nanos = deps_.clock->MonotonicNanos();
  return absl::OkStatus();
}

// Who is silent, stopped perhaps, gets no further versions until it says something, and then the
// newest: else its messages would pile up, and it would be taken for stuck.
void CoordinatorImpl::SendPolicy(uint32_t id, const PolicyVersion& version, Worker* worker) {
  worker->withheld_policy = version;
  if (worker->policies_since_heard >= kMaxPoliciesUnheard) return;
  ++worker->policies_since_heard;
  CoordinatorMessage message;
  *message.mutable_policy_version() = version;
  sender_->Send(id, message);
  worker->withheld_policy.reset();
}

void CoordinatorImpl::NoteHeard(uint32_t id, Worker* worker) {
  worker->policies_since_heard = 0;
  if (!worker->withheld_policy.has_value()) return;
  const PolicyVersion version = *std::move(worker->withheld_policy);
  SendPolicy(id, version, worker);
}

// Takes what the commander gives, and gives it to who is free.
void CoordinatorImpl::Schedule() {
  if (!started_ || ended_) return;
  CheckBudget();
  if (ended_) return;
  DropFinishedPolicies();
  GiveBackExpired();
  const int64_t now = deps_.clock->MonotonicNanos();
  while (std::optional<LearnerTask> task = commander_->GetLearnerTask()) {
    NoteGiven(*task);
    waiting_learner_tasks_.push_back({*std::move(task), now});
  }
  while (std::optional<CollectorTask> task = commander_->GetCollectorTask()) {
    NoteGiven(*task);
    waiting_collector_tasks_.push_back({*std::move(task), now});
  }
  AssignLearnerTasks();
  AssignCollectorTasks();
  Persist().IgnoreError();  // The next call tries again.
  timer_.Signal();
}

void CoordinatorImpl::GiveBackExpired() {
  while (!waiting_learner_tasks_.empty() &&
         Elapsed(waiting_learner_tasks_.front().since_nanos) >= options_.learner_task_timeout) {
    const LearnerTask task = std::move(waiting_learner_tasks_.front().task);
    waiting_learner_tasks_.pop_front();
    LOG(WARNING) << "no learner took " << task.task_id() << " within "
                 << options_.learner_task_timeout;
    NoteOver(task.task_id());
    commander_->NotifyFailLearnerTask(task);
  }
  while (!waiting_collector_tasks_.empty() &&
         Elapsed(waiting_collector_tasks_.front().since_nanos) >= options_.collector_task_timeout) {
    const CollectorTask task = std::move(waiting_collector_tasks_.front().task);
    waiting_collector_tasks_.pop_front();
    LOG(WARNING) << "no collector took " << task.task_id() << " within "
                 << options_.collector_task_timeout;
    NoteOver(task.task_id());
    commander_->NotifyFailCollectorTask(task);
  }
}

void CoordinatorImpl::AssignLearnerTasks() {
  std::deque<WaitingTask<LearnerTask>> waiting;
  waiting.swap(waiting_learner_tasks_);
  for (WaitingTask<LearnerTask>& task : waiting) {
    if (ended_ || !StartLearnerTask(task.task)) waiting_learner_tasks_.push_back(std::move(task));
  }
}

void CoordinatorImpl::AssignCollectorTasks() {
  std::deque<WaitingTask<CollectorTask>> waiting;
  waiting.swap(waiting_collector_tasks_);
  for (WaitingTask<CollectorTask>& task : waiting) {
    if (ended_ || !StartCollectorTask(task.task)) {
      waiting_collector_tasks_.push_back(std::move(task));
    }
  }
}

// False: it has to wait.
bool CoordinatorImpl::StartLearnerTask(const LearnerTask& waiting) {
  const auto known = buffers_.find(waiting.buffer_id());
  if (known != buffers_.end() && known->second->learner().has_value()) return false;
  const std::optional<AssignedWorker> assigned =
      resources_.Assign(Hello::LEARNER, waiting.resources());
  if (!assigned.has_value()) return false;
  absl::StatusOr<std::shared_ptr<TaskBuffer>> buffer = BufferOf(waiting.buffer_id());
  if (!buffer.ok()) {
    End(Annotate(buffer.status(), absl::StrCat("making ", waiting.buffer_id())), "a buffer failed");
    return false;
  }
  PolicyHistory& history = policies_[waiting.policy_id()];
  history.finished = false;
  RunningTask task;
  task.state = {waiting.task_id(), Hello::LEARNER, assigned->worker, deps_.clock->MonotonicNanos()};
  task.learner = waiting;
  task.learner.set_first_version(history.newest + 1);
  task.buffer = *std::move(buffer);
  task.buffer->set_learner(assigned->worker);
  state_changed_ = true;
  CoordinatorMessage message;
  *message.mutable_start_task()->mutable_learner() = task.learner;
  FindWorker(assigned->worker)->task = std::move(task);
  sender_->Send(assigned->worker, message);
  return true;
}

bool CoordinatorImpl::StartCollectorTask(const CollectorTask& waiting) {
  const auto buffer = buffers_.find(waiting.buffer_id());
  if (buffer == buffers_.end() || !buffer->second->started()) return false;
  const std::optional<AssignedWorker> assigned =
      resources_.Assign(Hello::COLLECTOR, waiting.resources());
  if (!assigned.has_value()) return false;
  RunningTask task;
  task.state = {waiting.task_id(), Hello::COLLECTOR, assigned->worker,
                deps_.clock->MonotonicNanos()};
  task.collector = waiting;
  task.buffer = buffer->second;
  const auto history = policies_.find(waiting.policy_id());
  if (history != policies_.end() && !history->second.stored.empty()) {
    *task.collector.mutable_policy() = history->second.stored.back();
    for (TaskPlayer& player : *task.collector.mutable_player()) {
      if (player.update_policy()) *player.mutable_policy() = history->second.stored.back();
    }
  }
  CoordinatorMessage message;
  *message.mutable_start_task()->mutable_collector() = task.collector;
  FindWorker(assigned->worker)->task = std::move(task);
  if (!waiting.eval_flag() && !collecting_nanos_.has_value()) {
    collecting_nanos_ = deps_.clock->MonotonicNanos();
    state_changed_ = true;
  }
  sender_->Send(assigned->worker, message);
  return true;
}

absl::StatusOr<std::shared_ptr<TaskBuffer>> CoordinatorImpl::BufferOf(
    const std::string& buffer_id) {
  const auto it = buffers_.find(buffer_id);
  if (it != buffers_.end()) return it->second;
  auto buffer = std::make_shared<TaskBuffer>(buffer_id);
  // The buffer belongs to what is captured, and calls it only while it is called itself.
  const auto on_removed = [this, buffer = buffer.get()](const RemovedItems& removed) {
    MutexLock lock(&mutex_);
    buffer->Removed(removed);
    ForgetRemoved(buffer);
  };
  DING_ASSIGN_OR_RETURN(std::unique_ptr<IBuffer> rows, make_buffer_(buffer_id, on_removed));
  buffer->set_rows(std::move(rows));
  buffers_[buffer_id] = buffer;
  return buffer;
}

// The task is over, and its worker free.
RunningTask CoordinatorImpl::EndTask(uint32_t id, Worker* worker) {
  RunningTask task = *std::move(worker->task);
  worker->task.reset();
  worker->withheld_policy.reset();
  worker->stalled.clear();
  worker->waits_for.clear();
  if (task.state.kind == Hello::LEARNER) {
    task.buffer->ForgetLearner();
    ForgetRemoved(task.buffer.get());
  } else if (!task.collector.eval_flag()) {
    finished_steps_ += task.steps;
  }
  state_changed_ = true;
  if (worker->draining) {
    LetGo(id);
  } else {
    resources_.Update(worker->hello.role(), id, worker->hello.resources());
  }
  changed_.SignalAll();
  return task;
}

void CoordinatorImpl::FailTask(uint32_t id, Worker* worker) {
  const RunningTask task = EndTask(id, worker);
  NoteOver(task.state.task_id);
  if (task.state.kind == Hello::LEARNER) {
    commander_->NotifyFailLearnerTask(task.learner);
  } else {
    commander_->NotifyFailCollectorTask(task.collector);
  }
}

void CoordinatorImpl::CloseTask(uint32_t id, Worker* worker) {
  CoordinatorMessage message;
  message.mutable_close_task()->set_task_id(worker->task->state.task_id);
  sender_->Send(id, message);
}

// Its buffer goes, and with it what is collected for it. Evaluations go on.
void CoordinatorImpl::FinishLearnerTask(uint32_t id, Worker* worker) {
  CloseTask(id, worker);
  const RunningTask finished = EndTask(id, worker);
  NoteOver(finished.state.task_id);
  commander_->FinishLearnerTask(finished.learner);
  policies_[finished.learner.policy_id()].finished = true;
  finished.buffer->set_closed();
  buffers_.erase(finished.buffer->id());
  forgotten_buffers_.push_back(finished.buffer);
  for (auto& [other_id, other] : workers_) {
    if (!other.task.has_value() || other.task->buffer != finished.buffer) continue;
    if (other.task->collector.eval_flag()) continue;
    CloseTask(other_id, &other);
    FailTask(other_id, &other);
  }
  std::deque<WaitingTask<CollectorTask>> waiting;
  waiting.swap(waiting_collector_tasks_);
  for (WaitingTask<CollectorTask>& task : waiting) {
    if (task.task.buffer_id() == finished.buffer->id()) {
      NoteOver(task.task.task_id());
      commander_->NotifyFailCollectorTask(task.task);
    } else {
      waiting_collector_tasks_.push_back(std::move(task));
    }
  }
}

// Deletes the last versions of policies that nobody learns or plays any more.
void CoordinatorImpl::DropFinishedPolicies() {
  for (auto& [policy_id, history] : policies_) {
    if (!history.finished || history.stored.empty()) continue;
    const std::string& wanted = policy_id;
    const bool used = std::any_of(workers_.begin(), workers_.end(), [&wanted](const auto& entry) {
      return entry.second.task.has_value() && entry.second.task->collector.policy_id() == wanted;
    });
    if (used) continue;
    DropPolicies(/*keep_newest=*/0, &history);
  }
}

// Deletes all versions but the newest ones and those that are kept.
void CoordinatorImpl::DropPolicies(size_t keep_newest, PolicyHistory* history) {
  const size_t droppable = history->stored.size() - std::min(keep_newest, history->stored.size());
  std::deque<PolicyVersion> left;
  for (size_t i = 0; i < history->stored.size(); ++i) {
    PolicyVersion& version = history->stored[i];
    if (i < droppable && !IsKept(version)) {
      forgotten_keys_.push_back(version.key());
    } else {
      left.push_back(std::move(version));
    }
  }
  history->stored = std::move(left);
}

// The commander wants it, or a task plays by it.
bool CoordinatorImpl::IsKept(const PolicyVersion& version) const {
  if (ended_) return false;
  const auto plays = [&version](const CollectorTask& task) {
    return std::any_of(task.player().begin(), task.player().end(), [&](const TaskPlayer& player) {
      return !player.update_policy() && player.policy().key() == version.key();
    });
  };
  return commander_->KeepsPolicy(version) ||
         std::any_of(workers_.begin(), workers_.end(),
                     [&](const auto& entry) {
                       return entry.second.task.has_value() && plays(entry.second.task->collector);
                     }) ||
         std::any_of(waiting_collector_tasks_.begin(), waiting_collector_tasks_.end(),
                     [&](const auto& waiting) { return plays(waiting.task); });
}

void CoordinatorImpl::CheckBudget() {
  if (ended_) return;
  const int64_t envsteps = EnvSteps();
  if (options_.max_env_step > 0 && envsteps >= options_.max_env_step) {
    End(absl::OkStatus(), absl::StrCat(envsteps, " env steps of ", options_.max_env_step));
  } else if (options_.max_train_iter > 0 && train_iter_ >= options_.max_train_iter) {
    End(absl::OkStatus(),
        absl::StrCat(train_iter_, " train iterations of ", options_.max_train_iter));
  } else if (started_ && options_.max_time > absl::ZeroDuration() &&
             Elapsed(start_nanos_) >= options_.max_time) {
    End(absl::OkStatus(),
        absl::StrCat("the time of ", absl::FormatDuration(options_.max_time), " is over"));
  }
}

void CoordinatorImpl::End(const absl::Status& status, const std::string& reason) {
  if (ended_) return;
  ended_ = true;
  end_nanos_ = deps_.clock->MonotonicNanos();
  // A task's kDeadlineExceeded must not read as "the run goes on".
  final_status_ = absl::IsDeadlineExceeded(status) ? absl::InternalError(status.message()) : status;
  end_reason_ = reason;
  LOG(INFO) << "the run ends: " << reason << (status.ok() ? "" : ": ") << status.message();
  CoordinatorMessage message;
  message.mutable_end_run()->set_converged(converged_);
  message.mutable_end_run()->set_reason(reason);
  for (auto& [id, worker] : workers_) {
    sender_->Send(id, message);
    if (worker.task.has_value()) FailTask(id, &worker);
  }
  state_changed_ = true;
  Persist().IgnoreError();  // CloseJournal() tries again.
  changed_.SignalAll();
  timer_.SignalAll();
}

absl::Status CoordinatorImpl::WaitUntilDone(absl::Duration timeout) {
  const Timer waited(Clock::Real());
  MutexLock lock(&mutex_);
  while (!ended_) {
    const absl::Duration left = timeout - waited.Elapsed();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("the run goes on after ", absl::FormatDuration(timeout)));
    }
    changed_.WaitFor(&mutex_, left);
  }
  return final_status_;
}

void CoordinatorImpl::RequestEnd(const std::string& reason) {
  MutexLock lock(&mutex_);
  End(absl::OkStatus(), reason);
}

absl::Status CoordinatorImpl::CloseJournal() {
  {
    MutexLock lock(&mutex_);
    DING_CHECK(ended_) << "the run goes on";
  }
  // It compacts, too.
  if (timer_thread_.joinable()) timer_thread_.join();
  const absl::Status compacted = Compact();
  MutexLock lock(&mutex_);
  const absl::Status written = Persist();
  const absl::Status closed = written.ok() ? compacted : written;
  if (!absl::IsUnavailable(closed)) journal_ = nullptr;
  return closed;
}

void CoordinatorImpl::KeepData() {
  MutexLock lock(&mutex_);
  keeps_data_ = true;
}

absl::Status CoordinatorImpl::Close(const std::string& reason) {
  {
    MutexLock lock(&mutex_);
    End(absl::OkStatus(), reason);
    journal_ = nullptr;
    const bool keeps_data = keeps_data_ || !replaced_.ok();
    for (const auto& [id, buffer] : buffers_) {
      buffer->set_closed();
      if (!keeps_data) forgotten_buffers_.push_back(buffer);
    }
    buffers_.clear();
    for (auto& [policy_id, history] : policies_) history.finished = true;
    if (!keeps_data) DropFinishedPolicies();
  }
  if (timer_thread_.joinable()) timer_thread_.join();
  DeleteForgotten();
  return remover_.Close();
}

void CoordinatorImpl::ForgetChunks(const std::vector<int64_t>& chunks) {
  for (const int64_t chunk : chunks) forgotten_keys_.push_back(ChunkKey(chunk));
}

void CoordinatorImpl::ForgetRemoved(TaskBuffer* buffer) {
  const std::vector<int64_t> chunks = buffer->TakeDeletable();
  if (journal_ != nullptr) {
    removed_.mutable_removed()->mutable_chunk()->Add(chunks.begin(), chunks.end());
  }
  ForgetChunks(chunks);
}

// What a collector stored and could not announce before it went.
void CoordinatorImpl::ForgetUnannounced(uint32_t id, const Worker& worker) {
  const int64_t next = std::max(worker.newest_chunk + 1, ChunkNumber(id, 0));
  for (int64_t chunk = next; chunk < next + kMaxUnannouncedChunks; ++chunk) {
    forgotten_keys_.push_back(ChunkKey(chunk));
  }
}

void CoordinatorImpl::DeleteForgotten() {
  while (true) {
    std::vector<std::shared_ptr<TaskBuffer>> buffers;
    std::vector<std::string> keys;
    {
      MutexLock lock(&mutex_);
      buffers.swap(forgotten_buffers_);
      keys.swap(forgotten_keys_);
      // That they are gone is known before they are. If it cannot be written, they count as lost
      // when the coordinator is started again.
      if (journal_ != nullptr && removed_.has_removed()) {
        const absl::Status written = journal_->Append({removed_});
        if (written.ok()) removed_.Clear();
        NoteReplaced(written);
      }
      // The other coordinator's rows may need them.
      if (!replaced_.ok()) keys.clear();
    }
    if (buffers.empty() && keys.empty()) return;
    for (std::string& key : keys) remover_.Add(std::move(key));
    for (const std::shared_ptr<TaskBuffer>& buffer : buffers) buffer->rows()->Clear();
  }
}

int64_t CoordinatorImpl::EnvSteps() const {
  int64_t steps = finished_steps_;
  for (const auto& [id, worker] : workers_) {
    if (worker.task.has_value() && worker.task->state.kind == Hello::COLLECTOR &&
        !worker.task->collector.eval_flag()) {
      steps += worker.task->steps;
    }
  }
  return steps;
}

void CoordinatorImpl::FillWorker(uint32_t id, const Worker& worker, WorkerStatus* status) const {
  status->set_worker(id);
  status->set_name(worker.hello.name());
  status->set_role(worker.hello.role());
  status->set_peer(worker.peer);
  status->set_pid(worker.hello.pid());
  status->set_alive_seconds(absl::ToDoubleSeconds(Elapsed(worker.joined_nanos)));
  status->set_waits_for(worker.waits_for.empty() ? worker.stalled : worker.waits_for);
  if (worker.draining) status->set_draining(true);
  for (const WorkerStatus& told : worker.group.member()) {
    WorkerStatus* const member = status->add_member();
    *member = told;
    member->set_alive_seconds(told.alive_seconds() +
                              absl::ToDoubleSeconds(Elapsed(worker.group_nanos)));
  }
  if (!worker.task.has_value()) return;
  const RunningTask& task = *worker.task;
  status->set_task_id(task.state.task_id);
  status->set_evaluates(task.collector.eval_flag());
  const double seconds = absl::ToDoubleSeconds(Elapsed(task.state.start_nanos));
  const auto steps = static_cast<double>(task.steps - std::max<int64_t>(task.first_step, 0));
  if (seconds <= 0) return;
  status->set_steps_per_second(steps / seconds);
  // Those of a generation take the same steps.
  for (WorkerStatus& member : *status->mutable_member()) {
    if (member.waits_for().empty()) member.set_steps_per_second(steps / seconds);
  }
}

RunStatus CoordinatorImpl::status() const {
  RunStatus status;
  std::vector<std::shared_ptr<TaskBuffer>> buffers;
  {
    MutexLock lock(&mutex_);
    status.set_run(options_.run);
    if (started_) status.set_elapsed_seconds(absl::ToDoubleSeconds(Elapsed(start_nanos_)));
    if (collecting_nanos_.has_value()) {
      const int64_t until = ended_ ? end_nanos_ : deps_.clock->MonotonicNanos();
      status.set_collecting_seconds(
          absl::ToDoubleSeconds(absl::Nanoseconds(until - *collecting_nanos_)));
    }
    status.set_envstep(EnvSteps());
    status.set_train_iter(train_iter_);
    const std::optional<double> eval_value = commander_->last_eval_value();
    if (eval_value.has_value()) {
      status.set_eval_value(*eval_value);
      status.set_best_eval_value(best_eval_value_);
      for (const double episode_return : commander_->last_eval_returns()) {
        status.add_eval_return(episode_return);
      }
    }
    status.set_converged(converged_);
    status.set_policy_version(policy_version_);
    status.set_workers_lost(workers_lost_);
    status.set_workers_joined(workers_joined_);
    commander_->AddStatus(&status);
    status.set_incarnation(incarnation_);
    status.set_wanted_collectors(ended_ ? 0 : wanted_collectors_);
    status.set_coordinator_pid(getpid());
    for (const auto& [id, worker] : workers_) FillWorker(id, worker, status.add_worker());
    for (const auto& [id, buffer] : buffers_) {
      buffer->FillStatus(status.add_buffer());
      buffers.push_back(buffer);
    }
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    buffers[i]->FillRows(status.mutable_buffer(static_cast<int>(i)));
  }
  return status;
}

Coordinator::Counters CoordinatorImpl::counters() const {
  MutexLock lock(&mutex_);
  return counters_;
}

int32_t CoordinatorImpl::incarnation() const {
  MutexLock lock(&mutex_);
  return incarnation_;
}

// Leaves of a status what is called so, also a learner of an aggregator; empty: all of it.
void KeepNamed(const std::string& name, RunStatus* status) {
  if (name.empty()) return;
  google::protobuf::RepeatedPtrField<WorkerStatus> named;
  for (const WorkerStatus& worker : status->worker()) {
    if (worker.name() == name) *named.Add() = worker;
    for (const WorkerStatus& member : worker.member()) {
      if (member.name() == name) *named.Add() = member;
    }
  }
  status->mutable_worker()->Swap(&named);
  auto* const buffers = status->mutable_buffer();
  buffers->erase(std::remove_if(buffers->begin(), buffers->end(),
                                [&name](const auto& buffer) { return buffer.buffer_id() != name; }),
                 buffers->end());
}

OperatorReply CoordinatorImpl::Operate(const OperatorRequest& request) {
  absl::StatusOr<std::string> done;
  {
    MutexLock lock(&mutex_);
    done = OperateLocked(request);
    state_changed_ = state_changed_ || !request.has_inspect();
    Schedule();
  }
  OperatorReply reply;
  reply.set_code(static_cast<int>(done.status().code()));
  reply.set_message(done.ok() ? *done : std::string(done.status().message()));
  *reply.mutable_status() = status();
  if (done.ok()) KeepNamed(request.inspect(), reply.mutable_status());
  LOG_IF(INFO, !request.has_inspect())
      << "an operator asks: " << request.ShortDebugString() << ": " << reply.message();
  return reply;
}

absl::StatusOr<std::string> CoordinatorImpl::OperateLocked(const OperatorRequest& request) {
  if (request.has_inspect()) {
    DING_RETURN_IF_ERROR(CheckKnown(request.inspect()));
    return "";
  }
  if (ended_) return absl::FailedPreconditionError(absl::StrCat("the run is over: ", end_reason_));
  switch (request.request_case()) {
    case OperatorRequest::kGrow:
    case OperatorRequest::kShrink: {
      const bool grow = request.has_grow();
      const int64_t by = grow ? request.grow() : request.shrink();
      if (by < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(grow ? "grow" : "shrink", " by ", by, " collectors, expected at least 1"));
      }
      return Want(wanted_collectors_ + (grow ? by : -by));
    }
    case OperatorRequest::kDrain:
      return DrainNamed(request.drain());
    case OperatorRequest::kStop:
      stop_wanted_ = true;
      End(absl::OkStatus(), kStopped);
      return "the run ends";
    default:
      return absl::InvalidArgumentError(
          "a request that is not known, expected inspect, grow, shrink, drain or stop");
  }
}

absl::Status CoordinatorImpl::CheckKnown(const std::string& name) const {
  if (name.empty() || buffers_.count(name) > 0) return absl::OkStatus();
  std::vector<std::string> known;
  for (const auto& [id, worker] : workers_) {
    known.push_back(worker.hello.name());
    for (const WorkerStatus& member : worker.group.member()) known.push_back(member.name());
  }
  if (std::find(known.begin(), known.end(), name) != known.end()) return absl::OkStatus();
  for (const auto& [id, buffer] : buffers_) known.push_back(id);
  return absl::NotFoundError(absl::StrCat("there is neither a worker nor a buffer '", name,
                                          "', expected one of: ", absl::StrJoin(known, ", ")));
}

absl::StatusOr<std::string> CoordinatorImpl::Want(int64_t collectors) {
  if (collectors < 0 || collectors > options_.max_collectors) {
    return absl::InvalidArgumentError(absl::StrCat(
        "that would be ", collectors, " collectors instead of ", wanted_collectors_,
        ", expected 0 to ", options_.max_collectors, " (system.coordinator.max_collectors)"));
  }
  wanted_collectors_ = static_cast<int>(collectors);
  std::vector<uint32_t> there;  // the idle ones last, and of others the newest: they go first
  std::vector<uint32_t> idle;
  for (const auto& [id, worker] : workers_) {
    if (worker.hello.role() != Hello::COLLECTOR || worker.draining) continue;
    (worker.task.has_value() ? there : idle).push_back(id);
  }
  there.insert(there.end(), idle.begin(), idle.end());
  for (; static_cast<int64_t>(there.size()) > collectors; there.pop_back()) {
    Drain(there.back(), FindWorker(there.back()));
  }
  return absl::StrCat(collectors, " collectors are wanted");
}

absl::StatusOr<std::string> CoordinatorImpl::DrainNamed(const std::string& name) {
  for (auto& [id, worker] : workers_) {
    if (worker.hello.name() != name) continue;
    if (worker.hello.role() != Hello::COLLECTOR) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is a learner, expected a collector: the run needs its learner"));
    }
    if (worker.draining) {
      return absl::FailedPreconditionError(absl::StrCat(name, " is being drained already"));
    }
    wanted_collectors_ = std::max(0, wanted_collectors_ - 1);
    Drain(id, &worker);
    return absl::StrCat(name, " is drained; ", wanted_collectors_, " collectors are wanted");
  }
  DING_RETURN_IF_ERROR(CheckKnown(name));
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is a ", buffers_.count(name) > 0 ? "buffer" : "learner", ", expected a collector"));
}

void CoordinatorImpl::Drain(uint32_t id, Worker* worker) {
  worker->draining = true;
  resources_.Delete(worker->hello.role(), id);
  if (!worker->task.has_value()) LetGo(id);
}

void CoordinatorImpl::LetGo(uint32_t id) {
  CoordinatorMessage message;
  message.mutable_end_run()->set_reason("the worker is not needed any more");
  sender_->Send(id, message);
}

absl::StatusOr<uint32_t> CoordinatorImpl::Admit(const Hello& hello) {
  MutexLock lock(&mutex_);
  // Of another incarnation: both may have been sent away by its end.
  if (hello.previous_incarnation() == incarnation_) {
    for (const auto& [id, worker] : workers_) {
      DING_RETURN_IF_ERROR(CheckNotReplaced(hello, worker.hello));
    }
  }
  ++last_worker_;
  // Who makes nothing has no number that must not be given again.
  if (hello.role() == Hello::OPERATOR) return last_worker_;
  state_changed_ = true;
  DING_RETURN_IF_ERROR(Persist());
  return last_worker_;
}

absl::Status CoordinatorImpl::Recover() {
  Journal* journal = nullptr;
  {
    MutexLock lock(&mutex_);
    journal = journal_;
  }
  if (journal == nullptr) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::optional<RecoveredRun> run, ReadJournal(*journal));
  if (!run.has_value()) {
    MutexLock lock(&mutex_);
    return Persist();
  }
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(LoadCommander(run->commander, commander_.get()));
    RecoverState(*run);
    for (const BufferRecord& known : run->state.buffer()) {
      DING_ASSIGN_OR_RETURN(const std::shared_ptr<TaskBuffer> buffer, BufferOf(known.buffer_id()));
      if (known.started()) buffer->set_started();
    }
    for (const LearnerTask& task : run->learner_tasks) commander_->NotifyFailLearnerTask(task);
    for (const CollectorTask& task : run->collector_tasks) {
      commander_->NotifyFailCollectorTask(task);
    }
  }
  DING_RETURN_IF_ERROR(RecoverRows(*run));
  RecoverPolicies(*run);
  return Compact();
}

void CoordinatorImpl::RecoverState(const RecoveredRun& run) {
  const StateRecord& state = run.state;
  incarnation_ = state.incarnation() + 1;
  last_worker_ = state.last_worker();
  finished_steps_ = state.envstep();
  train_iter_ = state.train_iter();
  if (state.has_best_eval_value()) best_eval_value_ = state.best_eval_value();
  policy_version_ = state.policy_version();
  workers_joined_ = state.workers_joined();
  workers_lost_ = state.workers_lost();
  wanted_collectors_ = state.wanted_collectors();
  converged_ = state.converged();
  stop_wanted_ = state.stop_wanted() && !options_.goes_on_after_stop;
  for (const DrainingRecord& collector : state.draining()) {
    were_draining_.emplace(collector.name(), collector.pid());
  }
  const int64_t now = deps_.clock->MonotonicNanos();
  elapsed_before_nanos_ = absl::ToInt64Nanoseconds(absl::Seconds(state.elapsed_seconds()));
  if (state.has_collecting_seconds()) {
    collecting_nanos_ = now - absl::ToInt64Nanoseconds(absl::Seconds(state.collecting_seconds()));
  }
}

std::optional<std::unordered_set<std::string>> CoordinatorImpl::ListKeys(
    const std::string& prefix) const {
  if (list_keys_ == nullptr) return std::nullopt;
  const absl::StatusOr<std::vector<std::string>> keys = list_keys_(prefix);
  if (keys.ok()) return std::unordered_set<std::string>(keys->begin(), keys->end());
  LOG(WARNING) << "the store does not say what is in it: " << keys.status().message()
               << "; it is taken to be complete";
  return std::nullopt;
}

// Repeats the pushes: the buffers evict by their rules what they had evicted before.
absl::Status CoordinatorImpl::RecoverRows(const RecoveredRun& run) {
  const std::optional<std::unordered_set<std::string>> present = ListKeys(kDataPrefix);
  std::unordered_set<std::string> kept;
  std::map<std::string, int64_t> lost;  // rows, by buffer
  JournalRecord lost_chunks;
  const auto push = [&](const JournalRecord& record) -> absl::Status {
    const BufferRecord* const known = run.FindBuffer(record.push().buffer_id());
    if (!record.has_push() || known == nullptr) return absl::OkStatus();
    DING_ASSIGN_OR_RETURN(const Batch items, DecodeBatch(record.push().items()));
    DING_ASSIGN_OR_RETURN(const Batch wanted, KeepChunks(items, [&run](int64_t chunk) {
                            return run.removed_chunks.count(chunk) == 0;
                          }));
    DING_ASSIGN_OR_RETURN(Batch there, KeepChunks(wanted, [&present](int64_t chunk) {
                            return !present.has_value() || present->count(ChunkKey(chunk)) > 0;
                          }));
    lost[known->buffer_id()] += wanted.rows() - there.rows();
    for (const int64_t chunk : record.push().chunk()) {
      const bool is_lost = present.has_value() && run.removed_chunks.count(chunk) == 0 &&
                           present->count(ChunkKey(chunk)) == 0;
      if (is_lost) lost_chunks.mutable_removed()->add_chunk(chunk);
    }
    if (there.empty()) return absl::OkStatus();
    DING_ASSIGN_OR_RETURN(const std::vector<int64_t> chunks,
                          ChunksOf(there, WorkerOfChunk(record.push().chunk(0))));
    DING_ASSIGN_OR_RETURN(const SegmentBatch rows, MakeItems(std::move(there)));
    std::shared_ptr<TaskBuffer> buffer;
    {
      MutexLock lock(&mutex_);
      DING_ASSIGN_OR_RETURN(buffer, BufferOf(known->buffer_id()));
      buffer->AddChunks(chunks.size());
    }
    for (const int64_t chunk : chunks) kept.insert(ChunkKey(chunk));
    return Annotate(buffer->rows()->Push(rows, record.push().envstep()),
                    absl::StrCat("pushing again into ", known->buffer_id()));
  };
  Journal* journal = nullptr;
  {
    MutexLock lock(&mutex_);
    journal = journal_;
  }
  DING_RETURN_IF_ERROR(journal->Read(push));
  // They are counted once.
  if (lost_chunks.has_removed()) DING_RETURN_IF_ERROR(journal->Append({lost_chunks}));
  MutexLock lock(&mutex_);
  for (const std::string& key : forgotten_keys_) kept.erase(key);
  for (const BufferRecord& known : run.state.buffer()) {
    TaskBuffer* const buffer = buffers_.at(known.buffer_id()).get();
    const int64_t lost_now = lost[known.buffer_id()];
    buffer->Recovered(known.rows_total(), known.rows_lost() + lost_now);
    counters_.rows_pushed += known.rows_total();
    counters_.rows_acknowledged += known.rows_total();
    LOG(INFO) << known.buffer_id() << " goes on with " << buffer->rows()->count() << " of "
              << known.rows_total() << " rows";
    LOG_IF(WARNING, lost_now > 0) << known.buffer_id() << ": the data of " << lost_now
                                  << " rows are gone from the store; these rows are dropped";
  }
  if (present.has_value()) {
    for (const std::string& key : *present) {
      if (kept.count(key) == 0) forgotten_keys_.push_back(key);
    }
  }
  recovered_keys_ = std::move(kept);
  return absl::OkStatus();
}

void CoordinatorImpl::RecoverPolicies(const RecoveredRun& run) {
  std::optional<std::unordered_set<std::string>> present = ListKeys(kPolicyPrefix);
  MutexLock lock(&mutex_);
  for (const PolicyRecord& known : run.state.policy()) {
    PolicyHistory& history = policies_[known.policy_id()];
    history.newest = known.newest();
    history.finished = known.finished();
    for (const PolicyVersion& version : known.stored()) {
      if (present.has_value() && present->erase(version.key()) == 0) continue;
      history.stored.push_back(version);
    }
    LOG_IF(WARNING, history.stored.empty() && known.stored_size() > 0)
        << known.policy_id() << " is gone from the store: collectors wait for the next version";
  }
  if (!present.has_value()) return;
  for (const std::string& key : *present) forgotten_keys_.push_back(key);
}

void CoordinatorImpl::ForgetPrevious(const Hello& hello) {
  const std::string number = absl::StrCat(absl::Hex(hello.previous_worker()));
  std::optional<std::unordered_set<std::string>> keys;
  {
    MutexLock lock(&mutex_);
    // Of a worker of this coordinator it was done when it was lost.
    if (hello.previous_incarnation() >= incarnation_) return;
  }
  const bool learns = hello.role() == Hello::LEARNER;
  keys = ListKeys(learns ? kPolicyPrefix : absl::StrCat(kDataPrefix, number, "/"));
  if (!keys.has_value()) return;
  {
    MutexLock lock(&mutex_);
    for (const auto& [policy_id, history] : policies_) {
      for (const PolicyVersion& version : history.stored) keys->erase(version.key());
    }
    const std::string its = absl::StrCat("-", number);
    for (const std::string& key : *keys) {
      const bool forget = learns ? absl::EndsWith(key, its) : recovered_keys_.count(key) == 0;
      if (forget) forgotten_keys_.push_back(key);
    }
  }
  DeleteForgotten();
}

JournalRecord CoordinatorImpl::StateNow() const {
  JournalRecord record;
  StateRecord* const state = record.mutable_state();
  state->set_run(options_.run);
  state->set_incarnation(incarnation_);
  state->set_last_worker(last_worker_);
  state->set_envstep(EnvSteps());
  state->set_train_iter(train_iter_);
  if (best_eval_value_ > -kInfinity) state->set_best_eval_value(best_eval_value_);
  state->set_policy_version(policy_version_);
  state->set_workers_joined(workers_joined_);
  state->set_workers_lost(workers_lost_);
  const int64_t elapsed =
      started_ ? deps_.clock->MonotonicNanos() - start_nanos_ : elapsed_before_nanos_;
  state->set_elapsed_seconds(absl::ToDoubleSeconds(absl::Nanoseconds(elapsed)));
  if (collecting_nanos_.has_value()) {
    state->set_collecting_seconds(absl::ToDoubleSeconds(Elapsed(*collecting_nanos_)));
  }
  state->set_converged(converged_);
  state->set_wanted_collectors(wanted_collectors_);
  state->set_stop_wanted(stop_wanted_);
  const auto add_draining = [state](const std::string& name, int64_t pid) {
    state->add_draining()->set_name(name);
    state->mutable_draining()->rbegin()->set_pid(pid);
  };
  for (const auto& [name, pid] : were_draining_) add_draining(name, pid);
  for (const auto& [id, worker] : workers_) {
    if (worker.draining) add_draining(worker.hello.name(), worker.hello.pid());
  }
  for (const auto& [id, buffer] : buffers_) {
    BufferRecord* const of_buffer = state->add_buffer();
    of_buffer->set_buffer_id(id);
    of_buffer->set_started(buffer->started());
    of_buffer->set_rows_lost(buffer->rows_lost());
  }
  for (const auto& [id, history] : policies_) {
    PolicyRecord* const policy = state->add_policy();
    policy->set_policy_id(id);
    policy->set_newest(history.newest);
    policy->set_finished(history.finished);
    for (const PolicyVersion& version : history.stored) *policy->add_stored() = version;
  }
  return record;
}

absl::StatusOr<std::vector<JournalRecord>> CoordinatorImpl::AllNow() const {
  std::vector<JournalRecord> records = {StateNow()};
  // Pushes that carry the number may be left out of a compacted journal.
  for (BufferRecord& buffer : *records[0].mutable_state()->mutable_buffer()) {
    buffer.set_rows_total(buffers_.at(buffer.buffer_id())->rows_total());
  }
  DING_ASSIGN_OR_RETURN(*records.emplace_back().mutable_commander(), SaveCommander(*commander_));
  const auto add_collector = [&records](const CollectorTask& task) {
    *records.emplace_back().mutable_collector_task() = task;
  };
  const auto add_learner = [&records](const LearnerTask& task) {
    *records.emplace_back().mutable_learner_task() = task;
  };
  for (const auto& [id, worker] : workers_) {
    if (!worker.task.has_value()) continue;
    if (worker.task->state.kind == Hello::LEARNER) {
      add_learner(worker.task->learner);
    } else {
      add_collector(worker.task->collector);
    }
  }
  for (const auto& waiting : waiting_learner_tasks_) add_learner(waiting.task);
  for (const auto& waiting : waiting_collector_tasks_) add_collector(waiting.task);
  return records;
}

template <typename Task>
void CoordinatorImpl::NoteGiven(const Task& task) {
  commander_changed_ = true;
  if (journal_ == nullptr) return;
  JournalRecord& record = unwritten_.emplace_back();
  if constexpr (std::is_same_v<Task, LearnerTask>) {
    *record.mutable_learner_task() = task;
  } else {
    *record.mutable_collector_task() = task;
  }
}

void CoordinatorImpl::NoteOver(const std::string& task_id) {
  commander_changed_ = true;
  if (journal_ != nullptr) unwritten_.emplace_back().set_task_over(task_id);
}

absl::Status CoordinatorImpl::Persist() {
  if (journal_ == nullptr || (!state_changed_ && !commander_changed_ && unwritten_.empty())) {
    return absl::OkStatus();
  }
  const size_t tasks = unwritten_.size();
  unwritten_.push_back(StateNow());
  absl::Status status;
  if (commander_changed_) {
    absl::StatusOr<std::string> commander = SaveCommander(*commander_);
    status = commander.status();
    if (status.ok()) unwritten_.emplace_back().set_commander(*std::move(commander));
  }
  if (status.ok()) status = journal_->Append(unwritten_);
  if (!status.ok()) {
    NoteReplaced(status);
    unwritten_.resize(tasks);
    LOG_EVERY_N(WARNING, 1000) << "the coordinator's state is not written: " << status.message();
    return status;
  }
  unwritten_.clear();
  state_changed_ = commander_changed_ = false;
  return absl::OkStatus();
}

void CoordinatorImpl::NoteReplaced(const absl::Status& status) {
  if (!absl::IsAborted(status) || !replaced_.ok()) return;
  replaced_ = status;
  timer_.Signal();
}

absl::Status CoordinatorImpl::Compact() {
  Journal* journal = nullptr;
  std::unordered_set<std::string> alive;
  {
    MutexLock lock(&mutex_);
    journal = journal_;
    for (const auto& [id, buffer] : buffers_) alive.insert(id);
  }
  if (journal == nullptr) return absl::OkStatus();
  DING_RETURN_IF_ERROR(journal->BeginCompaction(
      [&alive](const std::string& buffer_id) { return alive.count(buffer_id) > 0; }));
  {
    MutexLock lock(&mutex_);
    DING_ASSIGN_OR_RETURN(const std::vector<JournalRecord> all, AllNow());
    DING_RETURN_IF_ERROR(journal->FinishCompaction(all));
    unwritten_.clear();
    state_changed_ = commander_changed_ = false;
  }
  journal->DropReplaced();
  return absl::OkStatus();
}

void CoordinatorImpl::CompactIfWorthIt() {
  {
    MutexLock lock(&mutex_);
    if (journal_ == nullptr || ended_ || !journal_->WantsCompaction()) return;
  }
  if (compaction_failed_nanos_.has_value() &&
      Elapsed(*compaction_failed_nanos_) < kCompactionRetry) {
    return;
  }
  const absl::Status status = Compact();
  if (status.ok()) return;
  compaction_failed_nanos_ = deps_.clock->MonotonicNanos();
  LOG(WARNING) << "the journal grows: " << status.message();
  MutexLock lock(&mutex_);
  NoteReplaced(status);
}

}  // namespace

std::vector<std::string> Coordinator::Problems(const Options& options) {
  std::vector<std::string> problems;
  if (options.collector_task_timeout <= absl::ZeroDuration()) {
    problems.push_back(absl::StrCat("collector_task_timeout is ",
                                    absl::FormatDuration(options.collector_task_timeout),
                                    ", expected more than 0"));
  }
  if (options.learner_task_timeout <= absl::ZeroDuration()) {
    problems.push_back(absl::StrCat("learner_task_timeout is ",
                                    absl::FormatDuration(options.learner_task_timeout),
                                    ", expected more than 0"));
  }
  if (options.collectors < 0) {
    problems.push_back(absl::StrCat("collectors is ", options.collectors, ", expected at least 0"));
  }
  if (options.wanted_collectors < 0) {
    problems.push_back(
        absl::StrCat("wanted_collectors is ", options.wanted_collectors, ", expected at least 0"));
  }
  if (options.max_collectors < 1) {
    problems.push_back(
        absl::StrCat("max_collectors is ", options.max_collectors, ", expected at least 1"));
  }
  if (options.max_task_failures < 1) {
    problems.push_back(
        absl::StrCat("max_task_failures is ", options.max_task_failures, ", expected at least 1"));
  }
  if (options.max_env_step < 0 || options.max_train_iter < 0 ||
      options.max_time < absl::ZeroDuration()) {
    problems.push_back("a budget is below 0, expected 0 for none");
  }
  return problems;
}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(const Options& options,
                                                                 Parts parts,
                                                                 const ComponentDeps& deps) {
  std::vector<std::string> problems = Problems(options);
  if (parts.commander == nullptr) problems.push_back("no commander");
  if (parts.make_buffer == nullptr) problems.push_back("nothing that makes buffers");
  if (parts.delete_key == nullptr) problems.push_back("nothing that deletes data");
  if (parts.sender == nullptr) problems.push_back("no sender");
  if (!problems.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("coordinator: ", absl::StrJoin(problems, "; ")));
  }
  auto coordinator = absl::make_unique<CoordinatorImpl>(options, std::move(parts), deps);
  DING_RETURN_IF_ERROR(Annotate(coordinator->Recover(), "going on with the run of the journal"));
  return coordinator;
}

}  // namespace ding
