#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/base_commander.h"
#include "ding_worker/coordinator/claim_checks.h"
#include "ding_worker/coordinator/coordinator_impl.h"
#include "ding_worker/coordinator/journal.h"
#include "ding_worker/coordinator/journal.pb.h"
#include "ding_worker/coordinator/task_buffer.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/priority_info.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/message_checks.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/protocol.h"
#include "glog/logging.h"

namespace ding {
namespace internal_coordinator {
namespace {

// How long a refused push waits before it tries again: the rate control fades with time.
constexpr absl::Duration kPushRetry = absl::Milliseconds(5);
// Versions of a policy that are sent to a worker who says nothing.
constexpr int kMaxPoliciesUnheard = 64;

}  // namespace

void CoordinatorImpl::HandleTaskStarted(uint32_t worker, const TaskStarted& started) {
  MutexLock lock(&mutex_);
  RunningTask* const task = FindTaskOf(worker, started.task_id());
  if (task == nullptr || task->state.kind != Hello::LEARNER) return;
  task->buffer->set_started();
  journal_.NoteState();
  Schedule();
}

void CoordinatorImpl::HandleTaskFailed(uint32_t worker, const TaskFailed& failed) {
  MutexLock lock(&mutex_);
  RunningTask* const task = FindTaskOf(worker, failed.task_id());
  if (task == nullptr) return;
  Worker* const sender = workers_.Find(worker);
  const Hello::Role kind = task->state.kind;
  // Only kCancelled says that it was not the task's fault.
  const auto code = static_cast<absl::StatusCode>(failed.code());
  const absl::Status why(code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : code,
                         ForPeople(failed.message()));
  LOG(WARNING) << failed.task_id() << " of " << sender->hello.name() << " failed: " << why;
  FailTask(worker, sender);
  if (code != absl::StatusCode::kCancelled) NoteFailure(worker, kind, failed.task_id(), why);
  Schedule();
}

// No step keeps the lock, because PushItems() may wait for a long time: each one looks anew whether
// the worker and its task are still there.
absl::Status CoordinatorImpl::HandleCollectorData(uint32_t worker, const CollectorData& data) {
  DING_ASSIGN_OR_RETURN(const AnnouncedItems items, DecodeItems(worker, data));
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<TaskBuffer> buffer, AdmitData(worker, data, items));
  if (buffer == nullptr) return absl::OkStatus();
  const absl::StatusOr<bool> pushed = PushItems(worker, data, items, buffer.get());
  if (!pushed.ok() || !*pushed) {
    DropData(worker, data, items, buffer.get());
    return pushed.status();
  }
  AcknowledgeData(worker, data, items, buffer);
  Serve(buffer);
  MutexLock lock(&mutex_);
  CheckBudget();
  if (journal_.WantsCompaction()) timer_.Signal();
  return absl::OkStatus();
}

// Checks what a message with data shows by itself.
absl::StatusOr<AnnouncedItems> CoordinatorImpl::DecodeItems(uint32_t worker,
                                                            const CollectorData& data) const {
  DING_RETURN_IF_ERROR(CheckProgress(data.progress()));
  AnnouncedItems announced;
  if (data.items().empty()) return announced;
  DING_ASSIGN_OR_RETURN(Batch rows, DecodeBatch(data.items()));
  DING_ASSIGN_OR_RETURN(announced.items, MakeItems(std::move(rows)));
  if (items_ != nullptr) DING_RETURN_IF_ERROR(CheckItemLayout(*items_, announced.items));
  DING_ASSIGN_OR_RETURN(announced.chunks, ChunksOf(announced.items.rows, worker));
  return announced;
}

// The buffer that the items go to; null: there is nothing to push.
absl::StatusOr<std::shared_ptr<TaskBuffer>> CoordinatorImpl::AdmitData(
    uint32_t worker, const CollectorData& data, const AnnouncedItems& announced) {
  const std::vector<int64_t>& chunks = announced.chunks;
  MutexLock lock(&mutex_);
  Worker* const sender = workers_.Find(worker);
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
  if (!chunks.empty() && chunks.front() <= sender->newest_chunk) {
    return absl::InvalidArgumentError(absl::StrCat("items of chunk ", chunks.front(),
                                                   " after those of chunk ", sender->newest_chunk,
                                                   ", expected all of a chunk in one message"));
  }
  RunningTask* const task = FindTaskOf(worker, data.task_id());
  if (task == nullptr) {
    if (!chunks.empty()) sender->newest_chunk = chunks.back();
    if (!progress_only) sender->data_sequence = data.sequence();
    ForgetChunks(chunks);
    return nullptr;
  }
  if (task->collector.eval_flag() && !chunks.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data of ", data.task_id(), ", an evaluation, which sends none"));
  }
  DING_RETURN_IF_ERROR(CheckPaceOf(*task, data.progress().cur_step()));
  DING_RETURN_IF_ERROR(CheckPaceOf(*task, task->rows + announced.rows()));
  DING_RETURN_IF_ERROR(CheckCollectIters(announced.items, NewestIter(task->collector.policy_id())));
  task->steps = std::max(task->steps, data.progress().cur_step());
  sender->stalled = ForPeople(data.progress().stalled());
  if (progress_only) {
    CheckBudget();
    return nullptr;
  }
  if (!chunks.empty()) sender->newest_chunk = chunks.back();
  task->buffer->AddChunks(chunks);
  return task->buffer;
}

// The message is handled: the next one may come. Null if the worker is gone.
Worker* CoordinatorImpl::FinishData(uint32_t worker, const CollectorData& data) {
  Worker* const sender = workers_.Find(worker);
  if (sender == nullptr) return nullptr;
  sender->data_sequence = data.sequence();
  sender->waits_for.clear();
  return sender;
}

void CoordinatorImpl::DropData(uint32_t worker, const CollectorData& data,
                               const AnnouncedItems& announced, TaskBuffer* buffer) {
  MutexLock lock(&mutex_);
  FinishData(worker, data);
  buffer->DropChunks(announced.chunks);
  ForgetChunks(announced.chunks);
}

void CoordinatorImpl::AcknowledgeData(uint32_t worker, const CollectorData& data,
                                      const AnnouncedItems& announced,
                                      const std::shared_ptr<TaskBuffer>& buffer) {
  MutexLock lock(&mutex_);
  const bool is_there = FinishData(worker, data) != nullptr;
  counters_.rows_pushed += announced.rows();
  RunningTask* const task = workers_.FindTask(worker, data.task_id());
  if (task != nullptr) task->rows += announced.rows();
  if (buffer->closed()) {
    // It was closed, and its rows were forgotten, while these were pushed.
    forgotten_buffers_.push_back(buffer);
  } else if (is_there) {
    counters_.rows_acknowledged += announced.rows();
    CoordinatorMessage message;
    message.mutable_collector_data_ack()->set_task_id(data.task_id());
    message.mutable_collector_data_ack()->set_sequence(data.sequence());
    sender_->Send(worker, message);
  }
}

// False: the task is over, and the items are not wanted any more.
absl::StatusOr<bool> CoordinatorImpl::PushItems(uint32_t worker, const CollectorData& data,
                                                const AnnouncedItems& announced,
                                                TaskBuffer* buffer) {
  const std::vector<int64_t>& chunks = announced.chunks;
  if (announced.items.rows.empty()) return true;
  const std::string& task_id = data.task_id();
  bool refused = false;
  while (true) {
    int64_t answers = 0;
    int64_t envstep = 0;
    Journal* journal = nullptr;
    {
      MutexLock lock(&mutex_);
      const RunningTask* const task = workers_.FindTask(worker, task_id);
      if (task == nullptr) return false;
      answers = buffer->answers();
      // With these rows, which count when they are in.
      RunningTask pushed = *task;
      pushed.rows += announced.rows();
      envstep = EnvSteps() - task->counted_steps() + pushed.counted_steps();
      journal = journal_.get();
    }
    absl::Status status;
    absl::Status journaled;
    JournalRecord push;
    {
      MutexLock order(buffer->pushing());
      status = buffer->rows()->Push(announced.items, envstep);
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
      journal_.NoteError(status);
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
  if (workers_.FindTask(worker, task_id) == nullptr) return false;
  workers_.Find(worker)->waits_for = why;
  bool in_time = true;
  while (in_time && workers_.FindTask(worker, task_id) != nullptr && buffer->answers() == answers) {
    in_time = changed_.WaitFor(&mutex_, kPushRetry);
  }
  return workers_.FindTask(worker, task_id) != nullptr;
}

absl::Status CoordinatorImpl::HandleCollectorFinished(uint32_t worker,
                                                      const CollectorFinished& info) {
  DING_RETURN_IF_ERROR(CheckCollectorFinished(info));
  MutexLock lock(&mutex_);
  RunningTask* const task = FindTaskOf(worker, info.task_id());
  if (task == nullptr) return absl::OkStatus();
  DING_RETURN_IF_ERROR(CheckPaceOf(*task, info.step_count()));
  const std::string& policy_id = task->collector.policy_id();
  DING_RETURN_IF_ERROR(CheckPlayedVersion(task->collector, info, policies_.Newest(policy_id),
                                          NewestIter(policy_id)));
  task->steps = std::max(task->steps, info.step_count());
  if (!commander_->JudgeCollectorFinish(info)) {
    FailTask(worker, workers_.Find(worker));
    Schedule();
    return absl::OkStatus();
  }
  scheduler_.NoteSuccess(Hello::COLLECTOR, worker);
  const RunningTask finished = EndTask(worker, workers_.Find(worker));
  // What the commander is told is what counts.
  CollectorFinished result = info;
  result.set_eval_flag(finished.collector.eval_flag());
  if (!result.eval_flag()) {
    result.set_step_count(finished.counted_steps());
    result.set_sample_count(finished.rows);
    CountResult(finished.collector, result);
  } else {
    CountEvaluation(worker, finished.collector, result);
  }
  Schedule();
  return absl::OkStatus();
}

absl::Status CoordinatorImpl::HandleLearnerDemand(uint32_t worker, const LearnerDemand& demand) {
  DING_RETURN_IF_ERROR(CheckDemand(demand));
  std::shared_ptr<TaskBuffer> buffer;
  {
    MutexLock lock(&mutex_);
    Worker* const sender = workers_.Find(worker);
    if (sender == nullptr) return absl::NotFoundError("there is no such worker");
    if (demand.sequence() < 1 || demand.sequence() > sender->demand_sequence + 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "demand ", demand.sequence(), ", expected demand ", sender->demand_sequence + 1));
    }
    if (demand.sequence() <= sender->demand_sequence) return absl::OkStatus();  // came before
    if (demand.read() >= demand.sequence()) {
      return absl::InvalidArgumentError(absl::StrCat("demand ", demand.sequence(),
                                                     " says that demand ", demand.read(),
                                                     " is read, expected an earlier one"));
    }
    sender->demand_sequence = demand.sequence();
    RunningTask* const task = FindTaskOf(worker, demand.task_id());
    if (task == nullptr) return absl::OkStatus();
    DING_RETURN_IF_ERROR(CheckIter(*task, demand.train_iter()));
    NoteProgress(demand.train_iter(), *sender, task);
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
  std::shared_ptr<const ChunkSet> undrawable;
  while (const std::optional<LearnerDemand> demand =
             NextDemand(answered, buffer.get(), &undrawable)) {
    answered = Answer(*demand, Draw(buffer->rows(), *demand, undrawable.get()), buffer.get());
  }
}

std::optional<LearnerDemand> CoordinatorImpl::NextDemand(
    bool answered, TaskBuffer* buffer, std::shared_ptr<const ChunkSet>* undrawable) {
  MutexLock lock(&mutex_);
  *undrawable = buffer->undrawable();
  return buffer->NextDemand(answered);
}

// False: there were too few rows.
bool CoordinatorImpl::Answer(const LearnerDemand& demand, absl::StatusOr<Drawn> drawn,
                             TaskBuffer* buffer) {
  MutexLock lock(&mutex_);
  // A learner that is gone has taken its demands along.
  if (!buffer->IsAsked(demand)) return true;
  Worker* const learner = workers_.Find(*buffer->learner());
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
  DING_RETURN_IF_ERROR(CheckPriorities(info));
  std::shared_ptr<TaskBuffer> buffer;
  {
    MutexLock lock(&mutex_);
    RunningTask* const task = FindTaskOf(worker, info.task_id());
    if (task == nullptr) return absl::OkStatus();
    DING_RETURN_IF_ERROR(CheckIter(*task, info.learner_step()));
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
  RunningTask* const task = workers_.FindTask(worker, info.task_id());
  if (task == nullptr) return absl::OkStatus();
  Worker* const sender = workers_.Find(worker);
  sender->stalled = ForPeople(info.stalled());
  NoteProgress(info.learner_step(), *sender, task);
  if (task->first_step < 0) {
    task->first_step = info.learner_step();
  } else if (info.learner_step() > task->steps) {
    scheduler_.NoteSuccess(Hello::LEARNER, worker);  // it trains
  }
  // Threads of a learner may overtake each other.
  task->steps = std::max(task->steps, info.learner_step());
  progress_.set_train_iter(task->steps);
  journal_.NoteState();
  journal_.NoteCommander();
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
  Worker* const sender = workers_.Find(worker);
  if (sender == nullptr || !sender->task.has_value() ||
      sender->task->learner.policy_id() != version.policy_id()) {
    ++counters_.late_messages;
    if (ended_) forgotten_keys_.push_back(key);  // It was on its way.
    return absl::OkStatus();
  }
  DING_RETURN_IF_ERROR(CheckVersion(*sender->task, version, key));
  NoteProgress(version.train_iter(), *sender, &*sender->task);
  sender->task->policy_iter = version.train_iter();
  policies_.Publish(version);
  commander_->PolicyPublished(version);
  ForgetKeys(policies_.DropOld(
      version.policy_id(), [this](const PolicyVersion& older)
                               ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return IsKept(older); }));
  journal_.NoteState();
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
absl::Status CoordinatorImpl::HandleResources(uint32_t worker, const Resources& resources) {
  DING_RETURN_IF_ERROR(CheckResources(resources));
  MutexLock lock(&mutex_);
  Worker* const sender = workers_.Find(worker);
  if (sender == nullptr) return absl::OkStatus();
  *sender->hello.mutable_resources() = resources;
  if (!sender->task.has_value() && !sender->draining && !ended_) {
    scheduler_.SetFree(sender->hello.role(), worker, resources);
  }
  Schedule();
  return absl::OkStatus();
}

absl::Status CoordinatorImpl::HandleGroupStatus(uint32_t worker, const GroupStatus& group) {
  DING_RETURN_IF_ERROR(CheckGroupStatus(group));
  MutexLock lock(&mutex_);
  Worker* const sender = workers_.Find(worker);
  if (sender == nullptr) return absl::OkStatus();
  sender->group = group;
  for (WorkerStatus& member : *sender->group.mutable_member()) {
    for (std::string* const text : {member.mutable_name(), member.mutable_peer(),
                                    member.mutable_task_id(), member.mutable_waits_for()}) {
      *text = ForPeople(*text);
    }
  }
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

}  // namespace internal_coordinator
}  // namespace ding
