#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/coordinator_impl.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/state/claim_checks.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/control/message_checks.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {
namespace {

// How long a refused push waits before it is tried again, since the rate control fades with time.
constexpr absl::Duration kPushRetry = absl::Milliseconds(5);

}  // namespace

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
  if (buffer->has_rounds()) {
    Serve(buffer);  // These rows may complete a round.
    WaitToGoOn(worker, data.task_id(), buffer.get());
  }
  AcknowledgeData(worker, data, items, buffer);
  Serve(buffer);
  MutexLock lock(&mutex_);
  CheckBudget();
  return absl::OkStatus();
}

// Decodes the items of a message, and checks all that can be checked without the state of the run.
absl::StatusOr<AnnouncedItems> CoordinatorImpl::DecodeItems(uint32_t worker,
                                                            const CollectorData& data) const {
  DING_RETURN_IF_ERROR(CheckProgress(data.progress()));
  AnnouncedItems announced;
  if (data.items().empty()) return announced;
  DING_ASSIGN_OR_RETURN(Batch rows, DecodeBatch(data.items()));
  DING_ASSIGN_OR_RETURN(announced.items, MakeItems(std::move(rows)));
  if (items_ != nullptr)
    DING_RETURN_IF_ERROR(CheckItemLayout(*items_, options_.sequences, announced.items));
  DING_ASSIGN_OR_RETURN(announced.chunks,
                        ChunksOf(announced.items.rows, worker, options_.sequences.overlap));
  const absl::Span<const int64_t> lengths = announced.items.rows.column<int64_t>(kColumnLength);
  announced.rows_of_items = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  return announced;
}

// Returns the buffer that the items go to; null if there is nothing to push.
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
    const RunningTask* const task = workers_.FindTask(worker, data.task_id());
    if (task != nullptr && task->buffer->wants_random_rows()) {
      message.mutable_collector_data_ack()->set_acts_at_random(true);
    }
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
  DING_RETURN_IF_ERROR(CheckPaceOf(*task, task->rows + announced.rows_of_items));
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

// Notes that the message is handled, so that the next one may come. Returns its worker; null if it is gone.
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
  if (task != nullptr) task->rows += announced.rows_of_items;
  if (buffer->closed()) {
    // The buffer was closed, and its rows were forgotten, while these rows were pushed: forget them, too.
    forgotten_buffers_.push_back(buffer);
  } else if (is_there) {
    counters_.rows_acknowledged += announced.rows();
    CoordinatorMessage message;
    message.mutable_collector_data_ack()->set_task_id(data.task_id());
    message.mutable_collector_data_ack()->set_sequence(data.sequence());
    if (buffer->wants_random_rows()) {
      message.mutable_collector_data_ack()->set_acts_at_random(true);
    }
    sender_->Send(worker, message);
  }
}

// Pushes the items, and waits for as long as they are refused. Returns false if the task is over, so that
// nobody wants them any more.
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
      // The env steps with these rows, which count as soon as the rows are in the buffer.
      RunningTask pushed = *task;
      pushed.rows += announced.rows_of_items;
      envstep = EnvSteps() - task->counted_steps() + pushed.counted_steps();
      journal = journal_.get();
    }
    absl::Status status;
    absl::Status journaled;
    JournalRecord push;
    {
      MutexLock order(buffer->pushing());
      if (buffer->limited()) status = CheckPush(announced.rows(), buffer);
      if (status.ok()) status = buffer->rows()->Push(announced.items, envstep);
      if (status.ok() && buffer->limited()) {
        push.mutable_push()->set_rows_drawn(CountPush(announced.rows(), buffer));
      }
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

// CheckPush() and CountPush() are called while buffer->pushing() is held, so that no other push comes between
// the two.
absl::Status CoordinatorImpl::CheckPush(int64_t rows, TaskBuffer* buffer) {
  MutexLock lock(&mutex_);
  return buffer->CheckPush(rows);
}

// Counts the pushed rows. Returns the number of rows that were drawn so far.
int64_t CoordinatorImpl::CountPush(int64_t rows, TaskBuffer* buffer) {
  MutexLock lock(&mutex_);
  buffer->Pushed(rows);
  return buffer->rows_drawn();
}

// Writes a push that could not be written at first, and which is not acknowledged before it is written. Returns
// false if the task is over.
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

// Waits until a push is worth another try. Returns false if its task is over.
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

// The collector goes on when its data are acknowledged. With rounds it waits until its rows are wanted, so
// that they are not collected by a policy that will be too old.
void CoordinatorImpl::WaitToGoOn(uint32_t worker, const std::string& task_id, TaskBuffer* buffer) {
  while (true) {
    const int64_t rows = buffer->rows()->count();
    MutexLock lock(&mutex_);
    RunningTask* const task = workers_.FindTask(worker, task_id);
    if (task == nullptr) return;
    task->holds_back = true;
    const absl::Status status = buffer->CheckGoOn(rows, workers_.Collecting(buffer));
    if (status.ok()) {
      task->holds_back = false;
      return;
    }
    workers_.Find(worker)->waits_for = std::string(status.message());
    changed_.WaitFor(&mutex_, kPushRetry);
  }
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
    if (demand.sequence() <= sender->demand_sequence) return absl::OkStatus();  // a repetition
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

// Answers demands for as long as there are rows. One thread at a time does so, which keeps their order.
void CoordinatorImpl::Serve(const std::shared_ptr<TaskBuffer>& buffer) {
  {
    MutexLock lock(&mutex_);
    if (!buffer->BeginServing()) return;
  }
  bool answered = true;
  std::shared_ptr<const ChunkSet> undrawable;
  absl::Status may_draw;
  while (const std::optional<LearnerDemand> demand =
             NextDemand(answered, buffer.get(), &undrawable, &may_draw)) {
    answered = Answer(*demand,
                      may_draw.ok() ? DrawFor(*demand, undrawable.get(), buffer.get())
                                    : absl::StatusOr<Drawn>(may_draw),
                      buffer.get());
  }
}

absl::StatusOr<Drawn> CoordinatorImpl::DrawFor(const LearnerDemand& demand,
                                               const ChunkSet* undrawable, TaskBuffer* buffer) {
  if (!buffer->has_rounds()) return Draw(buffer->rows(), demand, undrawable);
  DrawnRound round = DrawRound(buffer->rows(), demand, undrawable);
  if (round.drawn.too_old > 0) {
    MutexLock lock(&mutex_);
    buffer->LeftOut(round.drawn.too_old);
    DING_LOG_EVERY_N(WARNING, 20)
        << buffer->id() << ": " << round.drawn.too_old
        << " rows are not learned from, because the policy that collected "
           "them is more than policy.learn.max_data_age versions old";
  }
  DING_RETURN_IF_ERROR(round.status);
  return std::move(round.drawn);
}

std::optional<LearnerDemand> CoordinatorImpl::NextDemand(
    bool answered, TaskBuffer* buffer, std::shared_ptr<const ChunkSet>* undrawable,
    absl::Status* may_draw) {
  MutexLock lock(&mutex_);
  *undrawable = buffer->undrawable();
  std::optional<LearnerDemand> demand = buffer->NextDemand(answered);
  if (demand.has_value()) *may_draw = buffer->CheckDraw(&*demand);
  return demand;
}

// Answers the demand with the rows that were drawn. Returns false if there were too few.
bool CoordinatorImpl::Answer(const LearnerDemand& demand, absl::StatusOr<Drawn> drawn,
                             TaskBuffer* buffer) {
  MutexLock lock(&mutex_);
  // The demands of a learner that is gone were forgotten with it.
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
    if (buffer->has_rounds()) changed_.SignalAll();  // WaitToGoOn() may return.
    return false;
  }
  learner->waits_for.clear();
  buffer->Answered(*drawn);
  ++counters_.demands_answered;
  CoordinatorMessage message;
  *message.mutable_learner_data() = std::move(drawn->answer);
  message.mutable_learner_data()->set_envstep(EnvStepsOf(*buffer));
  sender_->Send(*buffer->learner(), message);
  changed_.SignalAll();
  return true;
}

}  // namespace internal_coordinator
}  // namespace ding
