// A log in Redis: a stream, whose ids are the indexes, and a hash with the owner of the log.
//
//     <prefix>/.log/about      version, run, epoch, next (the next index), commits (their number)
//     <prefix>/.log/records    a stream: <index>-0 ──► bytes
//     <prefix>/.log/snapshot   a hash: name ──► bytes
//
// A commit is one script, which Redis runs atomically. It first checks whether the epoch is still
// ours, and whether Redis has all earlier commits. An attempt whose reply was lost may still be
// under way. The next Commit() therefore begins another epoch, which blocks that attempt, and then
// checks whether the attempt took effect.
//
// The server's `appendfsync` decides how safe acknowledged commits are; LogOptions::sync has no
// effect here.
//
// Threads:  thread-compatible.
// Blocking: each call waits for Redis, at most for the timeouts of RedisConnection.
// Errors:   as Log and RedisConnection.
#ifndef DING_WORKER_INTERACTION_REDIS_REDIS_LOG_H_
#define DING_WORKER_INTERACTION_REDIS_REDIS_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/interaction/redis/redis_connection.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

class RedisLog : public Log {
 public:
  // Opens the log of the store `url`, whose keys begin with `prefix`, or makes one.
  //   kNotFound            there is no log, and must_exist is set
  //   kFailedPrecondition  it has another version, or belongs to another run
  static absl::StatusOr<std::unique_ptr<RedisLog>> Open(const RedisServerAddress& server,
                                                        const std::string& prefix,
                                                        const std::string& url,
                                                        const LogOptions& options);

  absl::StatusOr<int64_t> Commit(const Change& change) override;
  absl::Status Read(const Visitor& visit) override;
  absl::StatusOr<Snapshot> ReadSnapshot() override;
  absl::Status Sync() override { return absl::OkStatus(); }
  int64_t size_bytes() override;
  bool may_lose() const override { return true; }

 private:
  RedisLog(const RedisServerAddress& server, const std::string& prefix, std::string url);

  // Runs a script. Returns the texts of its reply, without the first one, which is the outcome.
  absl::StatusOr<std::vector<std::string>> Run(absl::string_view script,
                                               const std::vector<absl::string_view>& args);
  absl::StatusOr<RedisReply> Call(const std::vector<absl::string_view>& command);
  absl::Status TryCommit(const Change& change);
  // Ends the epoch of a commit whose outcome is unknown. Returns whether it took effect.
  absl::StatusOr<bool> Resolve();
  absl::Status Damaged(absl::string_view what) const;

  const RedisServerAddress server_;
  const std::string url_;
  const std::vector<std::string> keys_;  // about, records, snapshot, owner of a journal of 0.1.0
  std::string run_;
  std::unique_ptr<RedisConnection> connection_;  // null after an error
  int64_t epoch_ = 0;
  int64_t next_ = 1;
  int64_t commits_ = 0;
  bool unknown_ = false;   // whether the outcome of the last commit is unknown
  absl::Status replaced_;  // an error if another process has taken over the log
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_REDIS_REDIS_LOG_H_
