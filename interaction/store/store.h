// A store holds bulk data that processes exchange, such as chunks of experience and versions of a
// policy. Messages carry only the keys.
//
//     writer ──Put──► store ◄──Get── readers          made by URL: create_store("file:/dev/shm/run")
//                       ▲
//                       └──Delete── the process that decides that nobody needs the value
//
// A value appears as a whole or not at all, and never changes; putting a key again replaces it.
// Values are checked when they are read: Get returns what was put, or an error.
//
// Keys are relative paths of letters, digits, '.', '_' and '-', whose parts do not begin with '.'; they
// have at most 200 bytes. Since keys arrive over the network, any other key is refused before it is
// used.
//
// The scheme of the URL selects the implementation (store_registry.h): "mem:" is memory of the process,
// "file:" a folder on tmpfs or on a file system that several machines share, and "redis:" a Redis
// server.
//
// Threads: thread-safe, also across processes.
// Errors:  messages name the store and the key.
#ifndef DING_WORKER_INTERACTION_STORE_STORE_H_
#define DING_WORKER_INTERACTION_STORE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/interaction/store/log.h"

namespace ding {

class Store {
 public:
  virtual ~Store() = default;

  // Stores the pieces, one after the other, as the value of `key`. A failure leaves the old value.
  //   kResourceExhausted  the store is full
  //   kUnavailable        the store is gone or cannot be written now; worth trying again
  //   kInvalidArgument    `key` is not a key, or the value has more than kMaxValueBytes
  virtual absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) = 0;

  // Replaces the content of `value`. Its memory is reused, so reading into the same string costs no page
  // faults. After an error, `value` has any content.
  //   kNotFound        there is no such key
  //   kDataLoss        the value is damaged: truncated, or its checksum does not match
  //   kUnavailable     the store is gone or cannot be read now; worth trying again
  //   kInvalidArgument `key` is not a key
  virtual absl::Status Get(absl::string_view key, std::string* value) = 0;

  // Deletes the value of `key`. Returns OK if there is none. Reads that have begun are not disturbed.
  virtual absl::Status Delete(absl::string_view key) = 0;

  // Returns the keys that begin with `prefix`, sorted. It is meant for cleaning up, not for the hot path.
  virtual absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) = 0;

  // Deletes all values and everything that the store itself has left. Nobody may use the store any more.
  virtual absl::Status Clear() = 0;

  // Opens the log that lies beside the values, or makes it. Clear() deletes it, too. The errors of RedisLog::Open(), or
  //   kFailedPrecondition  this kind of store has none
  virtual absl::StatusOr<std::unique_ptr<Log>> OpenLog(const LogOptions& options);

  // The URL with which the store was made: "file:/dev/shm/run".
  virtual const std::string& url() const = 0;
};

// The size of the largest value.
inline constexpr int64_t kMaxValueBytes = int64_t{1} << 32;

// Returns OK if `key` is a valid key, else kInvalidArgument with a message that quotes it.
absl::Status CheckStoreKey(absl::string_view key);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_STORE_H_
