// The items of collectors, and the demands of learners.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/state/buffer_chunks.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {
namespace {

// Checks that announced items have the columns of `expected`, and that each has as many rows as
// `sequences` says. An item that is an episode may have any number.
absl::Status CheckItemLayout(const Spec& expected, const ItemSequences& sequences,
                             const Batch& items) {
  DING_RETURN_IF_ERROR(CheckSameLayout(expected, items.spec(), "items"));
  for (const int64_t length : items.column<int64_t>(kColumnLength)) {
    if (sequences.Allows(length)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("an item of ", length, " rows, expected ", sequences.AllowedRows()));
  }
  return absl::OkStatus();
}

// Checks the train iterations at which rows were collected, if the items have them: none may be
// beyond `newest`, the highest one of a published policy. Returns the highest one; -1 if there is
// none.
absl::StatusOr<int64_t> NewestCollectIter(const Batch& items, int64_t newest) {
  const std::optional<int> field = items.spec().Find(kColumnCollectIter);
  const bool is_number = field.has_value() && items.spec().field(*field).dtype == DType::kInt64 &&
                         items.spec().field(*field).shape.empty();
  int64_t highest = -1;
  if (!is_number) return highest;
  for (const int64_t iter : items.column<int64_t>(*field)) {
    highest = std::max(highest, iter);
    if (iter >= -1 && iter <= newest) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a row that was collected at train iteration ", iter, ", expected -1 to ",
                     newest, ", the iteration of the newest published policy"));
  }
  return highest;
}

// Decodes the items of a message, and checks all that can be checked without the state of the run.
absl::StatusOr<AnnouncedItems> DecodeItems(const RunState& run, const Worker& sender,
                                           const CollectorData& data) {
  DING_RETURN_IF_ERROR(CheckProgress(data.progress()));
  AnnouncedItems announced;
  if (data.items().empty()) return announced;
  DING_ASSIGN_OR_RETURN(Batch rows, DecodeBatch(data.items()));
  DING_ASSIGN_OR_RETURN(announced.items, MakeItems(std::move(rows)));
  const ItemSequences& sequences = run.options.sequences;
  const Batch& items = announced.items.rows;
  if (run.items != nullptr) DING_RETURN_IF_ERROR(CheckItemLayout(*run.items, sequences, items));
  DING_ASSIGN_OR_RETURN(announced.chunks, ChunksOf(items, sender.id, sequences.overlap));
  const absl::Span<const int64_t> lengths = items.column<int64_t>(kColumnLength);
  announced.rows_of_items = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  return announced;
}

void Acknowledge(RunState* run, uint32_t worker, const std::string& task_id, uint64_t sequence,
                 bool acts_at_random) {
  CoordinatorMessage message;
  CollectorDataAck* const ack = message.mutable_collector_data_ack();
  ack->set_task_id(task_id);
  ack->set_sequence(sequence);
  if (acts_at_random) ack->set_acts_at_random(true);
  run->Send(worker, std::move(message));
}

// Returns the buffer that the items go to; null if there is nothing to push.
absl::StatusOr<std::shared_ptr<TaskBuffer>> AdmitData(RunState* run, Worker* sender,
                                                      const CollectorData& data,
                                                      const AnnouncedItems& announced) {
  const std::vector<int64_t>& chunks = announced.chunks;
  const bool progress_only = !data.has_sequence() && data.items().empty();
  if (!progress_only && data.sequence() > sender->data_sequence + 1) {
    return absl::InvalidArgumentError(absl::StrCat("data ", data.sequence(), ", expected data ",
                                                   sender->data_sequence + 1, " or earlier ones"));
  }
  if (!progress_only && data.sequence() < 1) {
    return absl::InvalidArgumentError("data without a sequence number, expected one from 1 on");
  }
  if (!progress_only && data.sequence() <= sender->data_sequence) {
    const RunningTask* const task = sender->FindTask(data.task_id());
    Acknowledge(run, sender->id, data.task_id(), sender->data_sequence,
                task != nullptr && task->buffer->wants_random_rows());
    return nullptr;
  }
  if (!chunks.empty() && chunks.front() <= sender->newest_chunk) {
    return absl::InvalidArgumentError(
        absl::StrCat("items of chunk ", chunks.front(), " after items of chunk ",
                     sender->newest_chunk, ", expected all items of a chunk in one message"));
  }
  RunningTask* const task = FindTaskOf(run, sender, data.task_id());
  if (task == nullptr) {
    if (!chunks.empty()) sender->newest_chunk = chunks.back();
    if (!progress_only) sender->data_sequence = data.sequence();
    ForgetChunks(run, chunks);
    return nullptr;
  }
  if (task->collector().eval_flag() && !chunks.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data of ", data.task_id(), ", an evaluation, which sends none"));
  }
  DING_RETURN_IF_ERROR(CheckPace(*run, *task, data.progress().cur_step()));
  DING_RETURN_IF_ERROR(CheckPace(*run, *task, task->rows + announced.rows_of_items));
  if (!chunks.empty()) {
    const int64_t newest = NewestIter(*run, task->collector().policy_id());
    DING_ASSIGN_OR_RETURN(task->acting_iter, NewestCollectIter(announced.items.rows, newest));
    sender->newest_chunk = chunks.back();
  }
  CountSteps(run, data.progress().cur_step(), task->rows, task);
  sender->stalled = ForPeople(data.progress().stalled());
  if (progress_only) {
    CheckBudget(run);
    return nullptr;
  }
  task->buffer->chunks()->Add(chunks);
  return task->buffer;
}

// Pushes the items, unless the buffer has no room for them.
//   kUnavailable  there is no room; try again
absl::Status PushItems(RunState* run, const RunningTask& task, const CollectorData& message,
                       const HeldData& data) {
  TaskBuffer* const buffer = data.buffer.get();
  const AnnouncedItems& announced = data.announced;
  if (run->lockstep() && task.collector().number() != run->lockstep_task) {
    return absl::UnavailableError("the rows of an earlier task of its round");
  }
  // These rows support further env steps, which count as soon as the rows are in the buffer.
  const int64_t added =
      task.StepsWith(task.rows + announced.rows_of_items) - task.StepsWith(task.rows);
  const int64_t envstep = run->EnvSteps() + added;
  if (buffer->limited()) DING_RETURN_IF_ERROR(buffer->CheckPush(announced.rows()));
  DING_RETURN_IF_ERROR(buffer->rows()->Push(announced.items, envstep));
  if (buffer->limited()) buffer->Pushed(announced.rows());
  if (PushRecord* const record = run->records.AddPush()) {
    record->set_buffer_id(buffer->id());
    record->set_items(message.items());
    record->mutable_chunk()->Add(announced.chunks.begin(), announced.chunks.end());
    record->set_envstep(envstep);
  }
  return absl::OkStatus();
}

// Draws in lockstep: all demanded batches, or the whole round of an on-policy policy.
//   kFailedPrecondition  the tasks of the round have not handed over all rows yet; any other error
//                        is final
absl::StatusOr<LearnerData> DrawInLockstep(RunState* run, TaskBuffer* buffer) {
  const int64_t tasks = (run->lockstep_rounds + 1) * run->options.lockstep_tasks;
  if (run->lockstep_task < tasks) {
    return absl::FailedPreconditionError(
        absl::StrCat(run->lockstep_task, " of ", tasks, " tasks have handed over their rows"));
  }
  absl::StatusOr<LearnerData> answer = buffer->DrawFirst(/*whole=*/true);
  if (answer.ok()) {
    ++run->lockstep_rounds;
    return answer;
  }
  const LearnerDemand& demand = buffer->first_demand();
  return absl::OutOfRangeError(
      absl::StrCat("in lockstep, ", tasks, " tasks have handed over ", buffer->rows_total(),
                   " rows, of which ", demand.batches(), " batches of ", demand.batch_size(),
                   " cannot be drawn, expected a round with enough of them "
                   "(policy.other.commander.collector_task_space): ",
                   answer.status().message()));
}

// Answers the first demand of the buffer. Returns false if there are too few rows.
bool AnswerFirst(RunState* run, TaskBuffer* buffer) {
  const int64_t too_old = buffer->rows_too_old();
  absl::StatusOr<LearnerData> answer =
      run->lockstep() ? DrawInLockstep(run, buffer) : buffer->DrawFirst();
  if (buffer->rows_too_old() > too_old) {
    run->Log(LogSeverity::kWarning,
             absl::StrCat(buffer->id(), ": ", buffer->rows_too_old() - too_old,
                          " rows are not learned from, because the policy that collected them is "
                          "more than policy.learn.max_data_age versions old"),
             /*every=*/20);
  }
  Worker* const learner = run->LearnerOf(*buffer);
  if (!answer.ok()) {
    ForgetRemoved(run, buffer);
    if (!absl::IsFailedPrecondition(answer.status())) {
      End(run, Annotate(answer.status(), absl::StrCat("drawing from ", buffer->id())),
          "a buffer failed");
      return false;
    }
    if (learner->waits_for.empty()) ++run->counters.demands_waited;
    learner->waits_for = std::string(answer.status().message());
    // With rounds, a demand that waits makes collectors go on.
    run->retry_held = run->retry_held || buffer->has_rounds();
    return false;
  }
  learner->waits_for.clear();
  ++run->counters.demands_answered;
  CoordinatorMessage message;
  *message.mutable_learner_data() = *std::move(answer);
  run->Send(learner->id, std::move(message));
  run->retry_held = true;
  return true;
}

}  // namespace

void Serve(RunState* run, TaskBuffer* buffer) {
  while (buffer->has_demand() && AnswerFirst(run, buffer)) {
  }
}

namespace {

// What became of data that were tried.
enum class Tried { kHandled, kWaits };

// Notes that the message is handled, so that the next one may come.
void FinishData(Worker* sender, const CollectorData& message) {
  sender->data_sequence = message.sequence();
  sender->waits_for.clear();
}

Tried Wait(Worker* sender, const absl::Status& why) {
  sender->waits_for = std::string(why.message());
  return Tried::kWaits;
}

// Notes whether the collecting task waits to go on.
void SetHoldsBack(bool holds_back, RunningTask* task) {
  if (task->collects() && task->holds_back != holds_back) {
    task->buffer->AddCollecting(holds_back ? -1 : 1);
  }
  task->holds_back = holds_back;
}

// Pushes the data if they are not pushed yet, and acknowledges them when their collector may go on.
// Each step may end the task. An error means that the message is invalid.
absl::StatusOr<Tried> TryData(RunState* run, Worker* sender, const CollectorData& message,
                              HeldData* data) {
  TaskBuffer* const buffer = data->buffer.get();
  const std::string& task_id = message.task_id();
  const RunningTask* const collecting = sender->FindTask(task_id);
  if (!data->pushed) {
    absl::Status status;
    if (collecting == nullptr) {
      status = absl::CancelledError("the task is over");
    } else if (!data->announced.items.rows.empty()) {
      status = PushItems(run, *collecting, message, *data);
    }
    if (absl::IsUnavailable(status)) {
      if (!data->refused) ++run->counters.pushes_waited;
      data->refused = true;
      return Wait(sender, status);
    }
    if (!status.ok()) {
      FinishData(sender, message);
      buffer->chunks()->Forget(data->announced.chunks);
      ForgetChunks(run, data->announced.chunks);
      if (absl::IsInvalidArgument(status)) return status;
      if (collecting != nullptr) {
        End(run, Annotate(status, absl::StrCat("pushing into ", buffer->id())), "a buffer failed");
      }
      return Tried::kHandled;
    }
    data->pushed = true;
    if (buffer->has_rounds()) Serve(run, buffer);  // These rows may complete a round.
  }
  RunningTask* const task = sender->FindTask(task_id);
  // With rounds the collector waits until its rows are wanted. Otherwise it would collect by a
  // policy that is too old when its rows are learned from. In lockstep they are.
  if (task != nullptr && buffer->has_rounds() && !run->lockstep()) {
    SetHoldsBack(true, task);
    const absl::Status status = buffer->CheckGoOn(buffer->rows()->count(), buffer->collecting());
    if (!status.ok()) return Wait(sender, status);
    SetHoldsBack(false, task);
  }
  FinishData(sender, message);
  run->counters.rows_pushed += data->announced.rows();
  if (task != nullptr) {
    CountSteps(run, task->steps, task->rows + data->announced.rows_of_items, task);
  }
  if (buffer->closed()) return Tried::kHandled;
  run->counters.rows_acknowledged += data->announced.rows();
  Acknowledge(run, sender->id, task_id, message.sequence(), buffer->wants_random_rows());
  Serve(run, buffer);
  CheckBudget(run);
  return Tried::kHandled;
}

}  // namespace

void CountSteps(RunState* run, int64_t steps, int64_t rows, RunningTask* task) {
  const int64_t before = task->StepsWith(task->rows);
  if (steps > task->steps) run->played_nanos = run->now();
  task->steps = std::max(task->steps, steps);
  task->rows = rows;
  const int64_t added = task->StepsWith(rows) - before;
  run->progress.AddEnvSteps(added);
  task->buffer->AddEnvSteps(added);
}

absl::Status HandleCollectorData(RunState* run, Worker* sender, const CollectorData& data) {
  if (sender->held.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data ", data.sequence(), " while earlier data wait for their buffer"));
  }
  HeldData held;
  DING_ASSIGN_OR_RETURN(held.announced, DecodeItems(*run, *sender, data));
  DING_ASSIGN_OR_RETURN(held.buffer, AdmitData(run, sender, data, held.announced));
  if (held.buffer == nullptr) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const Tried tried, TryData(run, sender, data, &held));
  if (tried == Tried::kHandled) return absl::OkStatus();
  held.message = data;
  sender->held = std::move(held);
  run->held.push_back(sender->id);
  run->effects.timer_changed = true;
  return absl::OkStatus();
}

void DropHeldData(RunState* run, Worker* sender) {
  if (!sender->held->pushed) {
    sender->held->buffer->chunks()->Forget(sender->held->announced.chunks);
    ForgetChunks(run, sender->held->announced.chunks);
  }
  sender->held.reset();
  run->held.erase(std::find(run->held.begin(), run->held.end(), sender->id));
  run->effects.handled.emplace_back(sender->id, absl::OkStatus());
}

void RetryHeldData(RunState* run) {
  run->retry_held = false;
  run->retried_nanos = run->now();
  std::vector<uint32_t> waiting;
  // Once a buffer has refused data, those behind wait, too: the data to push behind each other, and
  // so the pushed ones.
  std::set<std::pair<const TaskBuffer*, bool>> refused;
  for (const uint32_t worker : std::exchange(run->held, {})) {
    Worker* const sender = run->workers.Find(worker);
    HeldData* const held = &*sender->held;
    // In lockstep the data of the earliest task go first, whenever they came.
    const bool waits_behind = !run->lockstep() &&
                              refused.count({held->buffer.get(), held->pushed}) > 0 &&
                              sender->FindTask(held->message.task_id()) != nullptr;
    const absl::StatusOr<Tried> tried =
        waits_behind ? Tried::kWaits : TryData(run, sender, held->message, held);
    if (tried.ok() && *tried == Tried::kWaits) {
      refused.emplace(held->buffer.get(), held->pushed);
      waiting.push_back(worker);
      continue;
    }
    sender->held.reset();
    run->effects.handled.emplace_back(worker, tried.status());
  }
  run->held = std::move(waiting);
}

absl::Status HandleLearnerDemand(RunState* run, Worker* sender, const LearnerDemand& demand) {
  DING_RETURN_IF_ERROR(CheckDemand(demand));
  if (demand.sequence() < 1 || demand.sequence() > sender->demand_sequence + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "demand ", demand.sequence(), ", expected demand ", sender->demand_sequence + 1));
  }
  if (demand.sequence() <= sender->demand_sequence) return absl::OkStatus();  // a repetition
  if (demand.read() >= demand.sequence()) {
    return absl::InvalidArgumentError(absl::StrCat("demand ", demand.sequence(),
                                                   " says that demand ", demand.read(),
                                                   " is read, expected an earlier one"));
  }
  sender->demand_sequence = demand.sequence();
  RunningTask* const task = FindTaskOf(run, sender, demand.task_id());
  if (task == nullptr) return absl::OkStatus();
  DING_RETURN_IF_ERROR(CheckIter(*run, *task, demand.train_iter()));
  NoteProgress(run, demand.train_iter(), sender);
  const std::shared_ptr<TaskBuffer> buffer = task->buffer;  // The task may end.
  const absl::Status added = buffer->AddDemand(demand);
  ForgetRemoved(run, buffer.get());
  DING_RETURN_IF_ERROR(added);
  Serve(run, buffer.get());
  return absl::OkStatus();
}

}  // namespace internal_coordinator
}  // namespace ding
