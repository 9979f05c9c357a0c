#include "ding_worker/coordinator/state/run_journal.h"

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/log.h"
#include "ding_worker/coordinator/journal/recovery.h"

namespace ding {

RunJournal::RunJournal(Journal* journal, std::function<void()> on_replaced)
    : journal_(journal), on_replaced_(std::move(on_replaced)) {}

void RunJournal::NoteError(const absl::Status& status) {
  if (!absl::IsAborted(status) || !replaced_.ok()) return;
  replaced_ = status;
  on_replaced_();
}

JournalRecord* RunJournal::AddTaskRecord() {
  commander_changed_ = true;
  return journal_ == nullptr ? nullptr : &unwritten_.emplace_back();
}

void RunJournal::NoteGiven(const LearnerTask& task) {
  if (JournalRecord* const record = AddTaskRecord()) *record->mutable_learner_task() = task;
}

void RunJournal::NoteGiven(const CollectorTask& task) {
  if (JournalRecord* const record = AddTaskRecord()) *record->mutable_collector_task() = task;
}

void RunJournal::NoteOver(const std::string& task_id) {
  if (JournalRecord* const record = AddTaskRecord()) record->set_task_over(task_id);
}

void RunJournal::NoteRemoved(absl::Span<const int64_t> chunks) {
  if (journal_ == nullptr) return;
  removed_.mutable_removed()->mutable_chunk()->Add(chunks.begin(), chunks.end());
}

absl::Status RunJournal::Persist(absl::FunctionRef<JournalRecord()> state,
                                 const BaseCommander& commander) {
  if (journal_ == nullptr || (!state_changed_ && !commander_changed_ && unwritten_.empty())) {
    return absl::OkStatus();
  }
  const size_t tasks = unwritten_.size();
  unwritten_.push_back(state());
  absl::Status status;
  if (commander_changed_) {
    absl::StatusOr<std::string> saved = SaveCommander(commander);
    status = saved.status();
    if (status.ok()) unwritten_.emplace_back().set_commander(*std::move(saved));
  }
  if (status.ok()) status = journal_->Append(unwritten_);
  if (!status.ok()) {
    NoteError(status);
    unwritten_.resize(tasks);
    DING_LOG_EVERY_N(WARNING, 1000)
        << "the coordinator's state is not written: " << status.message();
    return status;
  }
  unwritten_.clear();
  state_changed_ = commander_changed_ = false;
  return absl::OkStatus();
}

void RunJournal::PersistRemoved() {
  if (journal_ == nullptr || !removed_.has_removed()) return;
  const absl::Status written = journal_->Append({removed_});
  if (written.ok()) removed_.Clear();
  NoteError(written);
}

void RunJournal::NoteReplaced() {
  unwritten_.clear();
  state_changed_ = commander_changed_ = false;
}

}  // namespace ding
