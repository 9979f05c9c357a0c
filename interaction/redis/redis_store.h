// Values in a Redis server: for runs of several machines, and for data that outlive a process.
//
//     <prefix>/data/3/1f       a string: header and value (value_format.h); or a list, if it is
//                              larger than a part: head, part, part, ...
//     <prefix>/.tmp/<name>     a list that is being written; renamed when it is whole, and gone
//                              after an hour if its writer is killed
//     <prefix>/.store_id       made by the first who opens the store
//
// URL: "redis:HOST:PORT/PREFIX", with the setting "password_file=/FILE" if Redis wants a password.
// The password stands in a file, not in the URL: a URL is printed, logged, written to the run's
// folder and told to all workers. The file must be on each machine, at the same place; only its
// first line counts. It is read when the store is opened.
//
// A Put that returned OK is as safe as Redis is told to keep it (docs/parallel.md). Redis must not
// evict keys; it is asked whenever a connection is made. A Redis that comes back without its data
// gives kNotFound, and the message says that: the store's id is gone, or is another.
//
// A call that finds its connection closed tries once more by a new one. Beyond that, nothing waits
// here: kUnavailable, and whoever calls knows how long to go on trying.
//
// What is not encrypted: anything. The way to Redis must be one's own (docs/parallel.md).
//
// Threads: thread-safe, also across processes and machines. Calls beyond `max_connections` wait.
// Errors:  those of Store, and
//   kPermissionDenied    Redis wants a password, or another one
//   kFailedPrecondition  Redis evicts keys, or is part of a cluster
//   kInternal            a command is refused that should not be
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
#include "ding_worker/interaction/redis/redis_pool.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

class RedisStore : public Store {
 public:
  // Redis takes 512 MiB in one string, and serves nobody else meanwhile; parts of 64 MiB take it
  // twice as long as these.
  static constexpr int64_t kMaxPartBytes = int64_t{4} << 20;

  struct Options {
    RedisServerAddress server;
    std::string prefix;  // as a key of a store
    int max_connections = 8;
    int64_t part_bytes = kMaxPartBytes;  // 1 to kMaxPartBytes
  };

  // Connects, and looks whether that Redis is fit to keep data.
  //   kInvalidArgument  options out of range
  static absl::StatusOr<std::unique_ptr<RedisStore>> Create(const Options& options);

  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override;
  absl::Status Get(absl::string_view key, std::string* value) override;
  absl::Status Delete(absl::string_view key) override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) override;
  absl::Status Clear() override;
  const std::string& url() const override { return url_; }

 private:
  using Work = std::function<absl::Status(RedisConnection* connection)>;

  explicit RedisStore(const Options& options);

  // Of a key of the store.
  std::string Name(absl::string_view key) const;
  // Does the work by a connection, and once more by a new one if the first was closed.
  absl::Status Do(absl::string_view action, absl::string_view key, const Work& work);
  absl::Status OpenStore(RedisConnection* connection);
  absl::Status PutParts(absl::string_view name, absl::string_view header,
                        absl::Span<const absl::string_view> pieces, RedisConnection* connection);
  absl::Status GetOnce(absl::string_view name, RedisConnection* connection, std::string* value);
  absl::Status GetParts(absl::string_view name, RedisConnection* connection, std::string* value);
  // Why there is no such key.
  absl::Status Missing(absl::string_view key);
  // Calls `page` for all names in Redis that begin so, some of them twice.
  absl::Status Scan(absl::string_view beginning, RedisConnection* connection,
                    const std::function<absl::Status(const RedisReply& names)>& page);

  const Options options_;
  const std::string url_;
  RedisPool pool_;
  std::string id_;                   // not changed after Create()
  std::atomic<int64_t> lost_at_{0};  // in Unix seconds: when Redis was first seen without its data
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_REDIS_REDIS_STORE_H_
