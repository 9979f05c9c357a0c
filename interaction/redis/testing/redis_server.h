// A real redis-server for tests and benchmarks: on a free port of 127.0.0.1, in a folder of its own
// under the temporary one, killed and started again as a test wants.
//
// Ownership: kills its process and removes its folder. The kernel kills the process, too, when the
//            thread that started it ends.
// Threads:   thread-compatible.
// Blocking:  Start(), Restart() until Redis answers, at most half a minute.
//
// Example:
//   RedisServer::Options options;
//   options.append_fsync = "always";
//   const std::unique_ptr<RedisServer> redis = RedisServer::Start(options).value();
//   auto store = create_store(redis->Url("run7")).value();
//   redis->Kill();
//   ASSERT_THAT(redis->Restart(), IsOk());
#ifndef DING_WORKER_INTERACTION_REDIS_TESTING_REDIS_SERVER_H_
#define DING_WORKER_INTERACTION_REDIS_TESTING_REDIS_SERVER_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

class RedisServer {
 public:
  struct Options {
    std::string password;  // empty: none
    // "always", "everysec", "no": with an append-only file, flushed so; empty: nothing is kept.
    // When it is killed, "always" and "no" lose nothing that it has replied to.
    std::string append_fsync;
    std::vector<std::string> lines;  // more of redis.conf, such as "maxmemory 4mb"
  };

  static absl::StatusOr<std::unique_ptr<RedisServer>> Start(const Options& options);
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;
  ~RedisServer();

  int port() const { return port_; }
  pid_t pid() const { return pid_; }
  // Of a store: "redis:127.0.0.1:PORT/prefix", with the file of the password.
  std::string Url(absl::string_view prefix) const;

  // SIGKILL; returns when the process is gone.
  void Kill();
  // On the same port, with what its append-only file has, if it has one.
  absl::Status Restart();
  // As an operator would say it: {"CONFIG", "SET", "maxmemory", "1mb"}; the reply.
  absl::StatusOr<std::string> Command(absl::Span<const absl::string_view> args) const;

 private:
  RedisServer(const Options& options, std::string folder)
      : options_(options), folder_(std::move(folder)) {}

  absl::Status StartAt(int port);
  absl::Status WaitUntilUp();

  const Options options_;
  const std::string folder_;
  int port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_REDIS_TESTING_REDIS_SERVER_H_
