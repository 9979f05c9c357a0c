// Finds the readable records of a damaged journal file, and makes a journal of them, for `ctl journal check` and `repair`.
//
//   CheckJournal ──► JournalReport: which bytes are whole records, what a resume finds in them
//   RepairJournal    a new file of the whole records ──► in the place of the old one, which is kept
//
// The records behind a damage may be kept or dropped. It is safe to keep them. A lost push only costs its rows. After a
// lost removal, rows come back whose data are gone, and a resume drops these. Of all other records the last one counts,
// and tasks that seem to run count as failed.
//
// Threads: thread-safe (pure functions).
// Errors:  every message names the file.
//   kFailedPrecondition  the file is not a journal, or has another version; RepairJournal(): a process is using it
//   kInvalidArgument     the path is not a regular file
//   kNotFound            there is no file
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
  int64_t records = 0;  // the number of records, for kWhole
};

// The state with which a coordinator would begin that resumes the run from some of the records.
struct JournalSummary {
  // OK if a coordinator can resume from the records, or why it cannot.
  absl::Status status;
  bool empty = false;  // whether nothing has happened yet
  int64_t rows = 0;    // in all buffers
  int64_t envstep = 0;
  int64_t train_iter = 0;
  uint64_t policy_version = 0;
  int64_t policies = 0;     // the number of stored versions
  int64_t incarnation = 0;  // that of the coordinator that wrote the records
};

struct JournalReport {
  // Whether no part of the file is damaged or torn.
  bool whole() const;
  // Whether a resume refuses the file.
  bool damaged() const;
  int64_t records() const;
  // Returns the report as text for people.
  std::string ToString() const;

  std::string path;
  int64_t size_bytes = 0;
  std::vector<JournalRange> ranges;  // in order, without gaps; adjacent ones differ
  std::optional<int64_t> user;       // the process that is using it
  JournalSummary first;              // the state after the records before the first damage
  JournalSummary all;                // the state after all whole records
};

absl::StatusOr<JournalReport> CheckJournal(const std::string& path);

// Writes a new file with the whole records before the first damage and, with `skip_damage`, those behind it. Keeps the old
// file as `<path>.damaged` or, if that exists, `<path>.damaged.2` and so on. Changes nothing if the whole file is intact.
// Returns a description, for people, of what was done.
//   kFailedPrecondition  a run could not be resumed from the records that would be kept; nothing is changed
//   kResourceExhausted   the disk is full; nothing is changed
absl::StatusOr<std::string> RepairJournal(const std::string& path, bool skip_damage);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_CHECK_H_
