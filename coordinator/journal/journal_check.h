// Finds the readable records of a damaged journal file, and makes a journal of them, for `ctl
// journal check` and `repair`.
//
//   CheckJournal ──► JournalReport: SQLite's check, the whole records, the state after a resume
//   RepairJournal    a new file of the whole records ──► replaces the old file, which is kept
//
// Both read a copy, so that the file does not change. A run may safely continue without lost
// records: a lost push only costs its rows. A lost removal brings back rows without data, which a
// resume drops. Of all other records only the last one counts, and running tasks count as failed.
//
// Threads: thread-safe (pure functions).
// Errors:  every message names the file.
//   kFailedPrecondition  the file is not a journal, or has another version; RepairJournal(): a
//                        process is using it
//   kInvalidArgument     the path is not a regular file
//   kNotFound            there is no file
//   kDataLoss            the beginning of the file is damaged, so that nothing can be read
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

// The state with which a coordinator would resume from some of the records.
struct JournalSummary {
  // OK if a coordinator can resume from the records, or why it cannot.
  absl::Status status;
  bool empty = false;  // whether nothing has happened yet
  int64_t rows = 0;    // in all buffers
  int64_t envstep = 0;
  int64_t train_iter = 0;
  uint64_t policy_version = 0;
  int64_t policies = 0;     // the number of stored versions
  int64_t incarnation = 0;  // of the coordinator that wrote the records
};

struct JournalReport {
  // Whether the file is undamaged. A resume refuses a damaged file.
  bool whole() const { return damage.empty() && damaged_places == 0; }
  // Returns the report as text for people.
  std::string ToString() const;

  std::string path;
  int64_t size_bytes = 0;       // with the -wal file beside it
  std::string damage;           // to the structure of the file, as SQLite describes it
  int64_t records = 0;          // that are whole
  int64_t damaged_places = 0;   // where one or more records cannot be read, or are no records
  std::optional<int64_t> user;  // the process that is using it
  JournalSummary summary;       // the state after all whole records
};

absl::StatusOr<JournalReport> CheckJournal(const std::string& path);

// Writes a new file with the whole records. Keeps the old file as `<path>.damaged` or, if that
// exists, `<path>.damaged.2` and so on. Changes nothing if the file is intact. Returns a
// description of the repair, for people.
//   kFailedPrecondition  a run could not be resumed from the whole records; nothing is changed
//   kResourceExhausted   the disk is full; nothing is changed
absl::StatusOr<std::string> RepairJournal(const std::string& path);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_CHECK_H_
