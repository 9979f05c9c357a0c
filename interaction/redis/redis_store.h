// Keeps values in a Redis server: for runs on several machines, and for data that outlive a
// process.
//
//     <prefix>/data/3/1f       a string: header and value (value_format.h); or a list, if the value
//                              is larger than a part: head, part, part, ...
//     <prefix>/.tmp/<name>     a list that is being written. It is renamed when it is complete, and
//                              expires after an hour if its writer is killed
//     <prefix>/.store_id       written by the first process that opens the store
//
// URL: "redis:HOST:PORT/PREFIX", or "redis:HOST:PORT,HOST:PORT,.../PREFIX" for a ShardedStore over
// several servers. If Redis asks for a password, add the setting "password_file=/FILE"; for the
// password of a user of Redis' ACL, also "user=NAME". The password is not in the URL, because a URL
// is printed, logged, written to the run's folder and sent to all workers. The file must be on each
// machine, at the same path; only its first line counts. It is read again for each new connection:
// while the password is being changed, calls return kUnavailable, as while Redis is away.
//
// A Put that returned OK is as safe as the configuration of Redis makes it (docs/how_to/redis.md).
// Redis must not evict keys; each new connection checks that. If Redis comes back without its data,
// Get returns kNotFound. The message names the loss, which the store recognises by its id: the id
// is gone, or has changed.
//
// If a connection turns out to be closed, the call is repeated once with a new connection. There
// are no other retries: calls return kUnavailable, and the caller decides how long to retry.
//
// With "redis:" nothing is encrypted, so the network to Redis must be private. "rediss:" is the
// same with TLS; "tls_ca=/FILE" names the authority of Redis, and "tls_cert=/FILE" and
// "tls_key=/FILE" our certificate, if Redis asks for one (docs/how_to/redis.md).
//
// Threads: thread-safe, also across processes and machines. Calls beyond `max_connections` wait.
// Errors:  as Store, and
//   kUnauthenticated     of Create() only: Redis asks for a password, or refuses the one it was
//                        given
//   kPermissionDenied    Redis does not allow us a command
//   kFailedPrecondition  Redis evicts keys, or is part of a cluster
//   kInternal            Redis refuses a command unexpectedly
//
// Example:
//   RedisStore::Options options;
//   options.server.host = "10.0.0.7";
//   options.prefix = "run7";
//   DING_ASSIGN_OR_RETURN(auto store, RedisStore::Create(options));
#ifndef DING_WORKER_INTERACTION_REDIS_REDIS_STORE_H_
#define DING_WORKER_INTERACTION_REDIS_REDIS_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/interaction/redis/redis_connection.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

class RedisStore : public Store {
 public:
  // The largest part of a value. Redis accepts strings of up to 512 MiB, but serves no other client
  // while it receives one. Parts of 64 MiB take it twice as long as parts of this size.
  static constexpr int64_t kMaxPartBytes = int64_t{4} << 20;

  struct Options {
    RedisServerAddress server;
    std::string prefix;  // has the form of a store key
    int max_connections = 8;
    int64_t part_bytes = kMaxPartBytes;  // 1 to kMaxPartBytes
  };

  // Connects, and checks that the server is fit to keep data (CheckRedisServer()).
  //   kInvalidArgument  an option is out of range
  static absl::StatusOr<std::unique_ptr<RedisStore>> Create(const Options& options);

  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override;
  absl::Status Get(absl::string_view key, std::string* value) override;
  absl::Status Delete(absl::string_view key) override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) override;
  absl::Status Clear() override;
  absl::StatusOr<std::unique_ptr<Log>> OpenLog(const LogOptions& options) override;
  const std::string& url() const override { return url_; }

 private:
  using Work = std::function<absl::Status(RedisConnection* connection)>;

  explicit RedisStore(const Options& options);

  // Returns the name in Redis of a key of the store.
  std::string Name(absl::string_view key) const;
  // Runs `work` with a connection, and once more with a new one if the first turns out to be
  // closed.
  absl::Status Do(absl::string_view action, absl::string_view key, const Work& work);
  absl::Status OpenStore(RedisConnection* connection);
  absl::Status PutParts(absl::string_view name, absl::string_view header,
                        absl::Span<const absl::string_view> pieces, RedisConnection* connection);
  absl::Status GetOnce(absl::string_view name, RedisConnection* connection, std::string* value);
  absl::Status GetParts(absl::string_view name, RedisConnection* connection, std::string* value);
  // Returns the error for a key that does not exist, and says if Redis has lost its data.
  absl::Status Missing(absl::string_view key);
  // Calls `page` for all names in Redis that begin with `beginning`. Some names may come twice.
  absl::Status Scan(absl::string_view beginning, RedisConnection* connection,
                    const std::function<absl::Status(const RedisReply& names)>& page);

  const Options options_;
  const std::string url_;
  RedisPool pool_;
  std::string id_;                   // not changed after Create()
  std::atomic<int64_t> lost_at_{0};  // when the loss of data was first noticed, in Unix seconds
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_REDIS_REDIS_STORE_H_
