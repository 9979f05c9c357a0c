#include "ding_worker/coordinator/coordinator.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/guarded_commander.h"
#include "ding_worker/coordinator/coordinator_impl.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/control/message_checks.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/guarded_buffer.h"
#include "ding_worker/replay_buffer/items/removed_items.h"
#include "ding_worker/replay_buffer/selection/replay_ratio_limiter.h"

namespace ding {
namespace internal_coordinator {
namespace {

// The time between two questions to the stoppers, while no evaluation ends and would ask them.
constexpr absl::Duration kAskStoppersPeriod = absl::Seconds(1);

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

}  // namespace

void CoordinatorImpl::Start() {
  MutexLock lock(&mutex_);
  progress_.Start();
  if (progress_.converged()) End(absl::OkStatus(), "it had converged before");
  if (commands_.stop_wanted()) End(absl::OkStatus(), kStopped);
  if (!stoppers_.why().empty()) End(absl::OkStatus(), stoppers_.why());
  Schedule();
  absl::StatusOr<std::thread> timer =
      StartThread("the timer of the coordinator", [this] { RunTimer(); });
  if (timer.ok()) {
    timer_thread_ = *std::move(timer);
  } else {
    End(timer.status(), "the coordinator has no timer");
  }
}

void CoordinatorImpl::RunTimer() {
  bool ended = false;
  while (!ended) {
    {
      MutexLock lock(&mutex_);
      const absl::Status& replaced = journal_.replaced();
      if (!ended_ && replaced.ok()) timer_.WaitFor(&mutex_, TimeToNextEvent());
      if (!replaced.ok()) End(replaced, "another coordinator goes on with it");
      AskStoppersIfDue();
      Schedule();
      ended = ended_;
    }
    DeleteForgotten();
  }
}

absl::Duration CoordinatorImpl::TimeToNextEvent() const {
  absl::Duration wait =
      std::min(commander_->AskAgainAfter(), scheduler_.TimeToExpiry(deps_.clock->MonotonicNanos()));
  wait = std::min(wait, progress_.TimeLeft());
  if (!stoppers_.empty()) wait = std::min(wait, kAskStoppersPeriod);
  for (const auto& [id, worker] : workers_) {
    if (!worker.task.has_value() || worker.task->state.kind != Hello::LEARNER) continue;
    if (worker.task->stalls) continue;
    wait = std::min(wait, options_.stall_timeout - Elapsed(worker.task->progress_nanos));
  }
  return std::max(wait, absl::Milliseconds(1));
}

void CoordinatorImpl::WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) {
  if (hello.previous_worker() > 0) ForgetPrevious(hello);
  MutexLock lock(&mutex_);
  workers_.Add(worker, hello, peer, deps_.clock->MonotonicNanos());
  journal_.NoteState();
  DING_LOG(INFO) << hello.name() << " joined as worker " << worker << " from " << peer;
  if (ended_) {
    CoordinatorMessage message;
    message.mutable_end_run()->set_converged(progress_.converged());
    message.mutable_end_run()->set_reason(end_reason_);
    sender_->Send(worker, message);
    return;
  }
  if (hello.role() == Hello::COLLECTOR && workers_.collectors() > options_.collectors) {
    commander_->IncreaseCollectorTaskSpace();
  }
  scheduler_.SetFree(hello.role(), worker, hello.resources());
  if (workers_.TakeWasDraining(hello)) Drain(worker, workers_.Find(worker));
  Schedule();
}

void CoordinatorImpl::WorkerLost(uint32_t worker, const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    Worker* const lost = workers_.Find(worker);
    if (lost == nullptr) return;
    const Hello::Role role = lost->hello.role();
    journal_.NoteState();
    DING_LOG_IF(WARNING, !ended_) << lost->hello.name() << " (worker " << worker
                                  << ") is gone: " << why;
    if (!ended_) {
      if (role == Hello::COLLECTOR && workers_.collectors() > options_.collectors) {
        commander_->DecreaseCollectorTaskSpace();
      }
      if (lost->task.has_value()) FailTask(worker, lost);
      if (role == Hello::COLLECTOR) ForgetUnannounced(worker, *lost);
    }
    scheduler_.Remove(role, worker);
    workers_.Remove(worker);
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
    Worker* const sender = workers_.Find(worker);
    if (sender == nullptr) return absl::NotFoundError("there is no such worker");
    if (expected.has_value() && sender->hello.role() != *expected) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a ", Hello::Role_Name(sender->hello.role()), " sent a message that only a ",
          Hello::Role_Name(*expected), " sends: kind ", static_cast<int>(message.message_case())));
    }
    if (!sender->sent_away.empty()) {
      return absl::PermissionDeniedError(absl::StrCat("it was sent away: ", sender->sent_away));
    }
    NoteHeard(worker, sender);
  }
  // LearnerAggregator has a switch over some of these kinds, too; it does other things with the messages.
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
      return HandleResources(worker, message.resources());
    case WorkerMessage::kBadChunks:
      return HandleBadChunks(worker, message.bad_chunks());
    case WorkerMessage::kGroupStatus:
      return HandleGroupStatus(worker, message.group_status());
    default:
      DING_CHECK(false) << "SenderOf() knows it";
      return absl::OkStatus();
  }
}

RunningTask* CoordinatorImpl::FindTaskOf(uint32_t worker, const std::string& task_id) {
  RunningTask* const task = workers_.FindTask(worker, task_id);
  if (task == nullptr) ++counters_.late_messages;
  return task;
}

absl::StatusOr<uint32_t> CoordinatorImpl::Admit(const Hello& hello) {
  DING_RETURN_IF_ERROR(CheckHelloFields(hello));
  MutexLock lock(&mutex_);
  DING_RETURN_IF_ERROR(workers_.CheckNotSentAway(hello, deps_.clock->MonotonicNanos()));
  // Only the incarnation of the coordinator that the worker knew can tell that it was replaced. When that one
  // died, the worker and its replacement may both have lost their sessions.
  if (hello.previous_incarnation() == incarnation_) {
    for (const auto& [id, worker] : workers_) {
      DING_RETURN_IF_ERROR(CheckNotReplaced(hello, worker.hello));
    }
  }
  const uint32_t number = workers_.NewNumber();
  // Nothing is named by the number of an operator. It is not saved, and may be given again after a restart.
  if (hello.role() == Hello::OPERATOR) return number;
  journal_.NoteState();
  DING_RETURN_IF_ERROR(Persist());
  return number;
}

void CoordinatorImpl::CheckBudget() {
  if (ended_) return;
  const absl::Status commands = commander_->status();
  if (!commands.ok()) return End(commands, "the commander failed");
  const std::optional<std::string> used_up = progress_.UsedUpBudget(EnvSteps());
  if (used_up.has_value()) End(absl::OkStatus(), *used_up);
}

void CoordinatorImpl::AskStoppersIfDue() {
  if (stoppers_.empty() || ended_) return;
  if (asked_stoppers_nanos_.has_value() && Elapsed(*asked_stoppers_nanos_) < kAskStoppersPeriod) {
    return;
  }
  asked_stoppers_nanos_ = deps_.clock->MonotonicNanos();
  AskStoppers(/*evaluation=*/nullptr);
  if (!stoppers_.why().empty()) End(absl::OkStatus(), stoppers_.why());
}

void CoordinatorImpl::End(const absl::Status& status, const std::string& reason) {
  if (ended_) return;
  ended_ = true;
  progress_.End();
  // WaitUntilDone() returns kDeadlineExceeded while the run goes on, so that of a task becomes another code.
  final_status_ = absl::IsDeadlineExceeded(status) ? absl::InternalError(status.message()) : status;
  end_reason_ = reason;
  DING_LOG(INFO) << "the run ends: " << reason << (status.ok() ? "" : ": ") << status.message();
  CoordinatorMessage message;
  message.mutable_end_run()->set_converged(progress_.converged());
  message.mutable_end_run()->set_reason(reason);
  for (auto& [id, worker] : workers_) {
    sender_->Send(id, message);
    if (worker.task.has_value()) FailTask(id, &worker);
  }
  DropDoubted();
  journal_.NoteState();
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
  // The timer thread writes the journal, too.
  if (timer_thread_.joinable()) timer_thread_.join();
  const absl::Status replaced = ReplaceJournal();
  MutexLock lock(&mutex_);
  const absl::Status written = Persist();
  const absl::Status closed = written.ok() ? replaced : written;
  if (!absl::IsUnavailable(closed)) journal_.Detach();
  return closed;
}

void CoordinatorImpl::KeepData() {
  MutexLock lock(&mutex_);
  keeps_data_ = true;
}

absl::Status CoordinatorImpl::Close(const std::string& reason) {
  MutexLock only_one(&close_mutex_);
  {
    MutexLock lock(&mutex_);
    End(absl::OkStatus(), reason);
    journal_.Detach();
    const bool keeps_data = keeps_data_ || !journal_.replaced().ok();
    for (const auto& [id, buffer] : buffers_) {
      buffer->set_closed();
      if (!keeps_data) forgotten_buffers_.push_back(buffer);
    }
    buffers_.clear();
    policies_.FinishAll();
    if (!keeps_data) DropFinishedPolicies();
  }
  if (timer_thread_.joinable()) timer_thread_.join();
  DeleteForgotten();
  return remover_.Close();
}

}  // namespace internal_coordinator

namespace {

// Their product does not overflow.
constexpr int64_t kMaxRoundRows = int64_t{1} << 40;
constexpr int64_t kMaxRoundsAhead = int64_t{1} << 20;

constexpr char kMake[] = "the function that makes buffers";

absl::StatusOr<std::unique_ptr<IBuffer>> Guarded(absl::StatusOr<std::unique_ptr<IBuffer>> made) {
  DING_RETURN_IF_ERROR(made.status());
  if (*made == nullptr) return absl::InternalError(absl::StrCat(kMake, " returned none"));
  return GuardBuffer(*std::move(made));
}

// Makes errors of the exceptions of functions and objects that a user may have written.
void GuardParts(Coordinator::Parts* parts) {
  parts->commander = GuardCommander(std::move(parts->commander));
  parts->make_buffer = [make = std::move(parts->make_buffer)](const std::string& buffer_id,
                                                              OnRemoved on_removed) {
    return Guarded(CallUser(kMake, [&] { return make(buffer_id, std::move(on_removed)); }));
  };
  if (parts->make_task_buffer != nullptr) {
    parts->make_task_buffer = [make = std::move(parts->make_task_buffer)](
                                  const std::string& buffer_id,
                                  absl::Span<const std::string> settings, OnRemoved on_removed) {
      return Guarded(
          CallUser(kMake, [&] { return make(buffer_id, settings, std::move(on_removed)); }));
    };
  }
  if (parts->check_settings != nullptr) {
    parts->check_settings = [checks = std::move(parts->check_settings)](const StartTask& task) {
      return CallUser("check_settings", [&] { return checks(task); });
    };
  }
  parts->delete_key = [deletes = std::move(parts->delete_key)](const std::string& key) {
    return CallUser("delete_key", [&] { return deletes(key); });
  };
  if (parts->list_keys != nullptr) {
    parts->list_keys = [lists = std::move(parts->list_keys)](const std::string& prefix) {
      return CallUser("list_keys", [&] { return lists(prefix); });
    };
  }
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
  if (!(options.min_return <= options.max_return)) {
    problems.push_back(absl::StrCat("min_return is ", options.min_return, ", expected at most ",
                                    options.max_return, ", which is max_return"));
  }
  if (options.stall_timeout <= absl::ZeroDuration()) {
    problems.push_back(absl::StrCat("stall_timeout is ",
                                    absl::FormatDuration(options.stall_timeout),
                                    ", expected more than 0"));
  }
  if (options.replay_ratio.has_value()) {
    ReplayRatioLimiter::AppendProblems(*options.replay_ratio, /*draw_rows=*/0, &problems);
  }
  if (options.rounds.has_value() &&
      (options.rounds->rows < 1 || options.rounds->hand_over_rows < 1 ||
       options.rounds->ahead < 0 || options.rounds->rows > kMaxRoundRows ||
       options.rounds->hand_over_rows > kMaxRoundRows || options.rounds->ahead > kMaxRoundsAhead)) {
    problems.push_back(absl::StrCat("rounds are of ", options.rounds->rows, " rows, hand-overs of ",
                                    options.rounds->hand_over_rows, ", and ", options.rounds->ahead,
                                    " rounds are collected ahead, expected 1 to ", kMaxRoundRows,
                                    " rows, and 0 to ", kMaxRoundsAhead, " rounds"));
  }
  if (options.first_env_step < 0 || options.first_env_step > kMaxSavedCount) {
    problems.push_back(absl::StrCat("first_env_step is ", options.first_env_step,
                                    ", expected 0 to ", kMaxSavedCount));
  }
  if (options.random_collect_size < 0) {
    problems.push_back(absl::StrCat("random_collect_size is ", options.random_collect_size,
                                    ", expected at least 0"));
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
  GuardParts(&parts);
  auto coordinator =
      absl::make_unique<internal_coordinator::CoordinatorImpl>(options, std::move(parts), deps);
  DING_RETURN_IF_ERROR(Annotate(coordinator->Recover(), "going on with the run of the journal"));
  return coordinator;
}

}  // namespace ding
