// What the coordinator has to write into its journal before it tells anybody.
//
// Records keep the order in which they were noted. The state of the run and that of the commander are written once,
// behind them, however often they have changed.
//
// Ownership: a value of the coordinator's state.
// Threads:   thread-compatible.
#ifndef DING_WORKER_COORDINATOR_STATE_UNWRITTEN_RECORDS_H_
#define DING_WORKER_COORDINATOR_STATE_UNWRITTEN_RECORDS_H_

#include <string>
#include <utility>
#include <vector>

#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class UnwrittenRecords {
 public:
  // With `keeps` false there is no journal, and nothing is noted.
  explicit UnwrittenRecords(bool keeps) : keeps_(keeps) {}

  // Say that the state of the run, or that of the commander, has changed.
  void NoteState() { state_changed_ = true; }
  void NoteCommander() { commander_changed_ = true; }
  // Say that the commander has given a task, or that a task is over. Both also change the commander's state.
  void NoteGiven(const LearnerTask& task) {
    commander_changed_ = true;
    if (keeps_) *records_.emplace_back().mutable_learner_task() = task;
  }
  void NoteGiven(const CollectorTask& task) {
    commander_changed_ = true;
    if (keeps_) *records_.emplace_back().mutable_collector_task() = task;
  }
  void NoteOver(const std::string& task_id) {
    commander_changed_ = true;
    if (keeps_) records_.emplace_back().set_task_over(task_id);
  }
  // Returns the record of a push, for the caller to fill in; null if nothing is kept.
  PushRecord* AddPush() { return keeps_ ? records_.emplace_back().mutable_push() : nullptr; }
  // Says that chunks have left their buffer.
  void NoteRemoved(const std::vector<int64_t>& chunks) {
    if (!keeps_ || chunks.empty()) return;
    if (records_.empty() || !records_.back().has_removed()) records_.emplace_back();
    records_.back().mutable_removed()->mutable_chunk()->Add(chunks.begin(), chunks.end());
  }

  bool state_changed() const {
    return keeps_ && (state_changed_ || commander_changed_ || !records_.empty());
  }
  bool commander_changed() const { return keeps_ && commander_changed_; }
  // Returns the records, and forgets them and all changes.
  std::vector<JournalRecord> Take() {
    state_changed_ = commander_changed_ = false;
    return std::exchange(records_, {});
  }

 private:
  const bool keeps_;
  // A new coordinator has written neither yet.
  bool state_changed_ = true;
  bool commander_changed_ = true;
  std::vector<JournalRecord> records_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_UNWRITTEN_RECORDS_H_
