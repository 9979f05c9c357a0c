#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/coordinator_impl.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/journal/recovery.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/state_wire.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {
namespace {

// Numbers are given one by one, so a higher one in the store is not ours.
constexpr uint32_t kMaxWorkerNumber = uint32_t{1} << 30;

// Returns the number of the worker that has put the key ("data/<worker>/<n>", "policy/<id>/<version>-<worker>"); 0: it
// says none.
uint32_t WorkerOfKey(absl::string_view key) {
  uint32_t number = 0;
  if (absl::ConsumePrefix(&key, kDataPrefix)) {
    key = key.substr(0, key.find('/'));
  } else {
    key = key.substr(key.rfind('-') + 1);
  }
  return absl::SimpleHexAtoi(key, &number) && number <= kMaxWorkerNumber ? number : 0;
}

}  // namespace

absl::Status CoordinatorImpl::Recover() {
  const absl::Status status = RecoverFromJournal();
  if (status.ok()) return status;
  // A state that could not be read must not be replaced by that of a run that has just begun.
  MutexLock lock(&mutex_);
  journal_.Detach();
  keeps_data_ = true;
  return status;
}

absl::Status CoordinatorImpl::RecoverFromJournal() {
  Journal* journal = nullptr;
  {
    MutexLock lock(&mutex_);
    journal = journal_.get();
  }
  if (journal == nullptr) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::optional<RecoveredRun> run, ReadJournal(*journal));
  if (!run.has_value()) {
    MutexLock lock(&mutex_);
    return Persist();
  }
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(LoadCommander(run->commander, commander_.get()));
    RecoverState(*run);
    DING_RETURN_IF_ERROR(RecoverStoppers(run->state.stoppers()));
    for (const BufferRecord& known : run->state.buffer()) {
      DING_ASSIGN_OR_RETURN(
          const std::shared_ptr<TaskBuffer> buffer,
          BufferOf(known.buffer_id(), {known.setting().begin(), known.setting().end()}));
      if (known.started()) buffer->set_started();
    }
    for (const LearnerTask& task : run->learner_tasks) commander_->NotifyFailLearnerTask(task);
    for (const CollectorTask& task : run->collector_tasks) {
      commander_->NotifyFailCollectorTask(task);
    }
  }
  DING_RETURN_IF_ERROR(RecoverRows(*run));
  RecoverPolicies(*run);
  return ReplaceJournal();
}

absl::Status CoordinatorImpl::RecoverStoppers(const std::string& bytes) {
  if (bytes.empty()) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<StateReader> reader,
                        DecodeState(bytes, "the state of the stoppers in the journal"));
  return stoppers_.LoadState(reader.get());
}

void CoordinatorImpl::RecoverState(const RecoveredRun& run) {
  const StateRecord& state = run.state;
  incarnation_ = state.incarnation() + 1;
  workers_.Load(state);
  progress_.Load(state);
  commands_.Load(state, options_.goes_on_after_stop);
}

std::optional<std::unordered_set<std::string>> CoordinatorImpl::ListKeys(
    const std::string& prefix) const {
  if (list_keys_ == nullptr) return std::nullopt;
  const absl::StatusOr<std::vector<std::string>> keys = list_keys_(prefix);
  if (keys.ok()) return std::unordered_set<std::string>(keys->begin(), keys->end());
  DING_LOG(WARNING) << "cannot list the keys of the store: " << keys.status().message()
                    << "; all stored data are assumed to be there";
  return std::nullopt;
}

// A machine that goes down may take the newest records of the journal with it, while the data of those workers stay in
// the store. No worker gets their numbers again: what is deleted would be mistaken for its own data.
void CoordinatorImpl::SkipNumbersOf(const std::unordered_set<std::string>& keys) {
  MutexLock lock(&mutex_);
  for (const std::string& key : keys) workers_.NoteNumber(WorkerOfKey(key));
}

// Repeats the pushes of the journal. The buffers then evict the same rows as before, by their own rules.
absl::Status CoordinatorImpl::RecoverRows(const RecoveredRun& run) {
  const std::optional<std::unordered_set<std::string>> present = ListKeys(kDataPrefix);
  if (present.has_value()) SkipNumbersOf(*present);
  std::unordered_set<std::string> kept;
  std::map<std::string, int64_t> lost;  // number of lost rows, by buffer
  JournalRecord lost_chunks;
  const auto push = [&](const JournalRecord& record) -> absl::Status {
    const BufferRecord* const known = run.FindBuffer(record.push().buffer_id());
    if (!record.has_push() || known == nullptr) return absl::OkStatus();
    // With rounds no row may be learned from twice, and the journal does not say which rows were drawn.
    if (options_.rounds.has_value()) {
      for (const int64_t chunk : record.push().chunk()) {
        if (run.removed_chunks.count(chunk) == 0) lost_chunks.mutable_removed()->add_chunk(chunk);
      }
      return absl::OkStatus();
    }
    DING_ASSIGN_OR_RETURN(const Batch items, DecodeBatch(record.push().items()));
    DING_ASSIGN_OR_RETURN(const Batch wanted, KeepChunks(items, [&run](int64_t chunk) {
                            return run.removed_chunks.count(chunk) == 0;
                          }));
    DING_ASSIGN_OR_RETURN(Batch there, KeepChunks(wanted, [&present](int64_t chunk) {
                            return !present.has_value() || present->count(ChunkKey(chunk)) > 0;
                          }));
    lost[known->buffer_id()] += wanted.rows() - there.rows();
    for (const int64_t chunk : record.push().chunk()) {
      const bool is_lost = present.has_value() && run.removed_chunks.count(chunk) == 0 &&
                           present->count(ChunkKey(chunk)) == 0;
      if (is_lost) lost_chunks.mutable_removed()->add_chunk(chunk);
    }
    if (there.empty()) return absl::OkStatus();
    DING_ASSIGN_OR_RETURN(
        const std::vector<int64_t> chunks,
        ChunksOf(there, WorkerOfChunk(record.push().chunk(0)), options_.sequences.overlap));
    DING_ASSIGN_OR_RETURN(const SegmentBatch rows, MakeItems(std::move(there)));
    std::shared_ptr<TaskBuffer> buffer;
    {
      MutexLock lock(&mutex_);
      buffer = buffers_.at(known->buffer_id());
      buffer->AddChunks(chunks);
    }
    for (const int64_t chunk : chunks) kept.insert(ChunkKey(chunk));
    return Annotate(buffer->rows()->Push(rows, record.push().envstep()),
                    absl::StrCat("pushing again into ", known->buffer_id()));
  };
  Journal* journal = nullptr;
  {
    MutexLock lock(&mutex_);
    journal = journal_.get();
  }
  DING_RETURN_IF_ERROR(journal->Read(push));
  // The journal says that these chunks are lost, so that the next coordinator does not count them again.
  if (lost_chunks.has_removed()) DING_RETURN_IF_ERROR(journal->Append({lost_chunks}));
  MutexLock lock(&mutex_);
  for (const std::string& key : forgotten_keys_) kept.erase(key);
  for (const BufferRecord& known : run.state.buffer()) {
    TaskBuffer* const buffer = buffers_.at(known.buffer_id()).get();
    const int64_t lost_now = lost[known.buffer_id()];
    buffer->Recovered(known, known.rows_lost() + lost_now);
    counters_.rows_pushed += known.rows_total();
    counters_.rows_acknowledged += known.rows_total();
    DING_LOG(INFO) << known.buffer_id() << " goes on with " << buffer->rows()->count() << " of "
                   << known.rows_total() << " rows";
    DING_LOG_IF(WARNING, lost_now > 0) << known.buffer_id() << ": the data of " << lost_now
                                       << " rows are gone from the store; these rows are dropped";
  }
  if (present.has_value()) {
    for (const std::string& key : *present) {
      if (kept.count(key) == 0) forgotten_keys_.push_back(key);
    }
  }
  recovered_keys_ = std::move(kept);
  return absl::OkStatus();
}

void CoordinatorImpl::RecoverPolicies(const RecoveredRun& run) {
  std::optional<std::unordered_set<std::string>> present = ListKeys(kPolicyPrefix);
  if (present.has_value()) SkipNumbersOf(*present);
  MutexLock lock(&mutex_);
  policies_.Load(run.state, present.has_value() ? &*present : nullptr);
  if (!present.has_value()) return;
  for (const std::string& key : policies_.StoredKeys()) present->erase(key);
  for (const std::string& key : *present) forgotten_keys_.push_back(key);
}

void CoordinatorImpl::ForgetPrevious(const Hello& hello) {
  const std::string number = absl::StrCat(absl::Hex(hello.previous_worker()));
  std::optional<std::unordered_set<std::string>> keys;
  {
    MutexLock lock(&mutex_);
    // WorkerLost() has done this for a worker that was lost in this incarnation of the coordinator.
    if (hello.previous_incarnation() >= incarnation_) return;
  }
  const bool learns = hello.role() == Hello::LEARNER;
  keys = ListKeys(learns ? kPolicyPrefix : absl::StrCat(kDataPrefix, number, "/"));
  if (!keys.has_value()) return;
  {
    MutexLock lock(&mutex_);
    for (const std::string& key : policies_.StoredKeys()) keys->erase(key);
    const std::string its = absl::StrCat("-", number);
    for (const std::string& key : *keys) {
      const bool forget = learns ? absl::EndsWith(key, its) : recovered_keys_.count(key) == 0;
      if (forget) forgotten_keys_.push_back(key);
    }
  }
  DeleteForgotten();
}

JournalRecord CoordinatorImpl::StateNow() const {
  JournalRecord record;
  StateRecord* const state = record.mutable_state();
  state->set_run(options_.run);
  state->set_incarnation(incarnation_);
  progress_.Save(EnvSteps(), state);
  commands_.Save(state);
  workers_.Save(state);
  for (const auto& [id, buffer] : buffers_) {
    BufferRecord* const of_buffer = state->add_buffer();
    of_buffer->set_buffer_id(id);
    of_buffer->set_started(buffer->started());
    of_buffer->set_rows_lost(buffer->rows_lost());
    of_buffer->set_rows_drawn(buffer->rows_drawn());
    of_buffer->set_envstep(EnvStepsOf(*buffer));
    of_buffer->mutable_setting()->Assign(buffer->settings().begin(), buffer->settings().end());
  }
  policies_.Save(state);
  if (stoppers_.empty()) return record;
  const absl::StatusOr<EncodedBatch> stoppers =
      EncodeState([this](StateWriter* writer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stoppers_.SaveState(writer);
      });
  if (stoppers.ok()) {
    state->set_stoppers(stoppers->ToString());
  } else {
    DING_LOG_EVERY_N(WARNING, 100) << "a coordinator that is started again will not know what the "
                                      "stoppers know: "
                                   << stoppers.status().message();
  }
  return record;
}

absl::StatusOr<std::vector<JournalRecord>> CoordinatorImpl::AllNow() const {
  std::vector<JournalRecord> records = {StateNow()};
  // The state carries this number, because the pushes that carry it may be deleted.
  for (BufferRecord& buffer : *records[0].mutable_state()->mutable_buffer()) {
    buffer.set_rows_total(buffers_.at(buffer.buffer_id())->rows_total());
  }
  DING_ASSIGN_OR_RETURN(*records.emplace_back().mutable_commander(), SaveCommander(*commander_));
  for (const auto& [id, worker] : workers_) {
    if (!worker.task.has_value()) continue;
    if (worker.task->state.kind == Hello::LEARNER) {
      *records.emplace_back().mutable_learner_task() = worker.task->learner;
    } else if (doubted_.Find(worker.task->state.task_id) == nullptr) {
      *records.emplace_back().mutable_collector_task() = worker.task->collector;
    }
  }
  // The commander did not give the task of a witness. It gave the task whose result is doubted, which is saved.
  doubted_.Save(&records);
  scheduler_.Save(&records);
  return records;
}

absl::Status CoordinatorImpl::Persist() {
  const auto state = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return StateNow(); };
  return journal_.Persist(state, *commander_);
}

absl::Status CoordinatorImpl::ReplaceJournal() {
  MutexLock lock(&mutex_);
  if (journal_.get() == nullptr) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::vector<JournalRecord> all, AllNow());
  DING_RETURN_IF_ERROR(journal_.get()->Replace(all));
  journal_.NoteReplaced();
  return absl::OkStatus();
}

}  // namespace internal_coordinator
}  // namespace ding
