// The records of a run's state, and the state of a run from its records.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/task_queue.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace internal_coordinator {
namespace {

using KeySet = std::unordered_set<std::string>;
using ListKeys = std::function<absl::StatusOr<std::vector<std::string>>(const std::string& prefix)>;

// Numbers are given one by one, so a higher one in the store is not ours.
constexpr uint32_t kMaxWorkerNumber = uint32_t{1} << 30;

// Returns the number of the worker that has put the key ("data/<worker>/<n>",
// "policy/<id>/<version>-<worker>"); 0: it says none.
uint32_t WorkerOfKey(absl::string_view key) {
  uint32_t number = 0;
  if (absl::ConsumePrefix(&key, kDataPrefix)) {
    key = key.substr(0, key.find('/'));
  } else {
    key = key.substr(key.rfind('-') + 1);
  }
  return absl::SimpleHexAtoi(key, &number) && number <= kMaxWorkerNumber ? number : 0;
}

// Returns the keys of the store; nullopt if the store cannot list them.
//
// A machine that goes down may take the newest records of the journal with it, while the data of
// those workers stay in the store. No worker gets their numbers again: what is deleted would be
// mistaken for its own data.
std::optional<KeySet> FindKeys(const ListKeys& list_keys, const std::string& prefix,
                               RunState* run) {
  if (list_keys == nullptr) return std::nullopt;
  const absl::StatusOr<std::vector<std::string>> keys =
      CallUser("list_keys", [&] { return list_keys(prefix); });
  if (!keys.ok()) {
    run->Log(LogSeverity::kWarning,
             absl::StrCat("cannot list the keys of the store: ", keys.status().message(),
                          "; all stored data are assumed to be there"));
    return std::nullopt;
  }
  for (const std::string& key : *keys) run->workers.NoteNumber(WorkerOfKey(key));
  return KeySet(keys->begin(), keys->end());
}

constexpr char kCommanderScope[] = "commander";
constexpr char kVersionName[] = "version";  // of the commander's state
constexpr int64_t kVersion = 1;

absl::StatusOr<std::string> SaveCommander(const GuardedCommander& commander) {
  DING_ASSIGN_OR_RETURN(const EncodedBatch state, EncodeState([&commander](StateWriter* writer) {
                          DING_RETURN_IF_ERROR(writer->WriteInt(kVersionName, kVersion));
                          ScopedStateWriter scoped(writer, kCommanderScope);
                          return commander.SaveState(&scoped);
                        }));
  return state.ToString();
}

absl::Status LoadCommander(const std::string& bytes, const GuardedCommander& commander) {
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<StateReader> reader,
                        DecodeState(bytes, "the commander's state in the journal"));
  DING_RETURN_IF_ERROR(reader->ReadInt(kVersionName).status());
  ScopedStateReader scoped(reader.get(), kCommanderScope);
  return commander.Call(&BaseCommander::LoadState, &scoped);
}

absl::Status RecoverStoppers(const std::string& bytes, RunState* run) {
  if (bytes.empty()) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<StateReader> reader,
                        DecodeState(bytes, "the state of the stoppers in the journal"));
  return run->stoppers.LoadState(reader.get());
}

// Recovers all but rows and policies.
absl::Status RecoverState(const RecordedRun& saved, RunState* run) {
  const StateRecord& state = saved.state;
  DING_RETURN_IF_ERROR(LoadCommander(saved.commander, run->commander));
  run->incarnation = state.incarnation() + 1;
  run->workers.Load(state);
  run->progress.Load(state);
  run->wanted_collectors = state.wanted_collectors();
  run->stop_wanted = state.stop_wanted() && !run->options.goes_on_after_stop;
  DING_RETURN_IF_ERROR(RecoverStoppers(state.stoppers(), run));
  for (const BufferRecord& known : state.buffer()) {
    DING_ASSIGN_OR_RETURN(
        const std::shared_ptr<TaskBuffer> buffer,
        BufferOf(run, known.buffer_id(), {known.setting().begin(), known.setting().end()}));
    if (known.started()) buffer->set_started();
  }
  for (const LearnerTask& task : saved.learner_tasks) {
    run->records.NoteOver(task.task_id());
    run->commander.Call(&BaseCommander::NotifyFailLearnerTask, task);
  }
  for (const CollectorTask& task : saved.collector_tasks) {
    run->records.NoteOver(task.task_id());
    run->commander.Call(&BaseCommander::NotifyFailCollectorTask, task);
  }
  return absl::OkStatus();
}

// Repeats the pushes of a journal. The buffers then evict the same rows as before, by their own
// rules.
class RowRecovery {
 public:
  // `present` has the keys of all chunks in the store; nullopt: all are there.
  RowRecovery(const Journal& journal, const RecordedRun& saved,
              const std::optional<KeySet>& present, RunState* run)
      : journal_(journal), saved_(saved), present_(present), run_(run) {}

  absl::Status Repeat(const PushRecord& push) {
    const auto buffer = run_->buffers.find(push.buffer_id());
    // With rounds no row may be learned from twice, and the journal does not say which rows were
    // drawn.
    if (buffer == run_->buffers.end() || run_->options.rounds.has_value()) {
      for (const int64_t chunk : push.chunk()) {
        if (journal_.IsLive(chunk)) lost_chunks_.push_back(chunk);
      }
      return absl::OkStatus();
    }
    DING_ASSIGN_OR_RETURN(const Batch items, DecodeBatch(push.items()));
    DING_ASSIGN_OR_RETURN(const Batch wanted, KeepChunks(items, [this](int64_t chunk) {
                            return journal_.IsLive(chunk);
                          }));
    DING_ASSIGN_OR_RETURN(Batch there,
                          KeepChunks(wanted, [this](int64_t chunk) { return IsPresent(chunk); }));
    lost_rows_[push.buffer_id()] += wanted.rows() - there.rows();
    for (const int64_t chunk : push.chunk()) {
      if (journal_.IsLive(chunk) && !IsPresent(chunk)) lost_chunks_.push_back(chunk);
    }
    if (there.empty()) return absl::OkStatus();
    DING_ASSIGN_OR_RETURN(
        const std::vector<int64_t> chunks,
        ChunksOf(there, WorkerOfChunk(push.chunk(0)), run_->options.sequences.overlap));
    DING_ASSIGN_OR_RETURN(const SegmentBatch rows, MakeItems(std::move(there)));
    buffer->second->chunks()->Add(chunks);
    for (const int64_t chunk : chunks) kept_.insert(ChunkKey(chunk));
    return Annotate(buffer->second->rows()->Push(rows, push.envstep()),
                    absl::StrCat("pushing again into ", push.buffer_id()));
  }

  // Call it behind the last push.
  void Finish() {
    // The journal says that these chunks are lost, so that the next coordinator does not count them
    // again.
    run_->records.NoteRemoved(lost_chunks_);
    for (const std::string& key : run_->effects.deleted) kept_.erase(key);
    for (const BufferRecord& known : saved_.state.buffer()) {
      TaskBuffer* const buffer = run_->buffers.at(known.buffer_id()).get();
      const int64_t lost = lost_rows_[known.buffer_id()];
      buffer->Recovered(known, known.rows_lost() + lost);
      run_->counters.rows_pushed += known.rows_total();
      run_->counters.rows_acknowledged += known.rows_total();
      run_->Log(LogSeverity::kInfo,
                absl::StrCat(known.buffer_id(), " goes on with ", buffer->rows()->count(), " of ",
                             known.rows_total(), " rows"));
      if (lost == 0) continue;
      run_->Log(LogSeverity::kWarning,
                absl::StrCat(known.buffer_id(), ": the data of ", lost,
                             " rows are gone from the store; these rows are dropped"));
    }
    if (present_.has_value()) {
      for (const std::string& key : *present_) {
        if (kept_.count(key) == 0) run_->effects.deleted.push_back(key);
      }
    }
    run_->recovered_keys = std::move(kept_);
  }

 private:
  bool IsPresent(int64_t chunk) const {
    return !present_.has_value() || present_->count(ChunkKey(chunk)) > 0;
  }

  const Journal& journal_;
  const RecordedRun& saved_;
  const std::optional<KeySet>& present_;
  RunState* const run_;
  KeySet kept_;
  std::map<std::string, int64_t> lost_rows_;  // by buffer
  std::vector<int64_t> lost_chunks_;
};

void RecoverPolicies(const RecordedRun& saved, std::optional<KeySet> present, RunState* run) {
  run->policies.Load(saved.state, present.has_value() ? &*present : nullptr);
  if (!present.has_value()) return;
  for (const std::string& key : run->policies.StoredKeys()) present->erase(key);
  for (const std::string& key : *present) run->effects.deleted.push_back(key);
}

JournalRecord StateNow(RunState* run) {
  JournalRecord record;
  StateRecord* const state = record.mutable_state();
  state->set_run(run->options.run);
  state->set_incarnation(run->incarnation);
  run->progress.Save(state);
  state->set_wanted_collectors(run->wanted_collectors);
  state->set_stop_wanted(run->stop_wanted);
  run->workers.Save(state);
  for (const auto& [id, buffer] : run->buffers) {
    BufferRecord* const of_buffer = state->add_buffer();
    of_buffer->set_buffer_id(id);
    of_buffer->set_started(buffer->started());
    of_buffer->set_rows_total(buffer->rows_total());
    of_buffer->set_rows_lost(buffer->rows_lost());
    of_buffer->set_rows_drawn(buffer->rows_drawn());
    of_buffer->set_envstep(buffer->env_steps());
    of_buffer->mutable_setting()->Assign(buffer->settings().begin(), buffer->settings().end());
  }
  run->policies.Save(state);
  if (run->stoppers.empty()) return record;
  const absl::StatusOr<EncodedBatch> stoppers =
      EncodeState([run](StateWriter* writer) { return run->stoppers.SaveState(writer); });
  if (stoppers.ok()) {
    state->set_stoppers(stoppers->ToString());
  } else {
    run->Log(LogSeverity::kWarning,
             absl::StrCat("a coordinator that is started again will not know what the stoppers "
                          "know: ",
                          stoppers.status().message()),
             /*every=*/100);
  }
  return record;
}

}  // namespace

absl::Status Recover(const Journal& journal, const ListKeys& list_keys, RunState* run) {
  DING_ASSIGN_OR_RETURN(const std::optional<RecordedRun> saved, journal.ReadRun());
  if (!saved.has_value()) return absl::OkStatus();
  DING_RETURN_IF_ERROR(RecoverState(*saved, run));
  const std::optional<KeySet> chunks = FindKeys(list_keys, kDataPrefix, run);
  RowRecovery rows(journal, *saved, chunks, run);
  DING_RETURN_IF_ERROR(
      journal.ReadPushes([&rows](const PushRecord& push) { return rows.Repeat(push); }));
  rows.Finish();
  RecoverPolicies(*saved, FindKeys(list_keys, kPolicyPrefix, run), run);
  return absl::OkStatus();
}

std::vector<JournalRecord> TakeRecords(RunState* run) {
  const bool state_changed = run->records.state_changed();
  const bool commander_changed = run->records.commander_changed();
  if (state_changed) run->written_nanos = run->now();
  std::vector<JournalRecord> records = run->records.Take();
  if (state_changed) records.push_back(StateNow(run));
  if (!commander_changed) return records;
  absl::StatusOr<std::string> commander = SaveCommander(run->commander);
  if (commander.ok()) {
    records.emplace_back().set_commander(*std::move(commander));
    return records;
  }
  // A commander that has failed is not called again, so that the journal keeps its state before.
  // The tasks have to fit to that state: those that it has given are in the journal until the next
  // coordinator gives them back, and no others.
  const auto is_of_task = [](const JournalRecord& record) {
    return record.has_task_over() || record.has_learner_task() || record.has_collector_task();
  };
  records.erase(std::remove_if(records.begin(), records.end(), is_of_task), records.end());
  return records;
}

}  // namespace internal_coordinator
}  // namespace ding
