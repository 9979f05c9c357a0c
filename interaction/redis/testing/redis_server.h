// A real redis-server for tests and benchmarks. It runs on a free port of 127.0.0.1, in a folder of
// its own under the temporary folder, and tests can kill and restart it.
//
// Ownership: kills its process and removes its folder. The kernel also kills the process when the
//            thread that started it ends.
// Threads:   thread-compatible.
// Blocking:  Start() and Restart() wait until Redis answers, at most half a minute.
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
#include "ding_worker/interaction/redis/redis_connection.h"

namespace ding {

class RedisServer {
 public:
  struct Options {
    std::string password;  // empty: none
    // How the append-only file is flushed: "always", "everysec" or "no"; empty means that there is
    // no such file and nothing is kept. A server that is killed loses nothing that it has
    // acknowledged with "always" or "no".
    std::string append_fsync;
    // If its `ca` is set, the server listens with TLS alone, and asks for a certificate of `ca`. It
    // shows `cert`, which must be of 127.0.0.1. Command() and Url() use the files, too.
    RedisTlsFiles tls;
    std::vector<std::string> lines;  // further lines of redis.conf, such as "maxmemory 4mb"
  };

  static absl::StatusOr<std::unique_ptr<RedisServer>> Start(const Options& options);
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;
  ~RedisServer();

  int port() const { return port_; }
  pid_t pid() const { return pid_; }
  // Returns the URL of a store: "redis:127.0.0.1:PORT/prefix", with the files that it needs.
  std::string Url(absl::string_view prefix) const;
  // The server, for a store or a connection.
  RedisServerAddress address() const;
  // The file that has the password, which a test may change.
  std::string password_file() const;

  // Sends SIGKILL, and returns when the process is gone.
  void Kill();
  // Starts the server again on the same port, with the data of its append-only file if it has one.
  absl::Status Restart();
  // Runs a command like an operator, such as {"CONFIG", "SET", "maxmemory", "1mb"}, and returns the
  // text of the reply. All commands use one connection, which stays valid when the password
  // changes.
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
  mutable std::unique_ptr<RedisConnection> operator_;  // null until the first command
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_REDIS_TESTING_REDIS_SERVER_H_
