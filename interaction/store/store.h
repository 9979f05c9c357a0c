// Where processes leave bulk data for each other: chunks of experience, versions of a policy. What
// travels by messages is only the key.
//
//     writer ──Put──► store ◄──Get── readers          made by URL: create_store("file:/dev/shm/run")
//                       ▲
//                       └──Delete── whoever decides that nobody needs it
//
// A value appears as a whole or not at all, and never changes; putting a key again replaces it.
// Values are checked when they are read: what comes back is what was put, or an error.
//
// Keys are relative paths of letters, digits, '.', '_' and '-', whose parts do not begin with '.';
// at most 200 bytes. They come over the wire, so that everything else is refused before it touches
// anything.
//
// Implementations by scheme (store_registry.h): "mem:" within the process, "file:" a folder: tmpfs,
// or a file system that several machines share.
//
// Threads: thread-safe, also across processes.
// Errors:  name the store and the key.
#ifndef DING_WORKER_INTERACTION_STORE_STORE_H_
#define DING_WORKER_INTERACTION_STORE_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

class Store {
 public:
  virtual ~Store() = default;

  // Stores the pieces, one after the other, under `key`. A failure leaves what was there.
  //   kResourceExhausted  the store is full
  //   kUnavailable        it is gone or cannot be written now; worth trying again
  //   kInvalidArgument    not a key, or more than kMaxValueBytes
  virtual absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) = 0;

  // Replaces the content of `value`, whose memory is used again: reading into the same string costs
  // no page faults. After an error it is anything.
  //   kNotFound        there is no such key
  //   kDataLoss        it is damaged: truncated, or its checksum is another
  //   kUnavailable     the store is gone or cannot be read now; worth trying again
  //   kInvalidArgument not a key
  virtual absl::Status Get(absl::string_view key, std::string* value) = 0;

  // OK if there is nothing under `key`. Readers that have begun go on.
  virtual absl::Status Delete(absl::string_view key) = 0;

  // The keys that begin with `prefix`, sorted: to clean up, not for the hot path.
  virtual absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) = 0;

  // Deletes everything, and what the store itself left: nobody uses it any more.
  virtual absl::Status Clear() = 0;

  // As it was asked for: "file:/dev/shm/run".
  virtual const std::string& url() const = 0;
};

// The largest value.
inline constexpr int64_t kMaxValueBytes = int64_t{1} << 32;

// OK if `key` is one; else kInvalidArgument that quotes it.
absl::Status CheckStoreKey(absl::string_view key);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_STORE_H_
