// Stores of values, the logs beside them, the names of values, and checks for implementations.
//
// A store holds bulk data that processes exchange, such as chunks of experience and versions of a
// policy. Messages carry only the keys.
//
//     writer ──Put──► store ◄──Get── readers          made by URL: create_store("file:/dev/shm/run")
//                       ▲
//                       └──Delete── the owner of the value
//
// Put is atomic, and a value never changes; putting a key again replaces it. Values are checked
// when they are read: Get returns the value that was put, or an error.
//
// Keys are relative paths of letters, digits, '.', '_' and '-', whose parts do not begin with '.';
// they have at most 200 bytes. Since keys arrive over the network, any other key is refused before
// it is used.
//
// The scheme of the URL selects the implementation (store_registry.h): "mem:" is memory of the
// process, "file:" a folder on tmpfs or on a file system that several machines share, and "redis:"
// a Redis server.
//
// Threads: a store is thread-safe, also across processes; a log is not (Log).
// Errors:  messages name the store and the key.
#ifndef DING_WORKER_INTERACTION_STORE_STORE_H_
#define DING_WORKER_INTERACTION_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

// When a commit is written to the disk, so that it survives a crash of the machine. Every commit
// survives a crash of the process.
enum class LogSync {
  kNone,  // when the operating system writes it
  kPeriodic,  // at most kLogSyncSeconds later, if commits go on; else when the operating system writes it
  kEvery,  // before Commit() returns
};
inline constexpr double kLogSyncSeconds = 1;

struct LogOptions {
  std::string run;  // the run of the log; the log of another run is refused
  // Whether it is an error if there is no log.
  bool must_exist = false;
  LogSync sync = LogSync::kPeriodic;
};

// A log: records with increasing indexes, and a snapshot of named parts. Each is a string of bytes.
//
//   Commit({append, remove, snapshot}) ──► [ 3 . 5 6 . 8 9 ]  +  {"state": bytes, ...}     all of a change, or nothing
//   Read() ◄── (3, bytes), (5, bytes), ...
//
// There is no compaction: an obsolete record is deleted in place, and a new part of the snapshot
// replaces the old one.
//
// One process at a time may write. Open() of an implementation either refuses the process if
// another one has the log open (SqliteLog: the file is locked), or begins a new epoch (RedisLog):
// the next call of the other process then returns kAborted, and changes nothing.
//
// Implementations: SqliteLog (coordinator/journal), RedisLog (interaction/redis), MemLog
// (coordinator/testing).
//
// Threads: thread-compatible.
// Errors:  every message names the log.
//   kResourceExhausted  there is no room; nothing was changed, and the call may be repeated
//   kUnavailable        it is not known whether the change was made. The next Commit() must repeat
//                       the same change; it is then made once
//   kAborted            another process has taken over this log; nothing can be written any more
//   kDataLoss           the log is damaged, or has lost a commit: begin it again by Change::anew
class Log {
 public:
  // An error ends the reading. If it is kDataLoss, the error of Read() says how to repair the log.
  using Visitor = std::function<absl::Status(int64_t index, absl::string_view record)>;
  using Snapshot = std::map<std::string, std::string>;  // by name

  struct Change {
    std::vector<absl::string_view> append;  // new records
    std::vector<int64_t> remove;            // indexes; missing ones are ignored
    // Parts that replace the parts of the same names; an empty part only removes the old one.
    std::vector<std::pair<absl::string_view, absl::string_view>> snapshot;
    // First deletes all records and parts.
    bool anew = false;
  };

  virtual ~Log() = default;

  // Makes the change atomically. Returns the index of the first new record; the others follow.
  virtual absl::StatusOr<int64_t> Commit(const Change& change) = 0;

  // Calls `visit` for each record in the order of indexes. `visit` must not call the log.
  virtual absl::Status Read(const Visitor& visit) = 0;

  virtual absl::StatusOr<Snapshot> ReadSnapshot() = 0;

  // Returns when all commits are on the disk.
  virtual absl::Status Sync() = 0;

  // The approximate size of the log.
  virtual int64_t size_bytes() = 0;
  // Whether the log can lose commits while it is open. Its user must then be able to begin it anew.
  virtual bool may_lose() const { return false; }
};

class Store {
 public:
  virtual ~Store() = default;

  // Stores the pieces, one after the other, as the value of `key`. A failure leaves the old value.
  //   kResourceExhausted  the store is full
  //   kUnavailable        the store is gone or cannot be written now; worth a retry
  //   kInvalidArgument    `key` is not a key, or the value has more than kMaxValueBytes
  virtual absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) = 0;

  // Replaces the content of `value`. Its memory is reused, so reading into the same string costs no
  // page faults. After an error the content of `value` is undefined.
  //   kNotFound        there is no such key
  //   kDataLoss        the value is damaged: truncated, or its checksum does not match
  //   kUnavailable     the store is gone or cannot be read now; worth a retry
  //   kInvalidArgument `key` is not a key
  virtual absl::Status Get(absl::string_view key, std::string* value) = 0;

  // Deletes the value of `key`. Returns OK if there is none. Reads that have begun are not
  // disturbed.
  virtual absl::Status Delete(absl::string_view key) = 0;

  // Returns the keys that begin with `prefix`, sorted. It is meant for cleaning up, not for the hot
  // path.
  virtual absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) = 0;

  // Deletes all values and the store's own data. The store must not be used afterwards.
  virtual absl::Status Clear() = 0;

  // Opens the log beside the values, or makes it. Clear() deletes it, too. Has the errors of
  // RedisLog::Open(), and
  //   kFailedPrecondition  this kind of store has no log
  virtual absl::StatusOr<std::unique_ptr<Log>> OpenLog(const LogOptions& options);

  // The URL with which the store was made: "file:/dev/shm/run".
  virtual const std::string& url() const = 0;
};

// The meaning of an error of Get() or Put(). IsLost(): the value is gone or is not the one that was
// put; putting it again repairs that. WorthTryingAgain(): the store may work again in a moment.
inline bool IsLost(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) ||
         absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
}
inline bool WorthTryingAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

// The size of the largest value, in bytes.
inline constexpr int64_t kMaxValueBytes = int64_t{1} << 32;

// Returns OK if `key` is a valid key, else kInvalidArgument with a message that quotes it.
absl::Status CheckStoreKey(absl::string_view key);

// Returns the number of a chunk that a worker puts into the store. `worker` is the number that the
// coordinator gave the worker when it joined (Welcome), below 2^31. `sequence` counts the chunks of
// the worker. So no two chunks have the same number, and a repeated announcement is recognised.
inline int64_t ChunkNumber(uint32_t worker, uint32_t sequence) {
  return static_cast<int64_t>(worker) << 32 | sequence;
}
inline uint32_t WorkerOfChunk(int64_t chunk) { return static_cast<uint32_t>(chunk >> 32); }

// Returns the key of a chunk: "data/<worker>/<sequence>", with both numbers in hexadecimal.
inline std::string ChunkKey(int64_t chunk) {
  return absl::StrCat("data/", absl::Hex(WorkerOfChunk(chunk)), "/",
                      absl::Hex(static_cast<uint32_t>(chunk)));
}
// Returns the key of a version of a policy. It contains the number of the learner, so a learner
// that does not know yet that it was replaced does not overwrite the policies of its successor.
inline std::string PolicyKey(absl::string_view policy_id, uint64_t version, uint32_t worker) {
  return absl::StrCat("policy/", policy_id, "/", version, "-", absl::Hex(worker));
}

// The checks that every implementation of Store makes first.

// Does the same as CheckStoreKey(), and adds the store's URL to the message.
absl::Status CheckKey(const Store& store, absl::string_view key);

// Returns the size of the value, or kInvalidArgument as Store::Put() must.
absl::StatusOr<int64_t> CheckPut(const Store& store, absl::string_view key,
                                 absl::Span<const absl::string_view> pieces);

// Returns the kNotFound of Store::Get().
absl::Status NoSuchKey(const Store& store, absl::string_view key);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_STORE_H_
