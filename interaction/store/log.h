// A log of records, each a string of bytes with an index of its own. Indexes increase and none is given twice, also after
// records were deleted. A record is never copied: what is not needed any more is deleted where it lies.
//
//   Commit({append, remove, snapshot}) ──► [ 3 . 5 6 . 8 9 ]  +  snapshot     all of a change, or nothing
//   Read(from) ◄── (3, bytes), (5, bytes), ...
//
// One process at a time may write. Each Open() of an implementation begins a new epoch, and either refuses the process if
// another one has the log open (SqliteLog: the file is locked), or ends the epoch of that one (RedisLog): its next call
// returns kAborted, and changes nothing.
//
// Implementations: SqliteLog (coordinator/log), RedisLog (interaction/redis), MemLog (coordinator/testing).
//
// Threads: thread-compatible.
// Errors:  every message names the log.
//   kResourceExhausted  there is no room; nothing was changed, and the call may be repeated
//   kUnavailable        it is not known whether the change was made. The next Commit() must have the same change: then it is
//                       made once
//   kAborted            another process has taken over this log, and nothing can be written any more
//   kDataLoss           the log is damaged, or has lost something that was committed: `anew` begins it again
#ifndef DING_WORKER_INTERACTION_STORE_LOG_H_
#define DING_WORKER_INTERACTION_STORE_LOG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

// When what was committed is on the disk, and survives the end of the machine. It survives the end of the process at once.
enum class LogSync {
  kNone,  // when the operating system writes it
  kPeriodic,  // at most kLogSyncSeconds later, if commits go on; else when the operating system writes it
  kEvery,  // before Commit() returns
};
inline constexpr double kLogSyncSeconds = 1;

struct LogOptions {
  std::string run;  // to which the log belongs; the log of another run is refused
  // Whether it is an error if there is no log.
  bool must_exist = false;
  LogSync sync = LogSync::kPeriodic;
};

class Log {
 public:
  using Visitor = std::function<absl::Status(int64_t index, absl::string_view record)>;

  struct Change {
    std::vector<absl::string_view> append;  // new records
    std::vector<int64_t> remove;            // indexes; those that are not there are ignored
    int64_t remove_below = 0;               // all records with a smaller index, too
    // Takes the place of the snapshot.
    std::optional<std::vector<absl::string_view>> snapshot;
    // First deletes everything that is there.
    bool anew = false;
  };

  virtual ~Log() = default;

  // Makes all of the change or, after an error, nothing of it. Returns the index of the first new record; the others follow.
  virtual absl::StatusOr<int64_t> Commit(const Change& change) = 0;

  // Calls `visit` for each record from index `from` on, in their order, until a call returns an error. `visit` must not call
  // the log.
  virtual absl::Status Read(int64_t from, const Visitor& visit) = 0;

  // Returns the parts of the snapshot; none if there was none.
  virtual absl::StatusOr<std::vector<std::string>> ReadSnapshot() = 0;

  // Returns when everything that was committed is on the disk.
  virtual absl::Status Sync() = 0;

  // About the space that it takes.
  virtual int64_t size_bytes() = 0;
  // How often it was opened.
  virtual int64_t epoch() const = 0;
  // Whether it can lose something that was committed while it is open, so that who uses it must be able to begin it anew.
  virtual bool may_lose() const { return false; }
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_LOG_H_
