#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/coordinator_impl.h"
#include "ding_worker/coordinator/state/claim_checks.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/data/priority_info.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/control/message_checks.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {
namespace {

// The number of policy versions that are sent to a worker which sends nothing itself.
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
  const TaskScheduler::TaskKind kind = KindOf(*task);
  // The code is kCancelled if the failure was not the fault of the task.
  const auto code = static_cast<absl::StatusCode>(failed.code());
  const absl::Status why(code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : code,
                         ForPeople(failed.message()));
  DING_LOG(WARNING) << failed.task_id() << " of " << sender->hello.name() << " failed: " << why;
  FailTask(worker, sender);
  if (code != absl::StatusCode::kCancelled) NoteFailure(worker, kind, failed.task_id(), why);
  Schedule();
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
  scheduler_.NoteSuccess(KindOf(*task), worker);
  const RunningTask finished = EndTask(worker, workers_.Find(worker));
  // The commander gets the numbers that the coordinator has counted, not those that the worker claims.
  CollectorFinished result = info;
  result.set_eval_flag(finished.collector.eval_flag());
  if (!result.eval_flag()) {
    result.set_step_count(finished.counted_steps());
    result.set_sample_count(finished.rows);
    progress_.NoteReturns(result.episode_return());
    progress_.NoteCollectSettings(finished.collector.collect_setting());
    CountResult(finished.collector, result);
  } else {
    CountEvaluation(worker, finished.collector, result);
  }
  Schedule();
  return absl::OkStatus();
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
  scheduler_.NoteTrained(worker, task->learner.policy_id(), info.learner_step(),
                         /*begins=*/task->first_step < 0);
  if (task->first_step < 0) task->first_step = info.learner_step();
  // Reports of several threads of a learner may arrive in another order.
  task->steps = std::max(task->steps, info.learner_step());
  progress_.set_train_iter_of(task->learner.policy_id(), task->steps);
  if (info.shown_size() > 0) progress_.NoteReported(info.shown());
  journal_.NoteState();
  journal_.NoteCommander();
  commander_->UpdateLearnerInfo(task->learner, info);
  CheckBudget();
  if (!info.stop_request().empty()) {
    End(absl::OkStatus(), absl::StrCat("a hook: ", ForPeople(info.stop_request())));
  }
  if (!ended_ && commander_->JudgeLearnerFinish(info)) FinishLearnerTask(worker, sender);
  Schedule();
  return absl::OkStatus();
}

absl::Status CoordinatorImpl::HandlePolicyVersion(uint32_t worker, const PolicyVersion& version) {
  MutexLock lock(&mutex_);
  // The key is made here and not taken from the learner: it will be deleted later, so it must be the
  // key of a policy.
  const std::string key = PolicyKey(version.policy_id(), version.version(), worker);
  Worker* const sender = workers_.Find(worker);
  if (sender == nullptr || !sender->task.has_value() ||
      sender->task->learner.policy_id() != version.policy_id()) {
    ++counters_.late_messages;
    if (ended_) forgotten_keys_.push_back(key);  // nobody else deletes it
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

// An aggregator reports the resources of its learners, which change as learners come and go.
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

// A silent worker, which may be stopped, gets no further versions until it sends something, and then
// only the newest. Otherwise its messages would pile up, and it would count as stuck.
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
