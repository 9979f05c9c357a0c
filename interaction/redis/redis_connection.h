// One connection to a Redis server: it sends a command and reads the reply.
//
//     pieces ──sendmsg──► Redis        no copy: a value is sent from the caller's memory, and
//     string ◄─recvmsg─── Redis        received into the caller's string
//
// hiredis connects, and parses all replies other than values. It would copy values twice, and read
// them 16 KiB at a time. With TLS (RedisSocket), bytes go through OpenSSL, which copies them.
//
// Errors that Redis replies, for every call; the message quotes the reply and says what to do:
//   kResourceExhausted   OOM: its maxmemory is full
//   kUnauthenticated     NOAUTH, WRONGPASS, ERR AUTH: it asks for a password, or refuses ours, or
//                        our file has none; or one side does not accept the other in TLS. The
//                        command was not carried out, and the connection is broken
//   kUnavailable         LOADING, READONLY, MISCONF, MASTERDOWN, NOREPLICAS, BUSY, TRYAGAIN,
//                        CLUSTERDOWN, too many clients, a key that vanished: it will recover, or an
//                        operator must look after it
//   kPermissionDenied    NOPERM, DENIED: it does not allow us the command, or the connection
//   kFailedPrecondition  WRONGTYPE: the key holds a value of another type
//   kInternal            any other error, such as an unknown command
// The errors before kPermissionDenied are worth a retry, the others are not.
// Errors of the connection. It is broken after them, and must not be used again:
//   kUnavailable         it is closed, or the server is not Redis
//   kDeadlineExceeded    no byte was transferred for `io_timeout`
//
// Ownership: closes its socket.
// Threads:   thread-compatible.
// Blocking:  every call blocks while bytes are transferred, and at most `io_timeout` while none
//            are.
#ifndef DING_WORKER_INTERACTION_REDIS_REDIS_CONNECTION_H_
#define DING_WORKER_INTERACTION_REDIS_REDIS_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/redis/redis_socket.h"

struct redisContext;

namespace ding {

struct RedisServerAddress {
  std::string host;
  int port = 6379;
  // The file whose first line is the password. It is read for each new connection, because
  // passwords are changed from time to time. Empty: the server asks for none.
  std::string password_file;
  std::string user;  // of Redis' ACL, whose password is in the file; empty: "default"
  RedisTlsFiles tls;
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration io_timeout = absl::Seconds(10);
};

struct RedisReply {
  bool nil = false;
  std::string text;  // the value of a string or a status
  int64_t integer = 0;
  std::vector<RedisReply> elements;
};

class RedisConnection {
 public:
  // Connects, with TLS if `server` has its files, and authenticates if it has a password file.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Open(const RedisServerAddress& server);
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;
  ~RedisConnection();

  // Sends a command and returns its reply. `args` begin with the command's name; the pieces of
  // `value`, if there are any, are sent together as one last argument.
  absl::StatusOr<RedisReply> Call(absl::Span<const absl::string_view> args,
                                  absl::Span<const absl::string_view> value = {});

  // Sends a command whose reply is one string. Its first bytes go to `header`, and the rest goes to
  // `value` from `offset` on; `value` is resized to end with them. Returns the size of the rest, or
  // nothing if Redis has no such string.
  //   kDataLoss   the string is shorter than the header, or its rest has more than `max_bytes`
  //               bytes
  absl::StatusOr<std::optional<int64_t>> Get(absl::Span<const absl::string_view> args,
                                             int64_t max_bytes, absl::Span<char> header,
                                             size_t offset, std::string* value);

  bool broken() const { return broken_; }

 private:
  RedisConnection(redisContext* context, std::string name);

  absl::Status Send(absl::Span<const absl::string_view> args,
                    absl::Span<const absl::string_view> value);
  // Receives at least one byte, and returns the number.
  absl::StatusOr<size_t> Receive(char* to, size_t size);
  absl::StatusOr<RedisReply> ReadReply();
  // Marks the connection as broken. `error` is an errno or kIoEnded.
  absl::Status Broken(int error, absl::string_view action);
  absl::Status NoRedis(absl::string_view found);
  // Returns `replied`. If it is an error after which the connection must not be used again, marks
  // the connection as broken.
  absl::Status Noted(absl::Status replied);

  redisContext* const context_;
  const std::string name_;  // HOST:PORT, for messages
  RedisSocket socket_;
  std::string no_answer_;  // why it may have closed the connection; empty once it has answered
  bool broken_ = false;
};

// The commands that a store and its log use, as rules of a user of Redis.
inline constexpr char kRedisUserRules[] =
    "+info +get +set +unlink +scan +type +lindex +rpush +expire +persist +rename +multi +exec "
    "+discard +eval +hmget +hset +hdel +hgetall +exists +del +xadd +xdel +xrange +memory|usage";

// Returns the first line of the file, which only its owner may access.
absl::StatusOr<std::string> ReadRedisPassword(const std::string& path);

// Checks that the server keeps its data: it is no replica, not part of a cluster, and evicts no
// keys.
//   kUnavailable         it is loading its data, or is a replica, which may become the master
//   kFailedPrecondition  it is part of a cluster, or evicts keys when its maxmemory is full
absl::Status CheckRedisServer(RedisConnection* connection);

namespace internal_redis {

// The parsed beginning of the reply to a command that Redis answers with a string.
struct StringReply {
  enum class Kind {
    kIncomplete,  // more bytes are needed
    kString,      // a string of `size` bytes follows
    kNil,
    kError,  // Redis replied `error`
    kOther,  // not a reply to such a command
  };
  Kind kind = Kind::kIncomplete;
  size_t line_bytes = 0;  // the size of the first line, with its end
  int64_t size = 0;
  absl::string_view error;  // points into the parsed bytes
};
StringReply ParseStringReply(absl::string_view bytes);

// Converts an error that a server replied, such as "OOM command not allowed ...", to a status.
absl::Status StatusOfReply(absl::string_view error);

}  // namespace internal_redis

// The connections of a store to one Redis server. Each thread that is in a call has one, up to a
// bound; they stay open between calls.
//
// Ownership: owns the connections that are not taken.
// Threads:   thread-safe.
// Blocking:  Take() connects, or waits until a connection is returned.
class RedisPool {
 public:
  struct Taken {
    std::unique_ptr<RedisConnection> connection;
    bool is_new = false;  // Take() has just connected and checked it
  };

  // `max_connections` is at least 1.
  RedisPool(RedisServerAddress server, int max_connections);

  // Takes a connection that is not in use, or opens a new one.
  //   kUnavailable  all connections were in use for the server's io_timeout
  //   others        the errors of RedisConnection::Open() and CheckRedisServer()
  absl::StatusOr<Taken> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns a connection of Take(). If it is broken, the idle connections are closed as well,
  // because the server may have been restarted.
  void Return(std::unique_ptr<RedisConnection> connection) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const RedisServerAddress server_;
  const int max_connections_;
  Mutex mutex_;
  CondVar returned_;
  int in_use_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<RedisConnection>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_REDIS_REDIS_CONNECTION_H_
