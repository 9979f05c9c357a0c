// The checks of workers' claims that need more than one message, and the consequences of a false
// claim. docs/security.md lists the checks of each field.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/trained_policy.h"
#include "ding_worker/coordinator/coordinator_impl.h"
#include "ding_worker/coordinator/state/claim_checks.h"
#include "ding_worker/coordinator/state/doubted_evaluations.h"
#include "ding_worker/coordinator/state/known_chunks.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/task_scheduler.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/control/message_checks.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/stopper.h"

namespace ding {
namespace internal_coordinator {
namespace {

// The number of bad chunks, from which nobody can learn, after which a collector is sent away.
constexpr int64_t kMaxBadChunksOfWorker = 3;
// A learner is named in the log if it complains of more than a tenth of the chunks, and of at least so many.
constexpr int64_t kManyBadChunks = 32;
constexpr size_t kMaxWarnings = 8;

}  // namespace

absl::Status CoordinatorImpl::CheckPaceOf(const RunningTask& task, int64_t steps) const {
  return CheckPace(task.state.task_id, steps, Elapsed(task.state.start_nanos));
}

int64_t CoordinatorImpl::NewestIter(const std::string& policy_id) const {
  return std::max(progress_.train_iter_of(policy_id), policies_.NewestIter(policy_id));
}

absl::Status CoordinatorImpl::CheckIter(const RunningTask& task, int64_t iter) const {
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(iter), "train iterations"));
  if (task.first_iter >= 0) return CheckPaceOf(task, iter - task.first_iter);
  // The first learner may begin with a checkpoint of another run, so its iteration is not checked. Its successors
  // go on from a checkpoint of this run.
  if (!task.learner.resume()) return absl::OkStatus();
  return CheckFirstIter(task.state.task_id, iter, NewestIter(task.learner.policy_id()),
                        progress_.Elapsed());
}

absl::Status CoordinatorImpl::CheckVersion(const RunningTask& task, const PolicyVersion& version,
                                           const std::string& key) const {
  DING_RETURN_IF_ERROR(policies_.CheckNext(version, key));
  DING_RETURN_IF_ERROR(CheckIter(task, version.train_iter()));
  // A group goes on with the parameters of the learners that are left, which may be a step behind those of the
  // learner that published the last version.
  const bool is_group = workers_.Find(task.state.worker)->group.member_size() > 0;
  if (version.train_iter() >= task.policy_iter || is_group) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "version ", version.version(), " of ", version.policy_id(), " of train iteration ",
      version.train_iter(), " after one of ", task.policy_iter, ", expected none earlier"));
}

void CoordinatorImpl::CountResult(const CollectorTask& task, const CollectorFinished& info) {
  journal_.NoteOver(task.task_id());
  const bool converged = commander_->FinishCollectorTask(task, info);
  const std::optional<double> eval_value = commander_->last_eval_value();
  if (eval_value.has_value()) progress_.NoteEvaluation(*eval_value);
  if (!converged) {
    if (task.eval_flag()) TellOfEvaluation(task, info);
    if (!stoppers_.why().empty()) End(absl::OkStatus(), stoppers_.why());
    return;
  }
  progress_.set_converged();
  std::string why =
      absl::StrCat("converged: mean return ", eval_value.value_or(0), " in ", task.task_id());
  if (task.has_confirmation() && info.episode_return_size() >= 2) {
    const ReturnEstimate found =
        EstimateReturn(info.episode_return(), MeanReturn(info.episode_return()));
    why = absl::StrCat("converged: the mean return of an evaluation was ", eval_value.value_or(0),
                       ", and that of ", found.episodes, " fresh episodes ", found.mean,
                       " with a standard error of ", found.standard_error);
  }
  End(absl::OkStatus(), why);
}

void CoordinatorImpl::TellOfEvaluation(const CollectorTask& task, const CollectorFinished& info) {
  if (info.episode_return_size() == 0 || task.has_confirmation()) return;
  Evaluation evaluation;
  evaluation.train_iter = info.train_iter();
  evaluation.env_step = EnvSteps();
  evaluation.mean_return = MeanReturn(info.episode_return());
  evaluation.episode_return.assign(info.episode_return().begin(), info.episode_return().end());
  AskStoppers(&evaluation);
  for (const auto& [id, worker] : workers_) {
    if (!worker.task.has_value() || worker.task->state.kind != Hello::LEARNER) continue;
    if (worker.task->learner.policy_id() != task.policy_id()) continue;
    CoordinatorMessage message;
    EvaluationResult* const result = message.mutable_evaluation_result();
    result->set_task_id(worker.task->state.task_id);
    result->set_train_iter(evaluation.train_iter);
    result->set_env_step(evaluation.env_step);
    *result->mutable_episode_return() = info.episode_return();
    sender_->Send(id, message);
  }
}

void CoordinatorImpl::AskStoppers(const Evaluation* evaluation) {
  if (ended_ || stoppers_.empty()) return;
  RunMoment now;
  now.env_step = EnvSteps();
  now.train_iter = progress_.train_iter();
  now.elapsed = progress_.Elapsed();
  now.evaluation = evaluation;
  const absl::Status asked = stoppers_.Ask(now);
  journal_.NoteState();
  if (!asked.ok()) End(asked, "a stopper failed");
}

void CoordinatorImpl::CountEvaluation(uint32_t worker, const CollectorTask& task,
                                      const CollectorFinished& info) {
  const std::string name = workers_.Find(worker)->hello.name();
  const bool possible = doubted_.IsPossible(info);
  if (const std::optional<DoubtedEvaluation> doubted = doubted_.Take(task.task_id())) {
    Settle(*doubted, name, info);
  } else if (possible && !commander_->WouldConverge(task, info)) {
    CountResult(task, info);
  } else if (workers_.HasOtherCollector(worker)) {
    AskWitness({worker, name, task, info});
  } else if (possible) {
    CountResult(task, info);  // No other collector can be a witness.
  } else {
    Warn(doubted_.DescribeImpossible({worker, name, task, info}));
    journal_.NoteOver(task.task_id());
    commander_->NotifyFailCollectorTask(task);
  }
}

void CoordinatorImpl::AskWitness(DoubtedEvaluation doubted) {
  const PolicyVersion* const evaluated =
      policies_.FindStored(doubted.task.policy_id(), doubted.result.policy_version());
  doubted_.Ask(std::move(doubted), evaluated);
}

void CoordinatorImpl::Settle(const DoubtedEvaluation& doubted, const std::string& witness,
                             const CollectorFinished& info) {
  const DoubtedEvaluations::Verdict verdict =
      doubted_.Compare(doubted, witness, info, commander_->WouldConverge(doubted.task, info));
  if (!verdict.warning.empty()) Warn(verdict.warning);
  if (verdict.result.has_value()) {
    CountResult(doubted.task, *verdict.result);
  } else {
    GiveBack(doubted.task);
  }
}

void CoordinatorImpl::AssignWitnesses() {
  for (const CollectorTask& task : doubted_.TakeWaitingTasks()) {
    const DoubtedEvaluation* const doubted = doubted_.Find(task.task_id());
    if (doubted == nullptr) continue;  // It was forgotten at the end of the run.
    if (workers_.HasOtherCollector(doubted->worker) && buffers_.count(task.buffer_id()) > 0) {
      if (!StartCollectorTask(task, doubted->worker)) doubted_.WaitAgain(task);
      continue;
    }
    const DoubtedEvaluation alone = *doubted_.Take(task.task_id());
    if (doubted_.IsPossible(alone.result)) {
      CountResult(alone.task, alone.result);
    } else {
      journal_.NoteOver(alone.task.task_id());
      commander_->NotifyFailCollectorTask(alone.task);
    }
  }
}

void CoordinatorImpl::GiveBack(const CollectorTask& task) {
  std::optional<DoubtedEvaluation> doubted = doubted_.Take(task.task_id());
  if (doubted.has_value() && !ended_) {
    AskWitness(*std::move(doubted));
    return;
  }
  const CollectorTask& over = doubted.has_value() ? doubted->task : task;
  journal_.NoteOver(over.task_id());
  commander_->NotifyFailCollectorTask(over);
}

void CoordinatorImpl::DropDoubted() {
  for (const DoubtedEvaluation& doubted : doubted_.TakeAll()) {
    journal_.NoteOver(doubted.task.task_id());
    commander_->NotifyFailCollectorTask(doubted.task);
  }
}

// Sends the worker away if its tasks fail and those of others do not. Ends the run if the tasks of all workers
// of this kind fail.
void CoordinatorImpl::NoteFailure(uint32_t worker, const TaskScheduler::TaskKind& kind,
                                  const std::string& task_id, const absl::Status& why) {
  Worker* const failed = workers_.Find(worker);
  const TaskScheduler::Streak failures = scheduler_.NoteFailure(kind, worker);
  bool all = true;
  for (const auto& [id, other] : workers_) {
    if (other.hello.role() != kind.role || other.draining) continue;
    // A learner that has a task trains another policy, so it says nothing about this one.
    if (kind.role == Hello::LEARNER && other.task.has_value()) continue;
    all = all && scheduler_.HasFailed(kind, id);
  }
  if (all && failures.of_kind >= options_.max_task_failures) {
    End(Annotate(why, absl::StrCat(failures.of_kind, " tasks failed in a row, the last ", task_id,
                                   " of ", failed->hello.name())),
        "tasks fail");
  } else if (failures.of_worker >= options_.max_task_failures && !failed->draining) {
    SendAway(worker,
             absl::StrCat(failures.of_worker, " of its tasks failed in a row, and none of others: ",
                          ForPeople(why.message())),
             failed);
  }
}

absl::Status CoordinatorImpl::HandleBadChunks(uint32_t worker, const BadChunks& bad) {
  DING_RETURN_IF_ERROR(CheckBadChunks(bad));
  MutexLock lock(&mutex_);
  RunningTask* const task = FindTaskOf(worker, bad.task_id());
  if (task == nullptr) return absl::OkStatus();
  for (const BadChunk& chunk : bad.chunk()) {
    const KnownChunks::Marked marked = task->buffer->MarkBad(chunk.chunk());
    if (marked == KnownChunks::Marked::kUnknown) continue;
    if (marked == KnownChunks::Marked::kHeld) {
      // The journal notes the chunk as one that has left the buffer, so that a restarted coordinator drops its rows.
      journal_.NoteRemoved({chunk.chunk()});
      forgotten_keys_.push_back(ChunkKey(chunk.chunk()));
    }
    Accuse(worker, chunk, task);
  }
  Schedule();
  return absl::OkStatus();
}

void CoordinatorImpl::Accuse(uint32_t learner, const BadChunk& bad, RunningTask* task) {
  const uint32_t maker = WorkerOfChunk(bad.chunk());
  Worker* const collector = workers_.Find(maker);
  const std::string name = collector == nullptr
                               ? absl::StrCat("worker ", maker, ", which has left")
                               : absl::StrCat(collector->hello.name(), " (worker ", maker, ")");
  const std::string what = absl::StrCat(
      "chunk ", ChunkKey(bad.chunk()), " of ", name,
      bad.gone() ? " is gone from the store" : " cannot be learned from", ": its rows are left out",
      bad.reason().empty() ? "" : ": ", ForPeople(bad.reason()));
  if (bad.gone() || collector == nullptr) {
    DING_LOG_EVERY_N(WARNING, 100) << what;
    return;
  }
  DING_LOG(WARNING) << what;
  ++collector->bad_chunks;
  if (collector->bad_chunks < kMaxBadChunksOfWorker || !collector->sent_away.empty()) return;
  task->accused.insert(maker);
  if (IsDoubted(workers_.Find(learner)->hello.name(), task)) return;
  SendAway(maker,
           absl::StrCat(collector->bad_chunks, " of its chunks cannot be learned from, the last ",
                        ChunkKey(bad.chunk()), ": ", ForPeople(bad.reason())),
           collector);
}

// Whether the learner itself may be what is wrong, because it cannot learn from any collector's chunks. No
// collector is sent away on the word of such a learner. One that complains of many chunks is only named in the log: if
// that made it doubtful, a collector could stay by flooding the run with bad chunks.
bool CoordinatorImpl::IsDoubted(const std::string& learner, RunningTask* task) {
  const KnownChunks& chunks = task->buffer->chunks();
  const bool some_are_good = std::any_of(workers_.begin(), workers_.end(), [](const auto& entry) {
    return entry.second.hello.role() == Hello::COLLECTOR && !entry.second.draining &&
           entry.second.bad_chunks < kMaxBadChunksOfWorker;
  });
  const bool of_all = task->accused.size() > 1 && !some_are_good;
  const bool of_many = chunks.marked() >= kManyBadChunks && 10 * chunks.marked() > chunks.added();
  if ((of_all && !task->doubted) || (of_many && !task->complains)) {
    Warn(absl::StrCat(learner, " cannot learn from ", chunks.marked(), " of ", chunks.added(),
                      " chunks, of ", task->accused.size(),
                      " collectors: the learner or the store ", "may be at fault",
                      of_all ? "; no further collector is sent away for it" : ""));
  }
  task->doubted = task->doubted || of_all;
  task->complains = task->complains || of_many;
  return task->doubted;
}

void CoordinatorImpl::SendAway(uint32_t id, const std::string& why, Worker* worker) {
  Warn(absl::StrCat(worker->hello.name(), " (worker ", id, ", pid ", worker->hello.pid(),
                    ") is sent away: ", why));
  workers_.NoteSentAway(worker->hello, why, deps_.clock->MonotonicNanos());
  worker->sent_away = why;
  const bool has_task = worker->task.has_value();
  Drain(id, worker);
  if (has_task) FailTask(id, worker);  // This also tells the worker to leave.
  changed_.SignalAll();
}

void CoordinatorImpl::Warn(const std::string& what) {
  DING_LOG(WARNING) << what;
  warnings_.push_back(what);
  if (warnings_.size() > kMaxWarnings) warnings_.pop_front();
}

void CoordinatorImpl::NoteProgress(int64_t iter, const Worker& worker, RunningTask* task) {
  if (task->first_iter < 0) task->first_iter = iter;
  if (iter <= task->newest_iter) return;
  task->newest_iter = iter;
  DING_LOG_IF(INFO, task->stalls) << worker.hello.name() << " goes on after "
                                  << Elapsed(task->progress_nanos);
  task->stalls = false;
  task->progress_nanos = deps_.clock->MonotonicNanos();
}

void CoordinatorImpl::NoteStalls() {
  for (auto& [id, worker] : workers_) {
    if (!worker.task.has_value() || worker.task->state.kind != Hello::LEARNER) continue;
    RunningTask& task = *worker.task;
    if (task.stalls || Elapsed(task.progress_nanos) < options_.stall_timeout) continue;
    task.stalls = true;
    const std::string& waits_for = worker.waits_for.empty() ? worker.stalled : worker.waits_for;
    DING_LOG(WARNING) << worker.hello.name() << " (worker " << id << ") has made no progress in "
                      << task.state.task_id << " for " << Elapsed(task.progress_nanos)
                      << ": it waits for "
                      << (waits_for.empty() ? "something that it has not reported" : waits_for);
  }
}

}  // namespace internal_coordinator
}  // namespace ding
