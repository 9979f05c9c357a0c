#include "ding_worker/interaction/redis/redis_pool.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"

namespace ding {

RedisPool::RedisPool(RedisServerAddress server, int max_connections)
    : server_(std::move(server)), max_connections_(max_connections) {}

absl::StatusOr<RedisPool::Taken> RedisPool::Take() {
  {
    MutexLock lock(&mutex_);
    const Deadline deadline = Deadline::After(server_.io_timeout);
    while (in_use_ >= max_connections_) {
      if (returned_.WaitUntil(&mutex_, deadline) || in_use_ < max_connections_) continue;
      return absl::UnavailableError(absl::StrCat(
          "all ", max_connections_, " connections to ", server_.host, ":", server_.port,
          " were in use for ", absl::FormatDuration(server_.io_timeout)));
    }
    ++in_use_;
    if (!idle_.empty()) {
      Taken taken{std::move(idle_.back()), false};
      idle_.pop_back();
      return taken;
    }
  }
  absl::StatusOr<std::unique_ptr<RedisConnection>> made = RedisConnection::Open(server_);
  absl::Status status = made.status();
  if (status.ok()) status = CheckRedisServer(made->get());
  if (status.ok()) return Taken{*std::move(made), true};
  MutexLock lock(&mutex_);
  --in_use_;
  returned_.Signal();
  return status;
}

void RedisPool::Return(std::unique_ptr<RedisConnection> connection) {
  std::vector<std::unique_ptr<RedisConnection>> closed;  // destroyed after the lock is released
  MutexLock lock(&mutex_);
  --in_use_;
  if (connection->broken()) {
    closed.swap(idle_);
    closed.push_back(std::move(connection));
  } else {
    idle_.push_back(std::move(connection));
  }
  returned_.Signal();
}

}  // namespace ding
