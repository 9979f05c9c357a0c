#include "ding_worker/coordinator/journal/recovery.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/state_wire.h"
#include "ding_worker/interaction/chunk_key.h"

namespace ding {
namespace {

constexpr char kScope[] = "commander";
constexpr char kVersionName[] = "version";
constexpr int64_t kVersion = 1;

template <typename Task>
void RemoveTask(const std::string& task_id, std::vector<Task>* tasks) {
  const auto is = [&task_id](const Task& task) { return task.task_id() == task_id; };
  tasks->erase(std::remove_if(tasks->begin(), tasks->end(), is), tasks->end());
}

// Adds the task once, although a journal may say twice that it was given.
template <typename Task>
void AddTask(const Task& task, std::vector<Task>* tasks) {
  RemoveTask(task.task_id(), tasks);
  tasks->push_back(task);
}

// The rows that were pushed into a buffer and drawn from it, and the env steps of its policy.
struct RowCounts {
  int64_t total = 0;
  int64_t drawn = 0;
  int64_t envstep = 0;

  void Note(int64_t rows_total, int64_t rows_drawn) {
    total = std::max(total, rows_total);
    drawn = std::max(drawn, rows_drawn);
  }
};

// Adds the pushes that follow a state in the journal to that state.
void AddPushes(int64_t envstep, const std::map<std::string, RowCounts>& rows, StateRecord* state) {
  state->set_envstep(std::max(state->envstep(), envstep));
  for (BufferRecord& buffer : *state->mutable_buffer()) {
    buffer.set_rows_total(rows.at(buffer.buffer_id()).total);
    buffer.set_rows_drawn(rows.at(buffer.buffer_id()).drawn);
    buffer.set_envstep(rows.at(buffer.buffer_id()).envstep);
  }
}

}  // namespace

const BufferRecord* RecoveredRun::FindBuffer(const std::string& buffer_id) const {
  for (const BufferRecord& buffer : state.buffer()) {
    if (buffer.buffer_id() == buffer_id) return &buffer;
  }
  return nullptr;
}

absl::StatusOr<std::optional<RecoveredRun>> ReadJournal(const Journal& journal) {
  return ReadJournal([&journal](const Journal::Visitor& visit) { return journal.Read(visit); });
}

absl::StatusOr<std::optional<RecoveredRun>> ReadJournal(const JournalReader& read) {
  RecoveredRun run;
  int64_t pushes = 0;
  bool has_state = false;
  int64_t envstep = 0;
  std::map<std::string, RowCounts> rows;  // by buffer
  const auto visit = [&](const JournalRecord& record) {
    switch (record.record_case()) {
      case JournalRecord::kPush:
        ++pushes;
        rows[record.push().buffer_id()].envstep +=
            std::max<int64_t>(0, record.push().envstep() - envstep);
        envstep = std::max(envstep, record.push().envstep());
        rows[record.push().buffer_id()].Note(record.push().rows_total(),
                                             record.push().rows_drawn());
        break;
      case JournalRecord::kRemoved:
        run.removed_chunks.insert(record.removed().chunk().begin(), record.removed().chunk().end());
        break;
      case JournalRecord::kState:
        run.state = record.state();
        envstep = std::max(envstep, record.state().envstep());
        for (const BufferRecord& buffer : record.state().buffer()) {
          rows[buffer.buffer_id()].Note(buffer.rows_total(), buffer.rows_drawn());
          rows[buffer.buffer_id()].envstep =
              buffer.has_envstep() ? buffer.envstep() : record.state().envstep();
        }
        has_state = true;
        break;
      case JournalRecord::kCommander:
        run.commander = record.commander();
        break;
      case JournalRecord::kCollectorTask:
        AddTask(record.collector_task(), &run.collector_tasks);
        break;
      case JournalRecord::kLearnerTask:
        AddTask(record.learner_task(), &run.learner_tasks);
        break;
      case JournalRecord::kTaskOver:
        RemoveTask(record.task_over(), &run.collector_tasks);
        RemoveTask(record.task_over(), &run.learner_tasks);
        break;
      case JournalRecord::RECORD_NOT_SET:  // a record of a later version
        break;
    }
    return absl::OkStatus();
  };
  DING_RETURN_IF_ERROR(read(visit));
  if (has_state) {
    AddPushes(envstep, rows, &run.state);
    return run;
  }
  if (pushes == 0) return std::nullopt;
  return absl::DataLossError(
      absl::StrCat("the journal has ", pushes,
                   " pushes of rows, and not the state of the run, which is written "
                   "before them: begin a new run, from a checkpoint of this one if there is one"));
}

absl::StatusOr<std::vector<std::string>> LiveKeys(const Journal& journal) {
  std::vector<std::string> keys;
  DING_ASSIGN_OR_RETURN(const std::optional<RecoveredRun> run, ReadJournal(journal));
  if (!run.has_value()) return keys;
  for (const PolicyRecord& policy : run->state.policy()) {
    for (const PolicyVersion& version : policy.stored()) keys.push_back(version.key());
  }
  DING_RETURN_IF_ERROR(journal.Read([&run, &keys](const JournalRecord& record) {
    if (run->FindBuffer(record.push().buffer_id()) == nullptr) return absl::OkStatus();
    for (const int64_t chunk : record.push().chunk()) {
      if (run->removed_chunks.count(chunk) == 0) keys.push_back(ChunkKey(chunk));
    }
    return absl::OkStatus();
  }));
  return keys;
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

absl::StatusOr<std::string> SaveCommander(const BaseCommander& commander) {
  DING_ASSIGN_OR_RETURN(const EncodedBatch state, EncodeState([&commander](StateWriter* writer) {
                          DING_RETURN_IF_ERROR(writer->WriteInt(kVersionName, kVersion));
                          ScopedStateWriter scoped(writer, kScope);
                          return commander.SaveState(&scoped);
                        }));
  return state.ToString();
}

absl::Status LoadCommander(const std::string& bytes, BaseCommander* commander) {
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<StateReader> reader,
                        DecodeState(bytes, "the commander's state in the journal"));
  DING_RETURN_IF_ERROR(reader->ReadInt(kVersionName).status());
  ScopedStateReader scoped(reader.get(), kScope);
  return commander->LoadState(&scoped);
}

}  // namespace ding
