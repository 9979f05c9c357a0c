// A log in a file of SQLite: the file, and <file>-wal beside it while it is open, which SQLite
// applies when the file is opened again.
//
// The file is locked: a second Open() is refused. Open() also refuses a file system without locks.
//
// Threads: thread-compatible.
// Errors:  as Log, except kUnavailable and kAborted; every message names the file.
#ifndef DING_WORKER_COORDINATOR_JOURNAL_SQLITE_LOG_H_
#define DING_WORKER_COORDINATOR_JOURNAL_SQLITE_LOG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/interaction/store/store.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ding {

class SqliteLog : public Log {
 public:
  // The version of the format.
  static constexpr int kVersion = 3;

  // Opens the file, or creates it.
  //   kNotFound            there is no file, and must_exist is set
  //   kDataLoss            the file is damaged; the message says what to do
  //   kFailedPrecondition  it is not a log, is of another run or version, or is in use, or its
  //                        file system has no locks
  //   kInvalidArgument     the path is not a regular file
  static absl::StatusOr<std::unique_ptr<SqliteLog>> Open(const std::string& path,
                                                         const LogOptions& options);
  // Opens a copy of the file `name`, which may be damaged, to read its whole records.
  //   kDataLoss            nothing of it can be read
  //   kFailedPrecondition  it is not a log, or is of another version
  static absl::StatusOr<std::unique_ptr<SqliteLog>> OpenCopy(const std::string& copy,
                                                             const std::string& name);
  SqliteLog(const SqliteLog&) = delete;
  SqliteLog& operator=(const SqliteLog&) = delete;
  ~SqliteLog() override;

  absl::StatusOr<int64_t> Commit(const Change& change) override;
  absl::Status Read(const Visitor& visit) override;
  absl::StatusOr<Snapshot> ReadSnapshot() override;
  absl::Status Sync() override;
  int64_t size_bytes() override;

  const std::string& run() const { return run_; }
  // Returns SQLite's report about the structure of the file; empty: it is whole.
  std::string CheckIntegrity();
  // Like Read(), but skips unreadable places. Returns their number.
  absl::StatusOr<int64_t> ReadWhole(const Visitor& visit);

 private:
  SqliteLog(std::string path, LogSync sync) : path_(std::move(path)), sync_(sync) {}

  absl::Status Connect(const std::string& file);
  // Make the tables, or check the existing ones.
  absl::Status Create(const std::string& run);
  absl::Status CheckFormat();
  absl::Status CheckContent(const std::string& run);
  absl::Status Prepare();
  absl::Status ApplySync();
  // Flushes the file, or the one beside it: a number of SQLite says which.
  absl::Status Flush(int which);
  absl::Status Write(const Change& change);
  // Executes a statement that returns no row. An argument is a number or bytes.
  template <typename... Arguments>
  absl::Status Run(int statement, const Arguments&... arguments);
  absl::Status ReadFrom(int64_t from, int64_t* last, const Visitor& visit);
  // Executes SQL. Returns the first column of the result, a line for each row.
  absl::StatusOr<std::string> Query(const std::string& sql);
  absl::Status Damaged(absl::string_view what) const;
  absl::Status ErrorOf(int code) const;

  const std::string path_;
  const LogSync sync_;
  sqlite3* db_ = nullptr;
  std::vector<sqlite3_stmt*> statements_;
  std::string run_;
  int64_t next_ = 1;
  bool is_new_ = false;  // whether nothing was committed yet
  int64_t synced_nanos_ = 0;
};

// Refuses a journal that SQLite did not write, such as one of ding_worker 0.1.0, without opening
// it. OK if there is none.
//   kFailedPrecondition  the message says what it is, and how to continue its run
absl::Status CheckLogVersion(const std::string& path);

// Returns the process that uses the file; nullopt if no process does.
//   kFailedPrecondition  its file system has no locks
absl::StatusOr<std::optional<int64_t>> LogFileUser(const std::string& path);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_SQLITE_LOG_H_
