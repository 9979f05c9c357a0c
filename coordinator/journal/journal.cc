#include "ding_worker/coordinator/journal/journal.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/parse_proto.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// The most memory that a parsed record may take, which is several times its bytes.
constexpr int64_t kMaxParsedRecordBytes = int64_t{4} << 30;

// Returns the id of the task that the record gives; empty: it gives none.
const std::string& TaskOf(const JournalRecord& record) {
  return record.has_learner_task() ? record.learner_task().task_id()
                                   : record.collector_task().task_id();
}

}  // namespace

absl::StatusOr<JournalRecord> ParseJournalRecord(absl::string_view bytes) {
  JournalRecord record;
  const absl::Status parsed = ParseProto(bytes, &record, kMaxParsedRecordBytes);
  if (parsed.ok()) return record;
  return absl::DataLossError(
      absl::StrCat("the journal has a record that cannot be parsed: ", parsed.message()));
}

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(std::unique_ptr<Log> log) {
  auto journal = absl::WrapUnique(new Journal(std::move(log)));
  MutexLock lock(&journal->mutex_);
  DING_RETURN_IF_ERROR(journal->log_->Read(
      0, [&journal](int64_t index, absl::string_view bytes)
             ABSL_NO_THREAD_SAFETY_ANALYSIS { return journal->NoteBytes(index, bytes); }));
  // A push that was not written before the last process ended will not be.
  for (const auto& [chunk, removal] : std::exchange(journal->early_, {})) journal->Release(removal);
  return journal;
}

absl::Status Journal::Read(const Visitor& visit) const {
  MutexLock lock(&mutex_);
  return log_->Read(0, [&visit](int64_t, absl::string_view bytes) -> absl::Status {
    DING_ASSIGN_OR_RETURN(const JournalRecord record, ParseJournalRecord(bytes));
    return visit(record);
  });
}

absl::Status Journal::Append(absl::Span<const JournalRecord> records) {
  MutexLock lock(&mutex_);
  return Write(records, /*replaces_all=*/false);
}

absl::Status Journal::Replace(absl::Span<const JournalRecord> state) {
  MutexLock lock(&mutex_);
  DING_RETURN_IF_ERROR(Write(state, /*replaces_all=*/true));
  return log_->Sync();
}

int64_t Journal::size_bytes() const {
  MutexLock lock(&mutex_);
  return log_->size_bytes();
}

absl::Status Journal::Write(absl::Span<const JournalRecord> records, bool replaces_all) {
  DING_RETURN_IF_ERROR(Settle());
  return Commit(MakeBatch(records, replaces_all));
}

absl::Status Journal::Settle() {
  if (!unknown_.has_value()) return absl::OkStatus();
  Batch batch = *std::exchange(unknown_, std::nullopt);
  const std::vector<std::string> records = batch.records;
  const absl::Status status = Commit(std::move(batch));
  for (const std::string& bytes : records) {
    if (status.ok() && ParseJournalRecord(bytes)->has_push()) written_.insert(bytes);
  }
  // Other errors say that the batch was not written, so that who appended it may go on.
  return absl::IsUnavailable(status) || absl::IsAborted(status) ? status : absl::OkStatus();
}

Journal::Batch Journal::MakeBatch(absl::Span<const JournalRecord> records, bool replaces_all) {
  Batch batch;
  const auto supersede = [&batch](int64_t index) {
    if (index != 0) batch.superseded.push_back(index);
  };
  if (replaces_all) {
    for (const auto& [id, index] : tasks_) supersede(index);
    supersede(commander_);
  }
  std::map<std::string, size_t> given;  // in this batch: its number in `batch.records` by id
  bool has_commander = replaces_all;
  for (const JournalRecord& record : records) {
    if (record.has_task_over() || !TaskOf(record).empty()) {
      const std::string& id = record.has_task_over() ? record.task_over() : TaskOf(record);
      const auto known = tasks_.find(id);
      if (known != tasks_.end() && !replaces_all && given.count(id) == 0) supersede(known->second);
      const auto before = given.find(id);
      if (before != given.end()) batch.records[before->second].clear();
      given[id] = batch.records.size();
      if (record.has_task_over()) continue;
    }
    if (record.has_state() && !std::exchange(batch.with_dead, true)) supersede(state_);
    if (record.has_commander() && !std::exchange(has_commander, true)) supersede(commander_);
    std::string bytes =
        record.has_state() ? WithCounts(record).SerializeAsString() : record.SerializeAsString();
    if (record.has_push() && written_.erase(bytes) > 0) continue;
    batch.records.push_back(std::move(bytes));
  }
  const auto is_empty = [](const std::string& bytes) { return bytes.empty(); };
  batch.records.erase(std::remove_if(batch.records.begin(), batch.records.end(), is_empty),
                      batch.records.end());
  return batch;
}

JournalRecord Journal::WithCounts(const JournalRecord& state) const {
  JournalRecord record = state;
  record.mutable_state()->set_envstep(std::max(envstep_, state.state().envstep()));
  for (BufferRecord& buffer : *record.mutable_state()->mutable_buffer()) {
    const auto found = buffers_.find(buffer.buffer_id());
    if (found == buffers_.end()) continue;
    buffer.set_rows_total(std::max(found->second.rows_total, buffer.rows_total()));
    buffer.set_rows_drawn(std::max(found->second.rows_drawn, buffer.rows_drawn()));
  }
  return record;
}

absl::Status Journal::Commit(Batch batch) {
  if (batch.records.empty() && batch.superseded.empty()) return absl::OkStatus();
  if (batch.anew) return CommitAnew(std::move(batch));
  Log::Change change;
  change.append = {batch.records.begin(), batch.records.end()};
  change.remove = batch.superseded;
  if (batch.with_dead) change.remove.insert(change.remove.end(), dead_.begin(), dead_.end());
  const absl::StatusOr<int64_t> first = log_->Commit(change);
  if (absl::IsDataLoss(first.status()) && log_->may_lose()) return CommitAnew(std::move(batch));
  if (absl::IsUnavailable(first.status())) unknown_ = std::move(batch);
  DING_RETURN_IF_ERROR(first.status());
  for (const int64_t index : batch.superseded) {
    entries_.erase(index);
    if (index == state_) state_ = 0;
    if (index == commander_) commander_ = 0;
  }
  const auto is_superseded = [&batch](int64_t index) {
    return std::find(batch.superseded.begin(), batch.superseded.end(), index) !=
           batch.superseded.end();
  };
  if (!batch.superseded.empty()) {
    for (auto task = tasks_.begin(); task != tasks_.end();) {
      task = is_superseded(task->second) ? tasks_.erase(task) : std::next(task);
    }
  }
  if (batch.with_dead) dead_.clear();
  int64_t index = *first;
  for (const std::string& bytes : batch.records) {
    DING_RETURN_IF_ERROR(NoteBytes(index++, bytes));
  }
  return absl::OkStatus();
}

absl::Status Journal::CommitAnew(Batch batch) {
  std::vector<std::string> all;
  for (const auto& [index, entry] : entries_) {
    if (std::find(batch.superseded.begin(), batch.superseded.end(), index) ==
        batch.superseded.end()) {
      all.push_back(entry.copy);
    }
  }
  all.insert(all.end(), batch.records.begin(), batch.records.end());
  Log::Change change;
  change.anew = true;
  change.append = {all.begin(), all.end()};
  batch.anew = true;
  const absl::StatusOr<int64_t> first = log_->Commit(change);
  if (absl::IsUnavailable(first.status())) unknown_ = std::move(batch);
  DING_RETURN_IF_ERROR(first.status());
  DING_LOG(WARNING) << "the store had no whole journal any more: it was emptied, or restarted "
                    << "without its data; all of it was put there again";
  entries_.clear();
  dead_.clear();
  pushes_.clear();
  early_.clear();
  tasks_.clear();
  state_ = commander_ = 0;
  int64_t index = *first;
  for (const std::string& bytes : all) DING_RETURN_IF_ERROR(NoteBytes(index++, bytes));
  return absl::OkStatus();
}

absl::Status Journal::NoteBytes(int64_t index, absl::string_view bytes) {
  DING_ASSIGN_OR_RETURN(const JournalRecord record, ParseJournalRecord(bytes));
  Entry& entry = entries_[index];
  if (log_->may_lose()) entry.copy = std::string(bytes);
  switch (record.record_case()) {
    case JournalRecord::kPush:
      NotePush(index, record.push(), &entry);
      break;
    case JournalRecord::kRemoved:
      NoteRemoved(index, record.removed());
      break;
    case JournalRecord::kState:
      NoteLast(index, &state_);
      NoteState(index, record.state());
      break;
    case JournalRecord::kCommander:
      NoteLast(index, &commander_);
      break;
    case JournalRecord::kCollectorTask:
    case JournalRecord::kLearnerTask:
      NoteLast(index, &tasks_[TaskOf(record)]);
      break;
    case JournalRecord::kTaskOver:
    case JournalRecord::RECORD_NOT_SET:  // a record of a later version
      break;
  }
  return absl::OkStatus();
}

void Journal::NotePush(int64_t index, const PushRecord& push, Entry* entry) {
  const auto buffer = buffers_.try_emplace(push.buffer_id()).first;
  Counts& counts = buffer->second;
  counts.rows_total = std::max(counts.rows_total, push.rows_total());
  counts.rows_drawn = std::max(counts.rows_drawn, push.rows_drawn());
  envstep_ = std::max(envstep_, push.envstep());
  entry->buffer = &buffer->first;
  for (const int64_t chunk : push.chunk()) {
    const auto removed = early_.find(chunk);
    if (removed == early_.end()) {
      pushes_[chunk].push_back(index);
      ++entry->refs;
    } else {
      entry->removals.push_back(removed->second);
      early_.erase(removed);
    }
  }
  if (entry->refs == 0) Kill(index);
}

void Journal::NoteRemoved(int64_t index, const RemovedRecord& removed) {
  std::vector<int64_t> emptied;
  int64_t refs = 0;
  for (const int64_t chunk : removed.chunk()) {
    const auto pushes = pushes_.find(chunk);
    if (pushes == pushes_.end()) {
      if (early_.emplace(chunk, index).second) ++refs;
      continue;
    }
    for (const int64_t push : pushes->second) {
      const auto entry = entries_.find(push);
      if (entry == entries_.end()) continue;  // Its buffer was closed.
      ++refs;
      entry->second.removals.push_back(index);
      if (--entry->second.refs == 0) emptied.push_back(push);
    }
    pushes_.erase(pushes);
  }
  entries_[index].refs = refs;
  if (refs == 0) Kill(index);
  for (const int64_t push : emptied) Kill(push);
}

void Journal::NoteState(int64_t index, const StateRecord& state) {
  envstep_ = std::max(envstep_, state.envstep());
  std::unordered_set<std::string> open;
  for (const BufferRecord& buffer : state.buffer()) {
    open.insert(buffer.buffer_id());
    Counts& counts = buffers_[buffer.buffer_id()];
    counts.rows_total = std::max(counts.rows_total, buffer.rows_total());
    counts.rows_drawn = std::max(counts.rows_drawn, buffer.rows_drawn());
  }
  for (auto buffer = buffers_.begin(); buffer != buffers_.end();) {
    if (open.count(buffer->first) > 0) {
      ++buffer;
      continue;
    }
    // The pushes before this state went into a buffer that is closed now.
    std::vector<int64_t> closed;
    for (const auto& [push, entry] : entries_) {
      if (push < index && entry.buffer == &buffer->first) closed.push_back(push);
    }
    for (const int64_t push : closed) Kill(push);
    buffer = buffers_.erase(buffer);
  }
}

void Journal::NoteLast(int64_t index, int64_t* last) {
  const int64_t before = std::exchange(*last, index);
  if (before != 0) Kill(before);
}

void Journal::Release(int64_t removal) {
  const auto entry = entries_.find(removal);
  if (entry != entries_.end() && --entry->second.refs == 0) Kill(removal);
}

void Journal::Kill(int64_t index) {
  const auto entry = entries_.find(index);
  if (entry == entries_.end()) return;
  const std::vector<int64_t> removals = std::move(entry->second.removals);
  entries_.erase(entry);
  dead_.push_back(index);
  for (const int64_t removal : removals) Release(removal);
}

}  // namespace ding
