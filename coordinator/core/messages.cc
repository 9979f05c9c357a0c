// All messages of workers but for data and demands.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/state/claim_checks.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/task_scheduler.h"
#include "ding_worker/coordinator/state/worker_roster.h"
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

// Returns the role that may send this message; nullopt if every role may. An error: no worker may send it here.
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
    case WorkerMessage::kBadChunks:
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
                   ", which is not allowed in the middle of a session"));
}

// A silent worker, which may be stopped, gets no further versions until it sends something, and then
// only the newest. Otherwise its messages would pile up, and it would count as stuck.
void SendPolicy(RunState* run, uint32_t id, const PolicyVersion& version, Worker* worker) {
  worker->withheld_policy = version;
  if (worker->policies_since_heard >= kMaxPoliciesUnheard) return;
  ++worker->policies_since_heard;
  CoordinatorMessage message;
  *message.mutable_policy_version() = version;
  run->Send(id, message);
  worker->withheld_policy.reset();
}

void NoteHeard(RunState* run, uint32_t id, Worker* worker) {
  worker->policies_since_heard = 0;
  if (!worker->withheld_policy.has_value()) return;
  const PolicyVersion version = *std::move(worker->withheld_policy);
  SendPolicy(run, id, version, worker);
}

void HandleTaskStarted(RunState* run, uint32_t worker, const TaskStarted& started) {
  RunningTask* const task = FindTaskOf(run, worker, started.task_id());
  if (task == nullptr || task->state.kind != Hello::LEARNER) return;
  task->buffer->set_started();
  run->records.NoteState();
  Schedule(run);
}

void HandleTaskFailed(RunState* run, uint32_t worker, const TaskFailed& failed) {
  RunningTask* const task = FindTaskOf(run, worker, failed.task_id());
  if (task == nullptr) return;
  Worker* const sender = run->workers.Find(worker);
  const TaskScheduler::TaskKind kind = KindOf(*task);
  // The code is kCancelled if the failure was not the fault of the task.
  const auto code = static_cast<absl::StatusCode>(failed.code());
  const absl::Status why(code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : code,
                         ForPeople(failed.message()));
  run->Log(LogSeverity::kWarning, absl::StrCat(failed.task_id(), " of ", sender->hello.name(),
                                               " failed: ", why.ToString()));
  FailTask(run, worker, sender);
  if (code != absl::StatusCode::kCancelled) NoteFailure(run, worker, kind, failed.task_id(), why);
  Schedule(run);
}

absl::Status HandleCollectorFinished(RunState* run, uint32_t worker,
                                     const CollectorFinished& info) {
  DING_RETURN_IF_ERROR(CheckCollectorFinished(info));
  RunningTask* const task = FindTaskOf(run, worker, info.task_id());
  if (task == nullptr) return absl::OkStatus();
  DING_RETURN_IF_ERROR(CheckPaceOf(*run, *task, info.step_count()));
  const std::string& policy_id = task->collector.policy_id();
  DING_RETURN_IF_ERROR(CheckPlayedVersion(task->collector, info, run->policies.Newest(policy_id),
                                          NewestIter(*run, policy_id)));
  task->steps = std::max(task->steps, info.step_count());
  if (!run->commander->JudgeCollectorFinish(info)) {
    FailTask(run, worker, run->workers.Find(worker));
    Schedule(run);
    return absl::OkStatus();
  }
  run->scheduler.NoteSuccess(KindOf(*task), worker);
  const RunningTask finished = EndTask(run, worker, run->workers.Find(worker));
  // The commander gets the numbers that the coordinator has counted, not those that the worker claims.
  CollectorFinished result = info;
  result.set_eval_flag(finished.collector.eval_flag());
  if (!result.eval_flag()) {
    result.set_step_count(finished.counted_steps());
    result.set_sample_count(finished.rows);
    run->progress.NoteReturns(result.episode_return());
    run->progress.NoteCollectSettings(finished.collector.collect_setting());
    CountResult(run, finished.collector, result);
  } else {
    CountEvaluation(run, worker, finished.collector, result);
  }
  Schedule(run);
  return absl::OkStatus();
}

absl::Status HandleLearnerInfo(RunState* run, uint32_t worker, const LearnerInfo& info) {
  DING_RETURN_IF_ERROR(CheckLearnerInfo(info));
  DING_RETURN_IF_ERROR(CheckPriorities(info));
  RunningTask* const task = FindTaskOf(run, worker, info.task_id());
  if (task == nullptr) return absl::OkStatus();
  DING_RETURN_IF_ERROR(CheckIter(*run, *task, info.learner_step()));
  if (info.priority_size() > 0) {
    PriorityInfo priorities;
    priorities.priority.assign(info.priority().begin(), info.priority().end());
    priorities.replay_unique_id.assign(info.replay_unique_id().begin(),
                                       info.replay_unique_id().end());
    priorities.replay_buffer_idx.assign(info.replay_buffer_idx().begin(),
                                        info.replay_buffer_idx().end());
    DING_RETURN_IF_ERROR(task->buffer->rows()->Update(priorities));
  }
  Worker* const sender = run->workers.Find(worker);
  sender->stalled = ForPeople(info.stalled());
  NoteProgress(run, info.learner_step(), *sender, task);
  run->scheduler.NoteTrained(worker, task->learner.policy_id(), info.learner_step(),
                             /*begins=*/task->first_step < 0);
  if (task->first_step < 0) task->first_step = info.learner_step();
  // Reports of several threads of a learner may arrive in another order.
  task->steps = std::max(task->steps, info.learner_step());
  run->progress.set_train_iter_of(task->learner.policy_id(), task->steps);
  if (info.shown_size() > 0) run->progress.NoteReported(info.shown());
  run->records.NoteState();
  run->records.NoteCommander();
  run->commander->UpdateLearnerInfo(task->learner, info);
  CheckBudget(run);
  if (!info.stop_request().empty()) {
    End(run, absl::OkStatus(), absl::StrCat("a hook: ", ForPeople(info.stop_request())));
  }
  if (!run->ended && run->commander->JudgeLearnerFinish(info))
    FinishLearnerTask(run, worker, sender);
  Schedule(run);
  return absl::OkStatus();
}

absl::Status HandlePolicyVersion(RunState* run, uint32_t worker, const PolicyVersion& version) {
  // The key is made here and not taken from the learner: it will be deleted later, so it must be the
  // key of a policy.
  const std::string key = PolicyKey(version.policy_id(), version.version(), worker);
  Worker* const sender = run->workers.Find(worker);
  if (!sender->task.has_value() || sender->task->learner.policy_id() != version.policy_id()) {
    ++run->counters.late_messages;
    if (run->ended) run->effects.deleted.push_back(key);  // nobody else deletes it
    return absl::OkStatus();
  }
  DING_RETURN_IF_ERROR(CheckVersion(*run, *sender->task, version, key));
  NoteProgress(run, version.train_iter(), *sender, &*sender->task);
  sender->task->policy_iter = version.train_iter();
  run->policies.Publish(version);
  run->commander->PolicyPublished(version);
  ForgetKeys(run, run->policies.DropOld(version.policy_id(), [run](const PolicyVersion& older) {
    return IsKept(*run, older);
  }));
  run->records.NoteState();
  for (auto& [id, other] : run->workers) {
    if (other.task.has_value() && other.task->state.kind == Hello::COLLECTOR &&
        other.task->collector.policy_id() == version.policy_id()) {
      SendPolicy(run, id, version, &other);
    }
  }
  return absl::OkStatus();
}

// An aggregator reports the resources of its learners, which change as learners come and go.
absl::Status HandleResources(RunState* run, uint32_t worker, const Resources& resources) {
  DING_RETURN_IF_ERROR(CheckResources(resources));
  Worker* const sender = run->workers.Find(worker);
  *sender->hello.mutable_resources() = resources;
  if (!sender->task.has_value() && !sender->draining && !run->ended) {
    run->scheduler.SetFree(sender->hello.role(), worker, resources);
  }
  Schedule(run);
  return absl::OkStatus();
}

absl::Status HandleGroupStatus(RunState* run, uint32_t worker, const GroupStatus& group) {
  DING_RETURN_IF_ERROR(CheckGroupStatus(group));
  Worker* const sender = run->workers.Find(worker);
  sender->group = group;
  for (WorkerStatus& member : *sender->group.mutable_member()) {
    for (std::string* const text : {member.mutable_name(), member.mutable_peer(),
                                    member.mutable_task_id(), member.mutable_waits_for()}) {
      *text = ForPeople(*text);
    }
  }
  sender->group_nanos = run->now();
  return absl::OkStatus();
}

}  // namespace

RunningTask* FindTaskOf(RunState* run, uint32_t worker, const std::string& task_id) {
  RunningTask* const task = run->workers.FindTask(worker, task_id);
  if (task == nullptr) ++run->counters.late_messages;
  return task;
}

absl::Status HandleMessage(RunState* run, uint32_t worker, const WorkerMessage& message) {
  DING_ASSIGN_OR_RETURN(const std::optional<Hello::Role> expected, SenderOf(message));
  Worker* const sender = run->workers.Find(worker);
  if (sender == nullptr) return absl::NotFoundError("there is no such worker");
  if (expected.has_value() && sender->hello.role() != *expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a ", Hello::Role_Name(sender->hello.role()), " sent a message that only a ",
        Hello::Role_Name(*expected), " sends: kind ", static_cast<int>(message.message_case())));
  }
  if (!sender->sent_away.empty()) {
    return absl::PermissionDeniedError(absl::StrCat("it was sent away: ", sender->sent_away));
  }
  NoteHeard(run, worker, sender);
  // LearnerAggregator has a switch over some of these kinds, too; it does other things with the messages.
  switch (message.message_case()) {
    case WorkerMessage::kTaskStarted:
      HandleTaskStarted(run, worker, message.task_started());
      return absl::OkStatus();
    case WorkerMessage::kTaskFailed:
      HandleTaskFailed(run, worker, message.task_failed());
      return absl::OkStatus();
    case WorkerMessage::kCollectorData:
      return HandleCollectorData(run, worker, message.collector_data());
    case WorkerMessage::kCollectorFinished:
      return HandleCollectorFinished(run, worker, message.collector_finished());
    case WorkerMessage::kLearnerDemand:
      return HandleLearnerDemand(run, worker, message.learner_demand());
    case WorkerMessage::kLearnerInfo:
      return HandleLearnerInfo(run, worker, message.learner_info());
    case WorkerMessage::kPolicyVersion:
      return HandlePolicyVersion(run, worker, message.policy_version());
    case WorkerMessage::kResources:
      return HandleResources(run, worker, message.resources());
    case WorkerMessage::kBadChunks:
      return HandleBadChunks(run, worker, message.bad_chunks());
    case WorkerMessage::kGroupStatus:
      return HandleGroupStatus(run, worker, message.group_status());
    default:
      DING_CHECK(false) << "SenderOf() knows it";
      return absl::OkStatus();
  }
}

}  // namespace internal_coordinator
}  // namespace ding
