#include "ding_worker/coordinator/journal/journal.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/parse_proto.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace {

// The most memory that a parsed record may take, which is several times its bytes.
constexpr int64_t kMaxParsedRecordBytes = int64_t{4} << 30;

constexpr char kRemovedPrefix[] = "removed/";

std::string RemovedPart(int64_t chunk) { return absl::StrCat(kRemovedPrefix, chunk); }

// Returns the name of the part of the snapshot that has this record, or that it ends; "" for pushes
// and removals.
std::string PartOf(const JournalRecord& record) {
  switch (record.record_case()) {
    case JournalRecord::kState:
      return "state";
    case JournalRecord::kCommander:
      return "commander";
    case JournalRecord::kCollectorTask:
      return absl::StrCat("task/", record.collector_task().task_id());
    case JournalRecord::kLearnerTask:
      return absl::StrCat("task/", record.learner_task().task_id());
    case JournalRecord::kTaskOver:
      return absl::StrCat("task/", record.task_over());
    default:
      return "";
  }
}

}  // namespace

std::string EncodeJournalRecord(const JournalRecord& record) {
  uint32_t crc = 0;
  std::string bytes(sizeof(crc), '\0');
  record.AppendToString(&bytes);
  crc = Crc32c(absl::string_view(bytes).substr(sizeof(crc)));
  std::memcpy(bytes.data(), &crc, sizeof(crc));
  return bytes;
}

absl::StatusOr<JournalRecord> DecodeJournalRecord(absl::string_view bytes) {
  uint32_t crc = 0;
  if (bytes.size() < sizeof(crc)) return absl::DataLossError("a record is cut off");
  std::memcpy(&crc, bytes.data(), sizeof(crc));
  bytes.remove_prefix(sizeof(crc));
  if (crc != Crc32c(bytes)) return absl::DataLossError("a record is not as it was written");
  JournalRecord record;
  const absl::Status parsed = ParseProto(bytes, &record, kMaxParsedRecordBytes);
  if (parsed.ok()) return record;
  return absl::DataLossError(absl::StrCat("a record cannot be parsed: ", parsed.message()));
}

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(std::unique_ptr<Log> log) {
  auto journal = absl::WrapUnique(new Journal(std::move(log)));
  DING_ASSIGN_OR_RETURN(journal->parts_, journal->log_->ReadSnapshot());
  DING_RETURN_IF_ERROR(journal->log_->Read([&](int64_t index, absl::string_view bytes) {
    DING_ASSIGN_OR_RETURN(const JournalRecord record, DecodeJournalRecord(bytes));
    Push push;
    push.chunks = {record.push().chunk().begin(), record.push().chunk().end()};
    if (journal->log_->may_lose()) push.bytes = std::string(bytes);
    const size_t live = journal->live_.size() + push.chunks.size();
    journal->NotePush(index, std::move(push));
    if (journal->live_.size() == live) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("a chunk of record ", index, " was pushed before"));
  }));
  DING_RETURN_IF_ERROR(journal->NoteRemovedParts());
  return journal;
}

absl::StatusOr<std::optional<RecordedRun>> Journal::ReadRun() const {
  if (parts_.count("state") == 0) {
    if (pushes_.empty()) return std::nullopt;
    return absl::DataLossError(absl::StrCat(
        "the journal has ", pushes_.size(),
        " pushes of rows, and not the state of the run, which is written before them: begin a new "
        "run, from a checkpoint of this one if there is one"));
  }
  RecordedRun run;
  for (const auto& [name, bytes] : parts_) {
    DING_ASSIGN_OR_RETURN(JournalRecord part, DecodeJournalRecord(bytes));
    if (part.has_state()) run.state = std::move(*part.mutable_state());
    if (part.has_commander()) run.commander = std::move(*part.mutable_commander());
    if (part.has_learner_task()) run.learner_tasks.push_back(part.learner_task());
    if (part.has_collector_task()) run.collector_tasks.push_back(part.collector_task());
  }
  return run;
}

absl::Status Journal::ReadPushes(
    const std::function<absl::Status(const PushRecord&)>& visit) const {
  return log_->Read([&](int64_t index, absl::string_view bytes) -> absl::Status {
    if (pushes_.at(index).left == 0) return absl::OkStatus();
    DING_ASSIGN_OR_RETURN(const JournalRecord record, DecodeJournalRecord(bytes));
    return visit(record.push());
  });
}

absl::StatusOr<std::vector<std::string>> Journal::LiveKeys() const {
  std::vector<std::string> keys;
  DING_ASSIGN_OR_RETURN(const std::optional<RecordedRun> run, ReadRun());
  if (!run.has_value()) return keys;
  for (const PolicyRecord& policy : run->state.policy()) {
    for (const PolicyVersion& version : policy.stored()) keys.push_back(version.key());
  }
  for (const auto& [index, push] : pushes_) {
    for (const int64_t chunk : push.chunks) {
      if (IsLive(chunk)) keys.push_back(ChunkKey(chunk));
    }
  }
  return keys;
}

int64_t Journal::records() const { return static_cast<int64_t>(pushes_.size() + parts_.size()); }

absl::Status Journal::Append(absl::Span<const JournalRecord> records) {
  if (unknown_.has_value()) {
    Addition added = *std::exchange(unknown_, std::nullopt);
    const size_t count = added.records;
    const absl::Status status = Commit(std::move(added));
    if (absl::IsUnavailable(status) || absl::IsAborted(status)) return status;
    // Another error says that it was not written.
    if (status.ok()) records.remove_prefix(std::min(records.size(), count));
  }
  return Commit(Prepare(records));
}

Journal::Addition Journal::Prepare(absl::Span<const JournalRecord> records) const {
  Addition added;
  added.records = records.size();
  for (const JournalRecord& record : records) {
    switch (record.record_case()) {
      case JournalRecord::kPush: {
        Push& push = added.pushes.emplace_back();
        push.chunks = {record.push().chunk().begin(), record.push().chunk().end()};
        push.bytes = EncodeJournalRecord(record);
        break;
      }
      case JournalRecord::kRemoved:
        added.removed.insert(added.removed.end(), record.removed().chunk().begin(),
                             record.removed().chunk().end());
        break;
      case JournalRecord::kTaskOver:
        added.parts[PartOf(record)] = "";
        break;
      case JournalRecord::RECORD_NOT_SET:
        break;
      default:
        added.parts[PartOf(record)] = EncodeJournalRecord(record);
    }
  }
  PrepareRemoved(&added);
  return added;
}

void Journal::PrepareRemoved(Addition* added) const {
  added->dead = {dead_.begin(), dead_.end()};
  std::unordered_set<int64_t> added_chunks;
  for (const Push& push : added->pushes) {
    if (!added->removed.empty()) added_chunks.insert(push.chunks.begin(), push.chunks.end());
  }
  std::unordered_map<int64_t, size_t> removed_of;  // how many chunks, by the index of their push
  for (const int64_t chunk : added->removed) {
    const auto live = live_.find(chunk);
    if (live == live_.end() && added_chunks.count(chunk) == 0) continue;
    JournalRecord part;
    part.mutable_removed()->add_chunk(chunk);
    added->parts[RemovedPart(chunk)] = EncodeJournalRecord(part);
    if (live == live_.end()) continue;
    const int64_t index = live->second;
    if (++removed_of[index] == pushes_.at(index).left) added->dead.insert(index);
  }
  for (const int64_t index : added->dead) {
    for (const int64_t chunk : pushes_.at(index).chunks) {
      const std::string name = RemovedPart(chunk);
      added->parts.erase(name);
      if (parts_.count(name) > 0) added->parts[name] = "";
    }
  }
}

absl::Status Journal::Commit(Addition added) {
  if (added.pushes.empty() && added.parts.empty() && added.dead.empty()) return absl::OkStatus();
  Log::Change change;
  change.anew = added.anew;
  if (added.anew) {
    for (const auto& [index, push] : pushes_) {
      if (added.dead.count(index) == 0) change.append.push_back(push.bytes);
    }
    for (const auto& part : parts_) change.snapshot.push_back(part);
  } else {
    change.remove = {added.dead.begin(), added.dead.end()};
  }
  for (const Push& push : added.pushes) change.append.push_back(push.bytes);
  for (const auto& part : added.parts) change.snapshot.push_back(part);
  const absl::StatusOr<int64_t> first = log_->Commit(change);
  if (absl::IsDataLoss(first.status()) && log_->may_lose() && !added.anew) {
    added.anew = true;
    return Commit(std::move(added));
  }
  if (absl::IsUnavailable(first.status())) {
    unknown_ = std::move(added);
    return first.status();
  }
  DING_RETURN_IF_ERROR(first.status());
  int64_t index = *first;
  for (auto& [name, bytes] : added.parts) {
    parts_[name] = std::move(bytes);
    if (parts_[name].empty()) parts_.erase(name);
  }
  for (const int64_t dead : added.dead) {
    for (const int64_t chunk : pushes_.at(dead).chunks) live_.erase(chunk);
    pushes_.erase(dead);
  }
  dead_.clear();
  if (added.anew) {
    DING_LOG(WARNING) << "the store had no whole journal any more: it was emptied, or restarted "
                      << "without its data; all of it was put there again";
    live_.clear();
    for (auto& [old, push] : std::exchange(pushes_, {})) NotePush(index++, std::move(push));
    DING_RETURN_IF_ERROR(NoteRemovedParts());
  }
  for (Push& push : added.pushes) {
    if (!log_->may_lose()) push.bytes.clear();
    NotePush(index++, std::move(push));
  }
  NoteRemoved(added.removed);
  return absl::OkStatus();
}

void Journal::NotePush(int64_t index, Push push) {
  push.left = push.chunks.size();
  for (const int64_t chunk : push.chunks) live_[chunk] = index;
  if (push.left == 0) dead_.push_back(index);
  pushes_.emplace(index, std::move(push));
}

void Journal::NoteRemoved(absl::Span<const int64_t> chunks) {
  for (const int64_t chunk : chunks) {
    const auto live = live_.find(chunk);
    if (live == live_.end()) continue;
    if (--pushes_.at(live->second).left == 0) dead_.push_back(live->second);
    live_.erase(live);
  }
}

absl::Status Journal::NoteRemovedParts() {
  for (const auto& [name, bytes] : parts_) {
    DING_ASSIGN_OR_RETURN(const JournalRecord part, DecodeJournalRecord(bytes));
    // Earlier versions had names of their own for removals.
    if (part.has_removed() ? !absl::StartsWith(name, kRemovedPrefix) : PartOf(part) != name) {
      return absl::DataLossError(
          absl::StrCat("the part '", name, "' of the journal has the content of another one"));
    }
    NoteRemoved(part.removed().chunk());
  }
  return absl::OkStatus();
}

absl::StatusOr<Batch> KeepChunks(const Batch& items,
                                 const std::function<bool(int64_t chunk)>& keep) {
  std::vector<int64_t> rows;
  const auto chunks = items.column<int64_t>(kColumnChunk);
  for (int64_t i = 0; i < items.rows(); ++i) {
    if (keep(chunks[static_cast<size_t>(i)])) rows.push_back(i);
  }
  if (static_cast<int64_t>(rows.size()) == items.rows()) return items;
  DING_ASSIGN_OR_RETURN(
      BatchBuilder kept,
      BatchBuilder::Create(items.spec_ptr(),
                           std::max<int64_t>(1, static_cast<int64_t>(rows.size()))));
  GatherRows(items.view(), rows, kept.view(), 0);
  return std::move(kept).Seal(static_cast<int64_t>(rows.size()));
}

}  // namespace ding
