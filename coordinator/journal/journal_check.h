// Finds the readable records of a damaged journal file, and makes a journal of them: `ctl journal check` and `repair`.
//
//   CheckJournal ──► JournalReport: which bytes are whole records, what a resume finds in them
//   RepairJournal    a new file of the whole records ──► in the place of the old one, which is kept
//
// Records behind a damage may be taken or left. Taking them is sound: a push that is lost costs its
// rows; a removal that is lost lets rows come back whose data are gone, which a resume drops; of all
// else the last one counts, and tasks that seem to run have failed.
//
// Threads: thread-safe (pure functions).
// Errors:  name the file.
//   kFailedPrecondition  no journal, or of another version; RepairJournal: a process is using it
//   kInvalidArgument     not a regular file
//   kNotFound            there is none
//
// Example: worker/ctl_main.cc.
#ifndef DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_CHECK_H_
#define DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ding {

// A range of the file: whole records, or bytes that are not records.
struct JournalRange {
  enum class Kind { kWhole, kTorn, kDamaged };
  Kind kind = Kind::kWhole;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t records = 0;  // of kWhole
};

// The state with which a coordinator begins that continues from some of the records.
struct JournalSummary {
  // Why it cannot; OK: it can.
  absl::Status status;
  bool empty = false;  // Nothing has happened: it begins with nothing.
  int64_t rows = 0;    // of its buffers
  int64_t envstep = 0;
  int64_t train_iter = 0;
  uint64_t policy_version = 0;
  int64_t policies = 0;     // that are stored
  int64_t incarnation = 0;  // of the coordinator that wrote it
};

struct JournalReport {
  // Whether a part of the file is damaged or torn.
  bool whole() const;
  // Whether a resume refuses the file.
  bool damaged() const;
  int64_t records() const;
  // For a person.
  std::string ToString() const;

  std::string path;
  int64_t size_bytes = 0;
  std::vector<JournalRange> ranges;  // in order, without gaps; adjacent ones differ
  std::optional<int64_t> user;       // the process that is using it
  JournalSummary first;              // of the records before the first damage
  JournalSummary all;                // of all whole records
};

absl::StatusOr<JournalReport> CheckJournal(const std::string& path);

// Writes the whole records before the first damage, with `skip_damage` also those behind it, and
// keeps the old file as `<path>.damaged` or, if that is there, `<path>.damaged.2` and so on. Changes
// nothing if all is whole. Returns what it has done, for a person.
//   kFailedPrecondition  no resume could go on with what would be kept; nothing is changed
//   kResourceExhausted   the disk is full; nothing is changed
absl::StatusOr<std::string> RepairJournal(const std::string& path, bool skip_damage);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_CHECK_H_
