// The checks of workers' claims that need more than one message, and the consequences of a false claim.
// docs/security.md lists the checks of each field.
#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/state/claim_checks.h"
#include "ding_worker/coordinator/state/known_chunks.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/task_scheduler.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/control/message_checks.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {
namespace {

// The number of bad chunks, from which nobody can learn, after which a collector is sent away.
constexpr int64_t kMaxBadChunksOfWorker = 3;
// A learner is named in the log if it complains of more than a tenth of the chunks, and of at least so many.
constexpr int64_t kManyBadChunks = 32;

void SendAway(RunState* run, uint32_t id, const std::string& why, Worker* worker) {
  run->Warn(absl::StrCat(worker->hello.name(), " (worker ", id, ", pid ", worker->hello.pid(),
                         ") is sent away: ", why));
  run->workers.NoteSentAway(worker->hello, why, run->now());
  worker->sent_away = why;
  const bool has_task = worker->task.has_value();
  Drain(run, id, worker);
  if (has_task) FailTask(run, id, worker);  // This also tells the worker to leave.
}

// Whether the learner itself may be what is wrong, because it cannot learn from any collector's chunks. No
// collector is sent away on the word of such a learner. One that complains of many chunks is only named in the log: if
// that made it doubtful, a collector could stay by flooding the run with bad chunks.
bool IsDoubted(RunState* run, const std::string& learner, RunningTask* task) {
  const KnownChunks& chunks = task->buffer->chunks();
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

void Accuse(RunState* run, uint32_t learner, const BadChunk& bad, RunningTask* task) {
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
  if (IsDoubted(run, run->workers.Find(learner)->hello.name(), task)) return;
  SendAway(run, maker,
           absl::StrCat(collector->bad_chunks, " of its chunks cannot be learned from, the last ",
                        ChunkKey(bad.chunk()), ": ", ForPeople(bad.reason())),
           collector);
}

}  // namespace

absl::Status CheckPaceOf(const RunState& run, const RunningTask& task, int64_t steps) {
  return CheckPace(task.state.task_id, steps, run.Elapsed(task.state.start_nanos));
}

int64_t NewestIter(const RunState& run, const std::string& policy_id) {
  return std::max(run.progress.train_iter_of(policy_id), run.policies.NewestIter(policy_id));
}

absl::Status CheckIter(const RunState& run, const RunningTask& task, int64_t iter) {
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(iter), "train iterations"));
  if (task.first_iter >= 0) return CheckPaceOf(run, task, iter - task.first_iter);
  // The first learner may begin with a checkpoint of another run, so its iteration is not checked. Its successors
  // go on from a checkpoint of this run.
  if (!task.learner.resume()) return absl::OkStatus();
  return CheckFirstIter(task.state.task_id, iter, NewestIter(run, task.learner.policy_id()),
                        run.progress.Elapsed());
}

absl::Status CheckVersion(const RunState& run, const RunningTask& task,
                          const PolicyVersion& version, const std::string& key) {
  DING_RETURN_IF_ERROR(run.policies.CheckNext(version, key));
  DING_RETURN_IF_ERROR(CheckIter(run, task, version.train_iter()));
  // A group goes on with the parameters of the learners that are left, which may be a step behind those of the
  // learner that published the last version.
  const bool is_group = run.workers.Find(task.state.worker)->group.member_size() > 0;
  if (version.train_iter() >= task.policy_iter || is_group) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "version ", version.version(), " of ", version.policy_id(), " of train iteration ",
      version.train_iter(), " after one of ", task.policy_iter, ", expected none earlier"));
}

// Sends the worker away if its tasks fail and those of others do not. Ends the run if the tasks of all workers
// of this kind fail.
void NoteFailure(RunState* run, uint32_t worker, const TaskScheduler::TaskKind& kind,
                 const std::string& task_id, const absl::Status& why) {
  Worker* const failed = run->workers.Find(worker);
  const TaskScheduler::Streak failures = run->scheduler.NoteFailure(kind, worker);
  bool all = true;
  for (const auto& [id, other] : run->workers) {
    if (other.hello.role() != kind.role || other.draining) continue;
    // A learner that has a task trains another policy, so it says nothing about this one.
    if (kind.role == Hello::LEARNER && other.task.has_value()) continue;
    all = all && run->scheduler.HasFailed(kind, id);
  }
  if (all && failures.of_kind >= run->options.max_task_failures) {
    End(run,
        Annotate(why, absl::StrCat(failures.of_kind, " tasks failed in a row, the last ", task_id,
                                   " of ", failed->hello.name())),
        "tasks fail");
  } else if (failures.of_worker >= run->options.max_task_failures && !failed->draining) {
    SendAway(run, worker,
             absl::StrCat(failures.of_worker, " of its tasks failed in a row, and none of others: ",
                          ForPeople(why.message())),
             failed);
  }
}

absl::Status HandleBadChunks(RunState* run, uint32_t worker, const BadChunks& bad) {
  DING_RETURN_IF_ERROR(CheckBadChunks(bad));
  RunningTask* const task = FindTaskOf(run, worker, bad.task_id());
  if (task == nullptr) return absl::OkStatus();
  for (const BadChunk& chunk : bad.chunk()) {
    const KnownChunks::Marked marked = task->buffer->MarkBad(chunk.chunk());
    if (marked == KnownChunks::Marked::kUnknown) continue;
    if (marked == KnownChunks::Marked::kHeld) {
      // The journal notes the chunk as one that has left the buffer, so that a restarted coordinator drops its rows.
      run->records.NoteRemoved({chunk.chunk()});
      run->effects.deleted.push_back(ChunkKey(chunk.chunk()));
    }
    Accuse(run, worker, chunk, task);
  }
  Schedule(run);
  return absl::OkStatus();
}

void NoteProgress(RunState* run, int64_t iter, const Worker& worker, RunningTask* task) {
  if (task->first_iter < 0) task->first_iter = iter;
  if (iter <= task->newest_iter) return;
  task->newest_iter = iter;
  if (task->stalls) {
    run->Log(LogSeverity::kInfo,
             absl::StrCat(worker.hello.name(), " goes on after ",
                          absl::FormatDuration(run->Elapsed(task->progress_nanos))));
  }
  task->stalls = false;
  task->progress_nanos = run->now();
}

void NoteStalls(RunState* run) {
  for (auto& [id, worker] : run->workers) {
    if (!worker.task.has_value() || worker.task->state.kind != Hello::LEARNER) continue;
    RunningTask& task = *worker.task;
    if (task.stalls || run->Elapsed(task.progress_nanos) < run->options.stall_timeout) continue;
    task.stalls = true;
    const std::string& waits_for = worker.waits_for.empty() ? worker.stalled : worker.waits_for;
    run->Log(
        LogSeverity::kWarning,
        absl::StrCat(worker.hello.name(), " (worker ", id, ") has made no progress in ",
                     task.state.task_id, " for ",
                     absl::FormatDuration(run->Elapsed(task.progress_nanos)), ": it waits for ",
                     waits_for.empty() ? "something that it has not reported" : waits_for));
  }
}

}  // namespace internal_coordinator
}  // namespace ding
