#include "ding_worker/coordinator/journal/sqlite_log.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr int64_t kApplication = 0x44494e47;  // "DING"
// The first bytes of a file of SQLite, and of a journal of ding_worker 0.1.0.
constexpr absl::string_view kSqliteMagic("SQLite format 3\0", 16);
constexpr absl::string_view kOldMagic = "DINGJNL";
constexpr char kTables[] =
    "CREATE TABLE about (run TEXT);"
    "CREATE TABLE records (i INTEGER PRIMARY KEY, bytes BLOB);"
    "CREATE TABLE snapshot (name BLOB PRIMARY KEY, bytes BLOB) WITHOUT ROWID;";
// SQLite moves pages from <file>-wal to the file when it has this many. Each time it flushes both.
constexpr int kCheckpointPages = 8000;
// A resume reads the file several times: it stays in memory meanwhile, unless it is larger than
// this.
constexpr int kCacheKib = 32 << 10;
constexpr auto kSyncPeriodNanos = static_cast<int64_t>(1e9 * kLogSyncSeconds);

// Indexes of kStatements.
enum Statement { kBegin, kCommit, kInsert, kRemove, kPut, kErase, kRead, kReadSnapshot };
constexpr const char* kStatements[] = {
    "BEGIN IMMEDIATE",
    "COMMIT",
    "INSERT INTO records VALUES (?1, ?2)",
    "DELETE FROM records WHERE i BETWEEN ?1 AND ?2",
    "REPLACE INTO snapshot VALUES (?1, ?2)",
    "DELETE FROM snapshot WHERE name = ?1",
    "SELECT i, bytes FROM records WHERE i >= ?1 ORDER BY i",
    "SELECT name, bytes FROM snapshot",
};

int Bind(sqlite3_stmt* statement, int place, int64_t number) {
  return sqlite3_bind_int64(statement, place, number);
}

int Bind(sqlite3_stmt* statement, int place, absl::string_view bytes) {
  return sqlite3_bind_blob64(statement, place, bytes.empty() ? "" : bytes.data(), bytes.size(),
                             SQLITE_STATIC);
}

absl::string_view BytesOf(sqlite3_stmt* statement, int column) {
  const void* const bytes = sqlite3_column_blob(statement, column);
  const int size = sqlite3_column_bytes(statement, column);
  if (bytes == nullptr) return {};
  return absl::string_view(static_cast<const char*>(bytes), static_cast<size_t>(size));
}

absl::Status NoLocks(const std::string& path, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the file system of '", path, "' has no locks (", why,
      "), as some NFS, so that two coordinators could write there at a time: put exp_dir on a disk "
      "of this machine, or the journal into Redis (system.coordinator.journal: JOURNAL_IN_STORE)"));
}

// Checks that the file `name`, which is at `path`, is one of SQLite.
absl::Status CheckBeginning(const std::string& path, const std::string& name) {
  DING_ASSIGN_OR_RETURN(const OpenFile file, OpenRegularFile(path, O_RDONLY));
  char bytes[16];
  const ssize_t size = pread(file.fd(), bytes, sizeof(bytes), 0);
  if (size < 0) return ErrnoStatus(errno, absl::StrCat("cannot read '", path, "'"));
  const absl::string_view begin(bytes, static_cast<size_t>(size));
  if (begin.empty() || begin == kSqliteMagic) return absl::OkStatus();
  if (absl::StartsWith(begin, kOldMagic)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", name, "' is a journal of ding_worker 0.1.0 (its format has version 2, expected ",
        SqliteLog::kVersion,
        "): continue the run with that version, or begin a new run from its checkpoint with --set "
        "policy.learn.learner.hook.load_ckpt_before_run=.../ckpt/learner_resume"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("'", name, "' is no log of a coordinator, or its beginning is damaged"));
}

}  // namespace

SqliteLog::~SqliteLog() {
  for (sqlite3_stmt* const statement : statements_) sqlite3_finalize(statement);
  sqlite3_close(db_);
}

absl::StatusOr<std::unique_ptr<SqliteLog>> SqliteLog::Open(const std::string& path,
                                                           const LogOptions& options) {
  DING_RETURN_IF_ERROR(options.must_exist ? CheckBeginning(path, path) : CheckLogVersion(path));
  auto log = absl::WrapUnique(new SqliteLog(path, options.sync));
  DING_RETURN_IF_ERROR(log->Connect(path));
  // This takes the lock.
  DING_ASSIGN_OR_RETURN(const std::string tables, log->Query("SELECT count(*) FROM sqlite_schema"));
  DING_RETURN_IF_ERROR(tables == "0" ? log->Create(options.run) : log->CheckContent(options.run));
  DING_RETURN_IF_ERROR(log->ApplySync());
  DING_RETURN_IF_ERROR(log->Prepare());
  return log;
}

absl::StatusOr<std::unique_ptr<SqliteLog>> SqliteLog::OpenCopy(const std::string& copy,
                                                               const std::string& name) {
  DING_RETURN_IF_ERROR(CheckBeginning(copy, name));
  auto log = absl::WrapUnique(new SqliteLog(name, LogSync::kNone));
  DING_RETURN_IF_ERROR(log->Connect(copy));
  DING_RETURN_IF_ERROR(log->CheckFormat());
  DING_RETURN_IF_ERROR(log->Prepare());
  return log;
}

absl::Status SqliteLog::Connect(const std::string& file) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_PRIVATECACHE;
  const int code = sqlite3_open_v2(file.c_str(), &db_, flags, nullptr);
  if (code != SQLITE_OK) return ErrorOf(code);
  // A new file is flushed with its first change.
  return Query(absl::StrCat("PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = OFF; PRAGMA "
                            "trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA "
                            "temp_store = MEMORY; PRAGMA journal_mode = WAL; "
                            "PRAGMA wal_autocheckpoint = ",
                            kCheckpointPages, "; PRAGMA cache_size = -", kCacheKib))
      .status();
}

absl::Status SqliteLog::Create(const std::string& run) {
  run_ = run;
  is_new_ = true;
  char* const about = sqlite3_mprintf("INSERT INTO about VALUES (%Q); COMMIT", run.c_str());
  const std::string sql =
      absl::StrCat("BEGIN IMMEDIATE; PRAGMA application_id = ", kApplication,
                   "; PRAGMA user_version = ", kVersion, "; ", kTables, " ", about);
  sqlite3_free(about);
  return Query(sql).status();
}

absl::Status SqliteLog::CheckFormat() {
  DING_ASSIGN_OR_RETURN(const std::string application, Query("PRAGMA application_id"));
  DING_ASSIGN_OR_RETURN(const std::string found, Query("PRAGMA user_version"));
  if (application != absl::StrCat(kApplication)) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", path_, "' is no log of a coordinator, but another database of SQLite"));
  }
  int version = 0;
  if (!absl::SimpleAtoi(found, &version) || version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("log '", path_, "' has version ", found, ", expected ", kVersion,
                     version > kVersion ? ": a newer ding_worker has written it" : ""));
  }
  // It may be damaged.
  run_ = Query("SELECT run FROM about").value_or("");
  return absl::OkStatus();
}

absl::Status SqliteLog::CheckContent(const std::string& run) {
  DING_RETURN_IF_ERROR(CheckFormat());
  const std::string damage = CheckIntegrity();
  if (!damage.empty()) return Damaged(damage);
  DING_ASSIGN_OR_RETURN(const std::string tables,
                        Query("SELECT group_concat(sql || ';', '') FROM sqlite_schema"));
  if (tables != kTables) return Damaged("its tables are not those of a log");
  // One that was repaired may have lost its name.
  if (run_ != run && !run_.empty() && !run.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("log '", path_, "' is of run '", run_, "', expected '", run, "'"));
  }
  DING_ASSIGN_OR_RETURN(const std::string last, Query("SELECT coalesce(max(i), 0) FROM records"));
  DING_ASSIGN_OR_RETURN(const std::string parts, Query("SELECT count(*) FROM snapshot"));
  if (!absl::SimpleAtoi(last, &next_)) return Damaged("it has no last record");
  is_new_ = next_++ == 0 && parts == "0";
  return absl::OkStatus();
}

absl::Status SqliteLog::Prepare() {
  for (const char* const sql : kStatements) {
    const int code = sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT,
                                        &statements_.emplace_back(), nullptr);
    if (code != SQLITE_OK) return ErrorOf(code);
  }
  return absl::OkStatus();
}

absl::Status SqliteLog::ApplySync() {
  synced_nanos_ = Clock::Real()->MonotonicNanos();
  const bool each = is_new_ || sync_ == LogSync::kEvery;
  const absl::string_view level = each ? "FULL" : sync_ == LogSync::kPeriodic ? "NORMAL" : "OFF";
  return Query(absl::StrCat("PRAGMA synchronous = ", level)).status();
}

absl::StatusOr<int64_t> SqliteLog::Commit(const Change& change) {
  const int64_t first = next_;
  // What identifies the run is on the disk with the first change.
  if (is_new_) DING_RETURN_IF_ERROR(Flush(SQLITE_FCNTL_FILE_POINTER));
  absl::Status status = Run(kBegin);
  if (status.ok()) status = Write(change);
  if (status.ok()) status = Run(kCommit);
  if (!status.ok()) {
    if (sqlite3_get_autocommit(db_) == 0) Query("ROLLBACK").IgnoreError();
    return status;
  }
  next_ += static_cast<int64_t>(change.append.size());
  if (std::exchange(is_new_, false)) ApplySync().IgnoreError();
  if (sync_ != LogSync::kPeriodic) return first;
  const int64_t now = Clock::Real()->MonotonicNanos();
  if (now - synced_nanos_ >= kSyncPeriodNanos) {
    synced_nanos_ = now;
    const absl::Status flushed = Sync();
    DING_LOG_IF(WARNING, !flushed.ok()) << flushed.message();
  }
  return first;
}

absl::Status SqliteLog::Write(const Change& change) {
  if (change.anew) {
    DING_RETURN_IF_ERROR(Query("DELETE FROM records; DELETE FROM snapshot").status());
  }
  std::vector<int64_t> remove = change.remove;
  std::sort(remove.begin(), remove.end());
  for (size_t i = 0; i < remove.size();) {
    const int64_t begin = remove[i];
    int64_t end = begin;
    while (++i < remove.size() && remove[i] <= end + 1) end = remove[i];
    DING_RETURN_IF_ERROR(Run(kRemove, begin, std::min(end, next_ - 1)));
  }
  int64_t index = next_;
  for (const absl::string_view record : change.append) {
    DING_RETURN_IF_ERROR(Run(kInsert, index++, record));
  }
  for (const auto& [name, part] : change.snapshot) {
    DING_RETURN_IF_ERROR(part.empty() ? Run(kErase, name) : Run(kPut, name, part));
  }
  return absl::OkStatus();
}

template <typename... Arguments>
absl::Status SqliteLog::Run(int statement, const Arguments&... arguments) {
  sqlite3_stmt* const prepared = statements_[static_cast<size_t>(statement)];
  int code = SQLITE_OK;
  int place = 0;
  ((code = code == SQLITE_OK ? Bind(prepared, ++place, arguments) : code), ...);
  if (code == SQLITE_OK) code = sqlite3_step(prepared);
  const absl::Status status = code == SQLITE_DONE ? absl::OkStatus() : ErrorOf(code);
  sqlite3_reset(prepared);
  return status;
}

absl::Status SqliteLog::ReadFrom(int64_t from, int64_t* last, const Visitor& visit) {
  sqlite3_stmt* const statement = statements_[kRead];
  Bind(statement, 1, from);
  absl::Status status;
  int code = SQLITE_OK;
  while (status.ok() && (code = sqlite3_step(statement)) == SQLITE_ROW) {
    *last = sqlite3_column_int64(statement, 0);
    status = visit(*last, BytesOf(statement, 1));
    if (absl::IsDataLoss(status)) status = Damaged(status.message());
  }
  if (status.ok() && code != SQLITE_DONE) status = ErrorOf(code);
  sqlite3_reset(statement);
  return status;
}

absl::Status SqliteLog::Read(const Visitor& visit) {
  int64_t last = 0;
  return ReadFrom(0, &last, visit);
}

absl::StatusOr<int64_t> SqliteLog::ReadWhole(const Visitor& visit) {
  int64_t damaged = 0;
  // Whether SQLite can go to the first record from this index on.
  const auto reads = [this](int64_t from) {
    Bind(statements_[kRead], 1, from);
    const int code = sqlite3_step(statements_[kRead]);
    sqlite3_reset(statements_[kRead]);
    return code == SQLITE_ROW || code == SQLITE_DONE;
  };
  for (int64_t from = 0;;) {
    int64_t last = from - 1;
    absl::Status visited;
    const absl::Status read = ReadFrom(from, &last, [&](int64_t index, absl::string_view bytes) {
      visited = visit(index, bytes);
      return visited;
    });
    DING_RETURN_IF_ERROR(visited);
    if (read.ok()) return damaged;
    ++damaged;
    // A page that is damaged hides a range of indexes: its end lies between `bad` and `good`.
    int64_t bad = last;
    int64_t step = 1;
    while (!reads(bad + step)) {
      bad += step;
      if (step > (int64_t{1} << 60)) return damaged;
      step *= 2;
    }
    int64_t good = bad + step;
    while (good - bad > 1) {
      const int64_t middle = bad + (good - bad) / 2;
      (reads(middle) ? good : bad) = middle;
    }
    from = good;
  }
}

absl::StatusOr<Log::Snapshot> SqliteLog::ReadSnapshot() {
  Snapshot snapshot;
  sqlite3_stmt* const statement = statements_[kReadSnapshot];
  int code = SQLITE_OK;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    snapshot.emplace(BytesOf(statement, 0), BytesOf(statement, 1));
  }
  const absl::Status status = code == SQLITE_DONE ? absl::OkStatus() : ErrorOf(code);
  sqlite3_reset(statement);
  DING_RETURN_IF_ERROR(status);
  return snapshot;
}

absl::Status SqliteLog::Sync() { return Flush(SQLITE_FCNTL_JOURNAL_POINTER); }

absl::Status SqliteLog::Flush(int which) {
  sqlite3_file* file = nullptr;
  sqlite3_file_control(db_, "main", which, &file);
  if (file == nullptr || file->pMethods == nullptr) return absl::OkStatus();  // It is empty.
  if (file->pMethods->xSync(file, SQLITE_SYNC_NORMAL) == SQLITE_OK) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot flush log '", path_, "'"));
}

int64_t SqliteLog::size_bytes() {
  int64_t bytes = 0;
  const absl::StatusOr<std::string> found =
      Query("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
  return found.ok() && absl::SimpleAtoi(*found, &bytes) ? bytes : 0;
}

std::string SqliteLog::CheckIntegrity() {
  const absl::StatusOr<std::string> found = Query("PRAGMA quick_check(10)");
  if (!found.ok()) return sqlite3_errmsg(db_);
  return *found == "ok" ? "" : absl::StrReplaceAll(*found, {{"\n", "; "}});
}

absl::StatusOr<std::string> SqliteLog::Query(const std::string& sql) {
  std::string text;
  const auto add = [](void* to, int, char** columns, char**) {
    auto* const text = static_cast<std::string*>(to);
    absl::StrAppend(text, text->empty() ? "" : "\n", columns[0] == nullptr ? "" : columns[0]);
    return 0;
  };
  const int code = sqlite3_exec(db_, sql.c_str(), add, &text, nullptr);
  if (code != SQLITE_OK) return ErrorOf(code);
  return text;
}

absl::Status SqliteLog::Damaged(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(
      "log '", path_, "' is damaged: ", what, "; `ctl journal check ", path_,
      "` says what can be read, `ctl journal repair ", path_, "` makes a journal of that"));
}

absl::Status SqliteLog::ErrorOf(int code) const {
  int error = 0;
  sqlite3_file* file = nullptr;
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
  if (file != nullptr && file->pMethods != nullptr) {
    file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  if (error == 0) sqlite3_file_control(db_, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  if (error == 0) error = sqlite3_system_errno(db_);
  const std::string what = absl::StrCat("log '", path_, "': ", sqlite3_errmsg(db_));
  switch (code & 0xff) {
    case SQLITE_FULL:
      return ErrnoStatus(ENOSPC, absl::StrCat("cannot write log '", path_, "'"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:  // The tables are not ours, or of another format.
      return Damaged(sqlite3_errmsg(db_));
    case SQLITE_BUSY: {
      DING_ASSIGN_OR_RETURN(const std::optional<int64_t> user, LogFileUser(path_));
      return absl::FailedPreconditionError(
          absl::StrCat("'", path_, "' is in use by ",
                       user.has_value() ? absl::StrCat("process ", *user) : "this process",
                       ": end that one first"));
    }
    case SQLITE_IOERR:
      if (code == SQLITE_IOERR_LOCK || code == SQLITE_IOERR_RDLOCK || code == SQLITE_IOERR_UNLOCK) {
        return NoLocks(path_, sqlite3_errmsg(db_));
      }
      if (code == SQLITE_IOERR_SHORT_READ) return Damaged("it is cut off");
      return error == 0 ? absl::InternalError(what) : ErrnoStatus(error, what);
    case SQLITE_READONLY:
      if (access(path_.c_str(), W_OK) == 0) return Damaged("it looks like one of a later SQLite");
      return ErrnoStatus(errno, what);
    case SQLITE_CANTOPEN:
      return ErrnoStatus(error == 0 ? EACCES : error, what);
    default:
      return absl::InternalError(what);
  }
}

absl::Status CheckLogVersion(const std::string& path) {
  return PathExists(path) ? CheckBeginning(path, path) : absl::OkStatus();
}

absl::StatusOr<std::optional<int64_t>> LogFileUser(const std::string& path) {
  DING_ASSIGN_OR_RETURN(const OpenFile file, OpenRegularFile(path, O_RDONLY));
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  sqlite3_vfs* const vfs = sqlite3_vfs_find(nullptr);
  const auto call = reinterpret_cast<int (*)(int, int, ...)>(vfs->xGetSystemCall(vfs, "fcntl"));
  if (call(file.fd(), F_GETLK, &lock) != 0) {
    return NoLocks(path, ErrnoStatus(errno, "fcntl").message());
  }
  if (lock.l_type == F_UNLCK) return std::nullopt;
  return lock.l_pid;
}

}  // namespace ding
