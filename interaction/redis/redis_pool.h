// Connections to one Redis server, for the threads of a store: one per thread that is in a call,
// up to a bound, kept open between calls.
//
// Ownership: owns the connections that nobody has.
// Threads:   thread-safe.
// Blocking:  Take() connects, or waits for a connection that is given back.
#ifndef DING_WORKER_INTERACTION_REDIS_REDIS_POOL_H_
#define DING_WORKER_INTERACTION_REDIS_REDIS_POOL_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/redis/redis_connection.h"

namespace ding {

class RedisPool {
 public:
  struct Taken {
    std::unique_ptr<RedisConnection> connection;
    bool is_new = false;  // connected, and checked, just now
  };

  // `max_connections` is at least 1.
  RedisPool(RedisServerAddress server, int max_connections);

  //   kUnavailable  all are in use for longer than the server's io_timeout
  //   others        of RedisConnection::Open() and CheckRedisServer()
  absl::StatusOr<Taken> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  // What Take() gave, back. If it is broken, those that nobody has are closed, too: the server was
  // restarted.
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

#endif  // DING_WORKER_INTERACTION_REDIS_REDIS_POOL_H_
