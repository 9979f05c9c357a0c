// One connection to a Redis server: a command is sent, its reply is read.
//
//     pieces ──sendmsg──► Redis        no copy: a value goes out of the memory where it lies, and
//     string ◄─recvmsg─── Redis        comes in to where it is wanted
//
// hiredis connects and reads all other replies. Its own way for values copies them twice, and reads
// 16 KiB at a time.
//
// Errors that Redis replies, for every call; the message has them word by word, and what to do:
//   kResourceExhausted   OOM: its maxmemory is full
//   kPermissionDenied    NOAUTH, WRONGPASS, NOPERM: it wants a password, or another one
//   kUnavailable         LOADING, READONLY, MISCONF, MASTERDOWN, NOREPLICAS, BUSY, TRYAGAIN,
//                        CLUSTERDOWN: it will be back, or somebody must look after it
//   kFailedPrecondition  WRONGTYPE: what lies there is no string, or no list
//   kInternal            any other
// Errors of the connection, which is broken then, and good for nothing else:
//   kUnavailable         it is closed; or what is there is no Redis
//   kDeadlineExceeded    no byte moved for `io_timeout`
//
// Ownership: closes its socket.
// Threads:   thread-compatible.
// Blocking:  every call, while bytes move; at most `io_timeout` while none do.
#ifndef DING_WORKER_INTERACTION_REDIS_REDIS_CONNECTION_H_
#define DING_WORKER_INTERACTION_REDIS_REDIS_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

struct redisContext;

namespace ding {

struct RedisServerAddress {
  std::string host;
  int port = 6379;
  std::string password;  // empty: none
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration io_timeout = absl::Seconds(10);
};

struct RedisReply {
  bool nil = false;
  std::string text;  // of a string or a status
  int64_t integer = 0;
  std::vector<RedisReply> elements;
};

class RedisConnection {
 public:
  // Connects, and gives the password, if there is one.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Open(const RedisServerAddress& server);
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;
  ~RedisConnection();

  // `args` begin with the command's name; `value`, if it has pieces, is one more, the last.
  absl::StatusOr<RedisReply> Call(absl::Span<const absl::string_view> args,
                                  absl::Span<const absl::string_view> value = {});

  // A command whose reply is one string: the first bytes go to `header`, the others to `value` from
  // `offset` on, which gets the size that this needs. How many others; nothing: there is none.
  //   kDataLoss   the string is shorter than the header, or has more than `max_bytes` others
  absl::StatusOr<std::optional<int64_t>> Get(absl::Span<const absl::string_view> args,
                                             int64_t max_bytes, absl::Span<char> header,
                                             size_t offset, std::string* value);

  bool broken() const { return broken_; }

 private:
  RedisConnection(redisContext* context, std::string name);

  absl::Status Send(absl::Span<const absl::string_view> args,
                    absl::Span<const absl::string_view> value);
  absl::StatusOr<RedisReply> ReadReply();
  // `error`: an errno, or kIoEnded.
  absl::Status Broken(int error, absl::string_view action);
  absl::Status NoRedis(absl::string_view found);

  redisContext* const context_;
  const std::string name_;  // HOST:PORT, for messages
  bool broken_ = false;
};

// Whether what we keep in that server stays there: no replica, no cluster, and it evicts nothing.
//   kUnavailable         it is loading its data, or a replica, which may become the master
//   kFailedPrecondition  it is of a cluster, or evicts keys when its maxmemory is full
absl::Status CheckRedisServer(RedisConnection* connection);

namespace internal_redis {

// The beginning of the reply to a command that is answered by a string.
struct StringReply {
  enum class Kind {
    kIncomplete,  // more bytes are needed
    kString,      // of `size` bytes, which follow
    kNil,
    kError,  // `error`
    kOther,  // not such a reply
  };
  Kind kind = Kind::kIncomplete;
  size_t line_bytes = 0;  // of the first line, with its end
  int64_t size = 0;
  absl::string_view error;  // of the bytes that were parsed
};
StringReply ParseStringReply(absl::string_view bytes);

// The status of an error that a server replied, "OOM command not allowed ...".
absl::Status StatusOfReply(absl::string_view error);

}  // namespace internal_redis
}  // namespace ding

#endif  // DING_WORKER_INTERACTION_REDIS_REDIS_CONNECTION_H_
