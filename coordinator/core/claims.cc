// Checks of workers' claims that need more than one message, and what follows from false claims and
// failed tasks. docs/reference/worker_claims.md lists the checks of each field.
#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/state/buffer_chunks.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace internal_coordinator {
namespace {

// A collector is sent away after so many of its chunks could not be learned from.
constexpr int64_t kMaxBadChunksOfWorker = 3;
// A learner is named in the log if it complains of more than a tenth of the chunks, and of at least
// so many.
constexpr int64_t kManyBadChunks = 32;
// A worker makes fewer steps per second than this. A task may claim kFreeSteps more, so that one
// that has just begun is not refused.
constexpr double kMaxStepsPerSecond = 1e7;
constexpr double kFreeSteps = 1e6;

bool IsPossible(int64_t steps, absl::Duration elapsed) {
  return static_cast<double>(steps) <=
         kFreeSteps + kMaxStepsPerSecond * absl::ToDoubleSeconds(elapsed);
}

void SendAway(RunState* run, const std::string& why, Worker* worker) {
  run->Warn(absl::StrCat(worker->hello.name(), " (worker ", worker->id, ", pid ",
                         worker->hello.pid(), ") is sent away: ", why),
            EventKind::kRefusal, worker->hello.name());
  run->workers.NoteSentAway(worker->hello, why, run->now());
  worker->sent_away = why;
  const bool has_task = worker->task.has_value();
  Drain(run, worker);
  if (has_task) FailTask(run, worker);  // This also tells the worker to leave.
}

// Returns whether the learner itself may be at fault, because it cannot learn from the chunks of
// any collector. Its reports then send no collector away. A learner that complains of many chunks
// is only named in the log: otherwise a collector could stay by sending very many bad chunks.
bool IsDoubted(RunState* run, const std::string& learner, RunningTask* task) {
  const BufferChunks& chunks = *task->buffer->chunks();
  const bool some_are_good =
      std::any_of(run->workers.begin(), run->workers.end(), [](const auto& entry) {
        return entry.second.hello.role() == Hello::COLLECTOR && !entry.second.draining &&
               entry.second.bad_chunks < kMaxBadChunksOfWorker;
      });
  const bool of_all = task->accused.size() > 1 && !some_are_good;
  const bool of_many = chunks.marked() >= kManyBadChunks && 10 * chunks.marked() > chunks.added();
  if ((of_all && !task->doubted) || (of_many && !task->complains)) {
    run->Warn(absl::StrCat(learner, " cannot learn from ", chunks.marked(), " of ", chunks.added(),
                           " chunks, of ", task->accused.size(),
                           " collectors: the learner or the store ", "may be at fault",
                           of_all ? "; no further collector is sent away for it" : ""));
  }
  task->doubted = task->doubted || of_all;
  task->complains = task->complains || of_many;
  return task->doubted;
}

void Accuse(RunState* run, const Worker& learner, const BadChunk& bad, RunningTask* task) {
  const uint32_t maker = WorkerOfChunk(bad.chunk());
  Worker* const collector = run->workers.Find(maker);
  const std::string name = collector == nullptr
                               ? absl::StrCat("worker ", maker, ", which has left")
                               : absl::StrCat(collector->hello.name(), " (worker ", maker, ")");
  const std::string what = absl::StrCat(
      "chunk ", ChunkKey(bad.chunk()), " of ", name,
      bad.gone() ? " is gone from the store" : " cannot be learned from", ": its rows are left out",
      bad.reason().empty() ? "" : ": ", ForPeople(bad.reason()));
  if (bad.gone() || collector == nullptr) {
    run->Log(LogSeverity::kWarning, what, /*every=*/100);
    return;
  }
  run->Log(LogSeverity::kWarning, what);
  ++collector->bad_chunks;
  if (collector->bad_chunks < kMaxBadChunksOfWorker || !collector->sent_away.empty()) return;
  task->accused.insert(maker);
  if (IsDoubted(run, learner.hello.name(), task)) return;
  SendAway(run,
           absl::StrCat(collector->bad_chunks, " of its chunks cannot be learned from, the last ",
                        ChunkKey(bad.chunk()), ": ", ForPeople(bad.reason())),
           collector);
}

}  // namespace

absl::Status CheckPace(const RunState& run, const RunningTask& task, int64_t steps) {
  const absl::Duration elapsed = run.Elapsed(task.start_nanos);
  if (IsPossible(steps, elapsed)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(steps, " steps or rows in ", absl::ToDoubleSeconds(elapsed), " s of ", task.id(),
                   ", expected at most ", kMaxStepsPerSecond, " per second"));
}

int64_t NewestIter(const RunState& run, const std::string& policy_id) {
  return std::max(run.progress.train_iter_of(policy_id), run.policies.NewestIter(policy_id));
}

absl::Status CheckIter(const RunState& run, const RunningTask& task, int64_t iter) {
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(iter), "train iterations"));
  if (task.first_iter >= 0) return CheckPace(run, task, iter - task.first_iter);
  // The first learner may begin with a checkpoint of another run, so its iteration is not checked.
  // Later learners go on from a checkpoint of this run.
  if (!task.learner().resume()) return absl::OkStatus();
  const int64_t known = NewestIter(run, task.learner().policy_id());
  if (IsPossible(iter - known, run.progress.Elapsed())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      task.id(), " begins at train iteration ", iter,
      ", expected an iteration that the previous learner can have reached since ", known));
}

absl::Status CheckVersion(const RunState& run, const Worker& learner, const PolicyVersion& version,
                          const std::string& key) {
  const RunningTask& task = *learner.task;
  DING_RETURN_IF_ERROR(run.policies.CheckNext(version, key));
  DING_RETURN_IF_ERROR(CheckIter(run, task, version.train_iter()));
  // When a group loses the learner that published last, the others may be one step behind.
  const bool is_group = learner.group.member_size() > 0;
  if (version.train_iter() >= task.policy_iter || is_group) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "version ", version.version(), " of ", version.policy_id(), " of train iteration ",
      version.train_iter(), " after one of ", task.policy_iter, ", expected none earlier"));
}

void NoteFailure(RunState* run, const StartTask& task, const absl::Status& why, Worker* worker) {
  FailureStreak& streak = run->failures[KindOf(task)];
  ++streak.tasks;
  ++worker->failures_in_row;
  streak.workers.insert(worker->id);
  bool all = true;
  for (const auto& [id, other] : run->workers) {
    if (other.hello.role() != RoleOf(task) || other.draining) continue;
    // A learner that has a task trains another policy, so it says nothing about this one.
    if (task.has_learner() && other.task.has_value()) continue;
    all = all && streak.workers.count(id) > 0;
  }
  if (all && streak.tasks >= run->options.max_task_failures) {
    End(run,
        Annotate(why, absl::StrCat(streak.tasks, " tasks failed in a row, the last ",
                                   TaskIdOf(task), " of ", worker->hello.name())),
        "tasks fail");
  } else if (worker->failures_in_row >= run->options.max_task_failures && !worker->draining) {
    SendAway(run,
             absl::StrCat(
                 worker->failures_in_row,
                 " of its tasks failed in a row, and none of others: ", ForPeople(why.message())),
             worker);
  }
}

void NoteSuccess(RunState* run, const StartTask& task, Worker* worker) {
  run->failures.erase(KindOf(task));
  worker->failures_in_row = 0;
}

absl::Status HandleBadChunks(RunState* run, Worker* worker, const BadChunks& bad) {
  DING_RETURN_IF_ERROR(CheckBadChunks(bad));
  RunningTask* const task = FindTaskOf(run, worker, bad.task_id());
  if (task == nullptr) return absl::OkStatus();
  for (const BadChunk& chunk : bad.chunk()) {
    const BufferChunks::Marked marked = task->buffer->chunks()->MarkBad(chunk.chunk());
    if (marked == BufferChunks::Marked::kUnknown) continue;
    if (marked == BufferChunks::Marked::kHeld) {
      // The journal notes the chunk as one that has left the buffer, so that a restarted
      // coordinator drops its rows.
      run->records.NoteRemoved({chunk.chunk()});
      ForgetChunks(run, {chunk.chunk()});
    }
    Accuse(run, *worker, chunk, task);
  }
  Schedule(run);
  return absl::OkStatus();
}

void NoteProgress(RunState* run, int64_t iter, Worker* learner) {
  RunningTask* const task = &*learner->task;
  if (task->first_iter < 0) task->first_iter = iter;
  if (iter <= task->newest_iter) return;
  task->newest_iter = iter;
  if (task->stalls) {
    run->Log(LogSeverity::kInfo,
             absl::StrCat(learner->hello.name(), " goes on after ",
                          absl::FormatDuration(run->Elapsed(task->progress_nanos))));
  }
  task->stalls = false;
  task->progress_nanos = run->now();
}

absl::Duration TimeToStall(const RunState& run, const Worker& learner) {
  // Before its first iteration, collectors start and collect the first rows.
  constexpr int kFirstIteration = 6;
  const RunningTask& task = *learner.task;
  const bool has_trained = task.newest_iter > task.first_iter;
  const int64_t since = learner.waits_for.empty() ? task.progress_nanos
                                                  : std::max(task.progress_nanos, run.played_nanos);
  return run.options.stall_timeout * (has_trained ? 1 : kFirstIteration) - run.Elapsed(since);
}

void NoteStalls(RunState* run) {
  for (const auto& [buffer_id, buffer] : run->buffers) {
    Worker* const learner = run->LearnerOf(*buffer);
    if (learner == nullptr) continue;
    RunningTask& task = *learner->task;
    if (task.stalls || TimeToStall(*run, *learner) > absl::ZeroDuration()) continue;
    const absl::Duration since = run->Elapsed(task.progress_nanos);
    task.stalls = true;
    const std::string& waits_for =
        learner->waits_for.empty() ? learner->stalled : learner->waits_for;
    run->Log(
        LogSeverity::kWarning,
        absl::StrCat(learner->hello.name(), " (worker ", learner->id, ") has made no progress in ",
                     task.id(), " for ", absl::FormatDuration(since), ": it waits for ",
                     waits_for.empty() ? "something that it has not reported" : waits_for));
  }
}

}  // namespace internal_coordinator
}  // namespace ding
