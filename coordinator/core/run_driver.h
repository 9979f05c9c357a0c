// Applies events to the state of a run, writes their records to the journal, and then carries out
// their effects.
//
//     Apply(event) ──► state ──► effects ─┐
//     Apply(event) ──► state ──► effects ─┴─► Commit(): Journal::Append, then send, delete, log
//
// If the journal cannot be written, the effects wait: call Commit() again, and apply only the end
// of the run meanwhile.
//
// Threads: thread-compatible. coordinator.cc calls it from one thread at a time.
#ifndef DING_WORKER_COORDINATOR_CORE_RUN_DRIVER_H_
#define DING_WORKER_COORDINATOR_CORE_RUN_DRIVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"

namespace ding {
namespace internal_coordinator {

class RunDriver {
 public:
  using Result = Outcome;

  // `parts` as for Coordinator::Create(); `now_nanos` is the time.
  RunDriver(const Coordinator::Options& options, Coordinator::Parts parts, int64_t now_nanos);

  // Continues the run in the journal, if there is one. Call it once, before any other function.
  // After an error the journal and the data are as before, and the driver changes neither.
  absl::Status Recover();

  // Applies the event at this time.
  Result Apply(int64_t now_nanos, Event* event);
  // Returns the workers whose data no longer wait, and the outcome for the data.
  std::vector<std::pair<uint32_t, absl::Status>> TakeHandled() {
    return std::exchange(state_.effects.handled, {});
  }
  // Writes the records; if this succeeds, carries out the effects. Otherwise the run pauses.
  absl::Status Commit(int64_t now_nanos);
  // OK, or why the run pauses.
  const absl::Status& paused() const { return paused_; }

  // Ends the run, even if it pauses. Unwritten rows are not acknowledged any more.
  void End(int64_t now_nanos, const std::string& reason);
  // As Coordinator::CloseJournal().
  absl::Status CloseJournal(int64_t now_nanos);
  void KeepData() { keeps_data_ = true; }
  // Forgets all rows, and has chunks and policies deleted unless KeepData() was called. Writes
  // nothing.
  void Close(int64_t now_nanos);

  RunState* mutable_state() { return &state_; }
  const RunState& state() const { return state_; }
  // Returns whether TimeToNextEvent() may have changed since the last call.
  bool TakeTimerChanged() { return std::exchange(state_.effects.timer_changed, false); }
  // Returns the keys that a worker that joins again left under its previous number.
  std::vector<std::string> PreviousKeys(const Hello& hello) const;

 private:
  void CarryOut();
  void EndReplaced(int64_t now_nanos, const absl::Status& why);

  const std::function<absl::StatusOr<std::vector<std::string>>(const std::string& prefix)>
      list_keys_;
  const DataDeleter delete_key_;
  CoordinatorSender* const sender_;
  Journal* journal_;  // null: there is none, or it is closed
  RunState state_;
  std::vector<JournalRecord> unwritten_;
  absl::Status paused_;
  absl::Status replaced_;  // an error if another coordinator has taken over the run
  bool keeps_data_ = false;
  std::map<int, int64_t> rare_lines_;  // the number of these lines, by Effects::Line::every
};

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_CORE_RUN_DRIVER_H_
