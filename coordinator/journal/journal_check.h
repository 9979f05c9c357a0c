// Finds the readable records of a damaged journal file, and makes a journal of them, for `ctl
// journal check` and `repair`.
//
//   CheckJournal ──► JournalReport: what SQLite says of the file, which records are whole, what a resume finds in them
//   RepairJournal    a new file of the whole records ──► in the place of the old one, which is kept
//
// Both read a copy, so that the file stays as it is. It is safe to go on without a record that was
// lost: a lost push only costs its rows. After a lost removal, rows come back whose data are gone,
// and a resume drops these. Of all other records the last one counts, and tasks that seem to run
// count as failed.
//
// Threads: thread-safe (pure functions).
// Errors:  every message names the file.
//   kFailedPrecondition  the file is not a journal, or has another version; RepairJournal(): a
//                        process is using it
//   kInvalidArgument     the path is not a regular file
//   kNotFound            there is no file
//   kDataLoss            the beginning of the file is damaged, so that nothing of it can be read
//
// Example: worker/ctl_main.cc.
#ifndef DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_CHECK_H_
#define DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ding {

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
  // Whether nothing is damaged. A resume refuses the file if something is.
  bool whole() const { return damage.empty() && damaged_places == 0; }
  // Returns the report as text for people.
  std::string ToString() const;

  std::string path;
  int64_t size_bytes = 0;       // with what is beside the file until it is closed
  std::string damage;           // to the structure of the file, as SQLite describes it
  int64_t records = 0;          // that are whole
  int64_t damaged_places = 0;   // where one or more records cannot be read, or are no records
  std::optional<int64_t> user;  // the process that is using it
  JournalSummary summary;       // the state after all whole records
};

absl::StatusOr<JournalReport> CheckJournal(const std::string& path);

// Writes a new file with the whole records. Keeps the old file as `<path>.damaged` or, if that
// exists, `<path>.damaged.2` and so on. Changes nothing if the whole file is intact. Returns a
// description, for people, of what was done.
//   kFailedPrecondition  a run could not be resumed from the records that would be kept; nothing is
//                        changed
//   kResourceExhausted   the disk is full; nothing is changed
absl::StatusOr<std::string> RepairJournal(const std::string& path);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_CHECK_H_
