// A log: records with increasing indexes, and a snapshot of named parts. Each is a string of bytes.
//
//   Commit({append, remove, snapshot}) ──► [ 3 . 5 6 . 8 9 ]  +  {"state": bytes, ...}     all of a change, or nothing
//   Read() ◄── (3, bytes), (5, bytes), ...
//
// Nothing is ever copied: a record that is not needed any more is deleted where it lies, and a part of the snapshot takes
// the place of the one before.
//
// One process at a time may write. Open() of an implementation either refuses the process if another one has the log open
// (SqliteLog: the file is locked), or begins a new epoch (RedisLog): the next call of the other process then returns
// kAborted, and changes nothing.
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
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

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
  // An error ends the reading. If it is kDataLoss, Read() says how to repair the log.
  using Visitor = std::function<absl::Status(int64_t index, absl::string_view record)>;
  using Snapshot = std::map<std::string, std::string>;  // by name

  struct Change {
    std::vector<absl::string_view> append;  // new records
    std::vector<int64_t> remove;            // indexes; those that are not there are ignored
    // Parts that take the place of those of the same name; an empty one only removes that.
    std::vector<std::pair<absl::string_view, absl::string_view>> snapshot;
    // First deletes everything that is there.
    bool anew = false;
  };

  virtual ~Log() = default;

  // Makes all of the change or, after an error, nothing of it. Returns the index of the first new record; the others follow.
  virtual absl::StatusOr<int64_t> Commit(const Change& change) = 0;

  // Calls `visit` for each record in the order of indexes. `visit` must not call the log.
  virtual absl::Status Read(const Visitor& visit) = 0;

  virtual absl::StatusOr<Snapshot> ReadSnapshot() = 0;

  // Returns when everything that was committed is on the disk.
  virtual absl::Status Sync() = 0;

  // About the space that it takes.
  virtual int64_t size_bytes() = 0;
  // Whether it can lose something that was committed while it is open, so that who uses it must be able to begin it anew.
  virtual bool may_lose() const { return false; }
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_LOG_H_
