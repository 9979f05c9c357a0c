// All messages of workers but for data and demands.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace internal_coordinator {
namespace {

// The number of policy versions that are sent to a worker which sends nothing itself.
constexpr int kMaxPoliciesUnheard = 64;

// A silent worker, which may be stopped, gets no further versions until it sends something, and
// then only the newest. Otherwise its messages would pile up, and it would count as stuck.
void SendPolicy(RunState* run, const PolicyVersion& version, Worker* worker) {
  worker->withheld_policy = version;
  if (worker->policies_since_heard >= kMaxPoliciesUnheard) return;
  ++worker->policies_since_heard;
  CoordinatorMessage message;
  *message.mutable_policy_version() = version;
  run->Send(worker->id, std::move(message));
  worker->withheld_policy.reset();
}

void NoteHeard(RunState* run, Worker* worker) {
  worker->policies_since_heard = 0;
  if (!worker->withheld_policy.has_value()) return;
  const PolicyVersion version = *std::move(worker->withheld_policy);
  SendPolicy(run, version, worker);
}

absl::Status HandleTaskStarted(RunState* run, Worker* sender, const TaskStarted& started) {
  RunningTask* const task = FindTaskOf(run, sender, started.task_id());
  if (task == nullptr || !task->learns()) return absl::OkStatus();
  task->buffer->set_started();
  run->records.NoteState();
  Schedule(run);
  return absl::OkStatus();
}

absl::Status HandleTaskFailed(RunState* run, Worker* sender, const TaskFailed& failed) {
  const RunningTask* const task = FindTaskOf(run, sender, failed.task_id());
  if (task == nullptr) return absl::OkStatus();
  const StartTask start = task->start;
  // The code is kCancelled if the failure was not the fault of the task.
  const auto code = static_cast<absl::StatusCode>(failed.code());
  const absl::Status why(code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : code,
                         ForPeople(failed.message()));
  run->Log(LogSeverity::kWarning, absl::StrCat(failed.task_id(), " of ", sender->hello.name(),
                                               " failed: ", why.ToString()));
  FailTask(run, sender);
  if (code != absl::StatusCode::kCancelled) NoteFailure(run, start, why, sender);
  Schedule(run);
  return absl::OkStatus();
}

// Checks that the version by which a finished task was played was published.
absl::Status CheckPlayedVersion(const RunState& run, const CollectorTask& task,
                                const CollectorFinished& info) {
  const uint64_t newest = run.policies.Newest(task.policy_id());
  const int64_t newest_iter = NewestIter(run, task.policy_id());
  if (info.policy_version() <= newest && info.train_iter() <= newest_iter) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(task.task_id(), " was played by version ", info.policy_version(), " of ",
                   task.policy_id(), ", train iteration ", info.train_iter(), ", expected at most ",
                   newest, " and ", newest_iter, ", which were published"));
}

absl::Status HandleCollectorFinished(RunState* run, Worker* sender, const CollectorFinished& info) {
  DING_RETURN_IF_ERROR(CheckCollectorFinished(info));
  RunningTask* const task = FindTaskOf(run, sender, info.task_id());
  if (task == nullptr) return absl::OkStatus();
  DING_RETURN_IF_ERROR(CheckPace(*run, *task, info.step_count()));
  DING_RETURN_IF_ERROR(CheckPlayedVersion(*run, task->collector(), info));
  CountSteps(run, info.step_count(), task->rows, task);
  if (!run->commander.Call(&BaseCommander::JudgeCollectorFinish, info)) {
    FailTask(run, sender);
    Schedule(run);
    return absl::OkStatus();
  }
  NoteSuccess(run, task->start, sender);
  const RunningTask finished = EndTask(run, sender);
  // The commander gets the numbers that the coordinator has counted, not those that the worker
  // claims.
  CollectorFinished result = info;
  result.set_eval_flag(finished.collector().eval_flag());
  if (!result.eval_flag()) {
    result.set_step_count(finished.StepsWith(finished.rows));
    result.set_sample_count(finished.rows);
    run->progress.NoteReturns(result.episode_return());
    run->progress.NoteCollectSettings(finished.collector().collect_setting());
    CountResult(run, finished.collector(), result);
    if (run->lockstep()) {
      // A task without rows may be over before an earlier one.
      run->lockstep_finished.insert(finished.collector().number());
      while (run->lockstep_finished.erase(run->lockstep_task) > 0) ++run->lockstep_task;
      CheckBudget(run);  // Otherwise the learner might begin with the rows of the round.
      Serve(run, finished.buffer.get());
    }
  } else {
    CountEvaluation(run, *sender, finished.collector(), result);
  }
  Schedule(run);
  return absl::OkStatus();
}

absl::Status UpdatePriorities(const LearnerInfo& info, TaskBuffer* buffer) {
  if (info.priority_size() == 0) return absl::OkStatus();
  PriorityInfo priorities;
  priorities.priority.assign(info.priority().begin(), info.priority().end());
  priorities.replay_unique_id.assign(info.replay_unique_id().begin(),
                                     info.replay_unique_id().end());
  priorities.replay_buffer_idx.assign(info.replay_buffer_idx().begin(),
                                      info.replay_buffer_idx().end());
  return buffer->rows()->Update(priorities);
}

// Notes the train iteration that a learner reports. The failures of the policy's tasks are
// forgotten if it is trained further than ever before: a learner that repeats what was lost may
// fail at the same place again.
void NoteTrained(RunState* run, int64_t iter, Worker* sender) {
  RunningTask* const task = &*sender->task;
  const std::string& policy_id = task->learner().policy_id();
  const auto [furthest, is_first] = run->furthest_iter.try_emplace(policy_id, iter);
  if (is_first || iter > furthest->second) {
    furthest->second = iter;
    if (iter > task->first_iter) NoteSuccess(run, task->start, sender);
  }
  // Reports of several threads of a learner may arrive in another order.
  task->steps = std::max(task->steps, iter);
  run->progress.set_train_iter_of(policy_id, task->steps);
}

absl::Status HandleLearnerInfo(RunState* run, Worker* sender, const LearnerInfo& info) {
  DING_RETURN_IF_ERROR(CheckLearnerInfo(info));
  DING_RETURN_IF_ERROR(CheckPriorities(info));
  RunningTask* const task = FindTaskOf(run, sender, info.task_id());
  if (task == nullptr) return absl::OkStatus();
  DING_RETURN_IF_ERROR(CheckIter(*run, *task, info.learner_step()));
  DING_RETURN_IF_ERROR(UpdatePriorities(info, task->buffer.get()));
  sender->stalled = ForPeople(info.stalled());
  NoteProgress(run, info.learner_step(), sender);
  // Reports come at any time. In lockstep only versions count, so that the run ends with one.
  if (!run->lockstep()) NoteTrained(run, info.learner_step(), sender);
  if (info.shown_size() > 0) run->progress.NoteReported(info.shown());
  run->records.NoteState();
  run->records.NoteCommander();
  run->commander.Call(&BaseCommander::UpdateLearnerInfo, task->learner(), info);
  CheckBudget(run);
  if (!info.stop_request().empty()) {
    End(run, absl::OkStatus(), absl::StrCat("a hook: ", ForPeople(info.stop_request())));
  }
  if (!run->ended && run->commander.Call(&BaseCommander::JudgeLearnerFinish, info))
    FinishLearnerTask(run, sender);
  Schedule(run);
  return absl::OkStatus();
}

absl::Status HandlePolicyVersion(RunState* run, Worker* sender, const PolicyVersion& version) {
  // The key is made here and not taken from the learner: it is deleted later, so it must be the key
  // of a policy.
  const std::string key = PolicyKey(version.policy_id(), version.version(), sender->id);
  if (!sender->task.has_value() || sender->task->learner().policy_id() != version.policy_id()) {
    ++run->counters.late_messages;
    if (run->ended) ForgetKeys(run, {key});  // No later version would have it deleted.
    return absl::OkStatus();
  }
  DING_RETURN_IF_ERROR(CheckVersion(*run, *sender, version, key));
  NoteProgress(run, version.train_iter(), sender);
  sender->task->policy_iter = version.train_iter();
  run->policies.Publish(version);
  run->commander.Call(&BaseCommander::PolicyPublished, version);
  ForgetKeys(run, run->policies.DropOld(version.policy_id(), [run](const PolicyVersion& older) {
    return IsKept(*run, older);
  }));
  run->records.NoteState();
  for (auto& [id, other] : run->workers) {
    if (other.task.has_value() && !other.task->learns() &&
        other.task->collector().policy_id() == version.policy_id()) {
      SendPolicy(run, version, &other);
    }
  }
  if (run->lockstep()) {
    const int64_t rounds = static_cast<int64_t>(version.version()) - 1;
    if (rounds != run->lockstep_rounds) {
      End(run,
          absl::FailedPreconditionError(absl::StrCat(
              "in lockstep, ", run->lockstep_rounds, " rounds gave ", rounds,
              " new versions of the policy, expected as many: a policy that takes several train "
              "iterations on a batch cannot be in lockstep")),
          "the learner is not in lockstep");
      return absl::OkStatus();  // The learner has no task any more.
    }
    NoteTrained(run, version.train_iter(), sender);
    Schedule(run);  // A round begins, or the run ends.
  }
  return absl::OkStatus();
}

// An aggregator reports the resources of its learners, which change as learners come and go.
absl::Status HandleResources(RunState* run, Worker* sender, const Resources& resources) {
  DING_RETURN_IF_ERROR(CheckResources(resources));
  *sender->hello.mutable_resources() = resources;
  if (!sender->task.has_value() && !sender->draining && !run->ended) run->workers.SetFree(sender);
  Schedule(run);
  return absl::OkStatus();
}

absl::Status HandleGroupStatus(RunState* run, Worker* sender, const GroupStatus& group) {
  DING_RETURN_IF_ERROR(CheckGroupStatus(group));
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

RunningTask* FindTaskOf(RunState* run, Worker* worker, const std::string& task_id) {
  RunningTask* const task = worker->FindTask(task_id);
  if (task == nullptr) ++run->counters.late_messages;
  return task;
}

absl::Status HandleMessage(RunState* run, uint32_t worker, const WorkerMessage& message) {
  Worker* const sender = run->workers.Find(worker);
  if (sender == nullptr) return absl::NotFoundError("there is no such worker");
  if (!sender->sent_away.empty()) {
    return absl::PermissionDeniedError(absl::StrCat("it was sent away: ", sender->sent_away));
  }
  NoteHeard(run, sender);
  const auto kind = static_cast<int>(message.message_case());
  // Calls `handle` if a worker of this role may send the message.
  const auto from = [&](Hello::Role role, auto handle, const auto& content) -> absl::Status {
    if (sender->hello.role() == role) return handle(run, sender, content);
    return absl::InvalidArgumentError(absl::StrCat("a ", Hello::Role_Name(sender->hello.role()),
                                                   " sent a message that only a ",
                                                   Hello::Role_Name(role), " sends: kind ", kind));
  };
  // GroupCore (adapter) has a switch over some of these kinds, too; it does other things with the
  // messages.
  switch (message.message_case()) {
    case WorkerMessage::kTaskStarted:
      return HandleTaskStarted(run, sender, message.task_started());
    case WorkerMessage::kTaskFailed:
      return HandleTaskFailed(run, sender, message.task_failed());
    case WorkerMessage::kResources:
      return HandleResources(run, sender, message.resources());
    case WorkerMessage::kCollectorData:
      return from(Hello::COLLECTOR, HandleCollectorData, message.collector_data());
    case WorkerMessage::kCollectorFinished:
      return from(Hello::COLLECTOR, HandleCollectorFinished, message.collector_finished());
    case WorkerMessage::kLearnerDemand:
      return from(Hello::LEARNER, HandleLearnerDemand, message.learner_demand());
    case WorkerMessage::kLearnerInfo:
      return from(Hello::LEARNER, HandleLearnerInfo, message.learner_info());
    case WorkerMessage::kPolicyVersion:
      return from(Hello::LEARNER, HandlePolicyVersion, message.policy_version());
    case WorkerMessage::kBadChunks:
      return from(Hello::LEARNER, HandleBadChunks, message.bad_chunks());
    case WorkerMessage::kGroupStatus:
      return from(Hello::LEARNER, HandleGroupStatus, message.group_status());
    default:  // messages of operators, messages to an aggregator, and those that begin a session
      return absl::InvalidArgumentError(absl::StrCat(
          "a message of kind ", kind, ", which is not allowed in the middle of a session"));
  }
}

}  // namespace internal_coordinator
}  // namespace ding
