// The connections of a store to one Redis server. Each thread that is in a call has one, up to a bound;
// they stay open between calls.
//
// Ownership: owns the connections that are not taken.
// Threads:   thread-safe.
// Blocking:  Take() connects, or waits until a connection is returned.
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
    bool is_new = false;  // Take() has just connected and checked it
  };

  // `max_connections` is at least 1.
  RedisPool(RedisServerAddress server, int max_connections);

  // Takes a connection that is not in use, or opens a new one.
  //   kUnavailable  all connections were in use for the server's io_timeout
  //   others        the errors of RedisConnection::Open() and CheckRedisServer()
  absl::StatusOr<Taken> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns a connection of Take(). If it is broken, the idle connections are closed as well, because
  // the server may have been restarted.
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
