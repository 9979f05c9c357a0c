#include "ding_worker/coordinator/core/run_driver.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"

namespace ding {
namespace internal_coordinator {
RunDriver::RunDriver(const Coordinator::Options& options, Coordinator::Parts parts,
                     int64_t now_nanos)
    : list_keys_(std::move(parts.list_keys)),
      delete_key_(std::move(parts.delete_key)),
      sender_(parts.sender),
      journal_(parts.journal),
      state_(options, &parts, now_nanos) {}

absl::Status RunDriver::Recover() {
  if (journal_ == nullptr) return absl::OkStatus();
  absl::Status status = internal_coordinator::Recover(*journal_, list_keys_, &state_);
  if (status.ok()) status = Commit(state_.now());
  if (status.ok() && state_.incarnation > 1) status = journal_->Sync();
  if (status.ok()) return status;
  // The journal keeps its state: a run that has just begun must not replace it.
  journal_ = nullptr;
  keeps_data_ = true;
  state_.effects = {};
  unwritten_.clear();
  return status;
}

RunDriver::Result RunDriver::Apply(int64_t now_nanos, Event* event) {
  event->set_nanos(now_nanos);
  return internal_coordinator::Apply(*event, &state_);
}

absl::Status RunDriver::Commit(int64_t now_nanos) {
  for (JournalRecord& record : TakeRecords(&state_)) unwritten_.push_back(std::move(record));
  if (journal_ != nullptr && replaced_.ok() && !unwritten_.empty()) {
    const absl::Status written = journal_->Append(unwritten_);
    if (absl::IsAborted(written)) {
      EndReplaced(now_nanos, written);
    } else if (!written.ok()) {
      DING_LOG_IF(WARNING, paused_.ok())
          << "the run pauses, because its journal cannot be written: " << written.message();
      paused_ = written;
      return written;
    }
  }
  DING_LOG_IF(INFO, !paused_.ok()) << "the journal can be written again, and the run goes on";
  paused_ = absl::OkStatus();
  unwritten_.clear();
  CarryOut();
  return absl::OkStatus();
}

// Another coordinator goes on with the run, and workers join it. So this one sends and deletes
// nothing more: the rows of the other coordinator may need all data.
void RunDriver::EndReplaced(int64_t now_nanos, const absl::Status& why) {
  replaced_ = why;
  Event end;
  end.set_nanos(now_nanos);
  end.mutable_end()->set_code(static_cast<int>(why.code()));
  end.mutable_end()->set_message(std::string(why.message()));
  end.mutable_end()->set_reason("another coordinator goes on with it");
  internal_coordinator::Apply(end, &state_);
}

void RunDriver::CarryOut() {
  Effects& effects = state_.effects;
  for (const auto& [worker, message] : effects.messages) {
    if (replaced_.ok()) sender_->Send(worker, message);
  }
  effects.messages.clear();
  for (const std::string& key : effects.deleted) {
    if (replaced_.ok()) delete_key_(key).IgnoreError();  // UsedDataRemover notes errors.
  }
  effects.deleted.clear();
  for (const Effects::Line& line : std::exchange(effects.lines, {})) {
    if (line.every > 1 && rare_lines_[line.every]++ % line.every != 0) continue;
    if (line.severity == LogSeverity::kInfo) {
      DING_LOG_EVENT(INFO, line.event) << line.text;
    } else {
      DING_LOG_EVENT(WARNING, line.event) << line.text;
    }
  }
}

void RunDriver::End(int64_t now_nanos, const std::string& reason) {
  if (!paused_.ok()) state_.effects.messages.clear();
  Event end;
  end.set_nanos(now_nanos);
  end.mutable_end()->set_reason(reason);
  internal_coordinator::Apply(end, &state_);
  if (paused_.ok()) return;
  for (const auto& [worker, message] : std::exchange(state_.effects.messages, {})) {
    sender_->Send(worker, message);
  }
}

absl::Status RunDriver::CloseJournal(int64_t now_nanos) {
  absl::Status closed = replaced_;
  // It has what changes without a record of its own, too: time, and the rows that were drawn.
  state_.records.NoteState();
  if (closed.ok() && journal_ != nullptr) closed = Commit(now_nanos);
  if (closed.ok()) closed = replaced_;
  if (closed.ok() && journal_ != nullptr) closed = journal_->Sync();
  if (!absl::IsUnavailable(closed)) journal_ = nullptr;
  return closed;
}

void RunDriver::Close(int64_t now_nanos) {
  journal_ = nullptr;
  state_.clock.Set(now_nanos);
  Forget(keeps_data_ || !replaced_.ok(), &state_);
  Commit(now_nanos).IgnoreError();  // There is no journal that could fail.
}

std::vector<std::string> RunDriver::PreviousKeys(const Hello& hello) const {
  // A worker that was lost in this incarnation of the coordinator has left nothing behind.
  if (hello.previous_worker() == 0 || hello.previous_incarnation() >= state_.incarnation) return {};
  if (list_keys_ == nullptr) return {};
  // A power loss may make the journal forget a number. Then it may belong to another worker now.
  if (state_.workers.MayHaveGiven(hello.previous_worker())) return {};
  const std::string number = absl::StrCat(absl::Hex(hello.previous_worker()));
  const bool learns = hello.role() == Hello::LEARNER;
  absl::StatusOr<std::vector<std::string>> keys = CallUser("list_keys", [&] {
    return list_keys_(learns ? kPolicyPrefix : absl::StrCat(kDataPrefix, number, "/"));
  });
  if (!keys.ok()) {
    DING_LOG(WARNING) << "cannot list the keys of the store: " << keys.status().message();
    return {};
  }
  if (!learns) return *std::move(keys);
  std::vector<std::string> own;
  for (std::string& key : *keys) {
    if (absl::EndsWith(key, absl::StrCat("-", number))) own.push_back(std::move(key));
  }
  return own;
}

}  // namespace internal_coordinator
}  // namespace ding
