#include "ding_worker/coordinator/log/sqlite_log.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/bytes.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/crc32c.h"
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
    "CREATE TABLE about (one INTEGER PRIMARY KEY, run TEXT, epoch INTEGER, next INTEGER, parts "
    "INTEGER);"
    "CREATE TABLE records (i INTEGER PRIMARY KEY, crc INTEGER, bytes BLOB);"
    "CREATE TABLE snapshot (i INTEGER PRIMARY KEY, crc INTEGER, bytes BLOB);";
// SQLite moves pages from <file>-wal to the file when it has this many. Each time it flushes both.
constexpr int kCheckpointPages = 8000;
constexpr auto kSyncPeriodNanos = static_cast<int64_t>(1e9 * kLogSyncSeconds);

int64_t CrcOf(int64_t index, absl::string_view bytes) {
  std::string number;
  AppendNumber(index, &number);
  return Crc32c(bytes, Crc32c(number));
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

// Checks that the file `name`, which is at `path`, is one of SQLite, or does not exist.
absl::Status CheckBeginning(const std::string& path, const std::string& name, bool must_exist) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT || must_exist) return ErrnoStatus(errno, absl::StrCat("log '", name, "'"));
    return absl::OkStatus();
  }
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

struct SqliteLog::Statements {
  ~Statements() {
    for (sqlite3_stmt* const statement : {begin, commit, insert, part, remove, read}) {
      sqlite3_finalize(statement);
    }
  }
  sqlite3_stmt* begin = nullptr;
  sqlite3_stmt* commit = nullptr;
  sqlite3_stmt* insert = nullptr;
  sqlite3_stmt* part = nullptr;
  sqlite3_stmt* remove = nullptr;
  sqlite3_stmt* read = nullptr;
};

SqliteLog::SqliteLog(std::string path, LogSync sync) : path_(std::move(path)), sync_(sync) {}

SqliteLog::~SqliteLog() {
  statements_.reset();
  sqlite3_close(db_);
}

absl::StatusOr<std::unique_ptr<SqliteLog>> SqliteLog::Open(const std::string& path,
                                                           const LogOptions& options) {
  DING_RETURN_IF_ERROR(CheckBeginning(path, path, options.must_exist));
  auto log = absl::WrapUnique(new SqliteLog(path, options.sync));
  DING_RETURN_IF_ERROR(log->Connect(path));
  DING_RETURN_IF_ERROR(log->Begin(options));
  DING_RETURN_IF_ERROR(log->PrepareStatements());
  return log;
}

absl::StatusOr<std::unique_ptr<SqliteLog>> SqliteLog::OpenCopy(const std::string& copy,
                                                               const std::string& name) {
  DING_RETURN_IF_ERROR(CheckBeginning(copy, name, /*must_exist=*/true));
  auto log = absl::WrapUnique(new SqliteLog(name, LogSync::kNone));
  DING_RETURN_IF_ERROR(log->Connect(copy));
  DING_RETURN_IF_ERROR(log->CheckFormat());
  DING_RETURN_IF_ERROR(log->PrepareStatements());
  return log;
}

absl::Status SqliteLog::Connect(const std::string& file) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_PRIVATECACHE;
  const int code = sqlite3_open_v2(file.c_str(), &db_, flags, nullptr);
  if (code != SQLITE_OK) return ErrorOf(code);
  // A new file is flushed with its first record.
  return Execute(absl::StrCat(
      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = OFF; PRAGMA trusted_schema "
      "= OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY; "
      "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = ",
      kCheckpointPages));
}

absl::Status SqliteLog::Begin(const LogOptions& options) {
  // This takes the lock.
  DING_ASSIGN_OR_RETURN(const int64_t tables, Number("SELECT count(*) FROM sqlite_schema"));
  if (tables > 0) {
    DING_RETURN_IF_ERROR(CheckFormat());
    DING_RETURN_IF_ERROR(CheckContent(options));
    DING_ASSIGN_OR_RETURN(
        next_,
        Number("SELECT max(next, coalesce((SELECT max(i) FROM records), 0) + 1) FROM about"));
  }
  if (tables == 0) {
    DING_RETURN_IF_ERROR(
        Execute(absl::StrCat("BEGIN IMMEDIATE; PRAGMA application_id = ", kApplication,
                             "; PRAGMA user_version = ", kVersion, "; ", kTables)));
    char* const about =
        sqlite3_mprintf("INSERT INTO about VALUES (1, %Q, 0, 1, 0); COMMIT", options.run.c_str());
    const absl::Status written = Execute(about);
    sqlite3_free(about);
    DING_RETURN_IF_ERROR(written);
  }
  run_ = options.run;
  DING_ASSIGN_OR_RETURN(epoch_, Number("SELECT epoch + 1 FROM about"));
  return next_ > 1 ? ApplySync() : Execute("PRAGMA synchronous = FULL");
}

absl::Status SqliteLog::ApplySync() {
  synced_nanos_ = Clock::Real()->MonotonicNanos();
  const absl::string_view level = sync_ == LogSync::kNone       ? "OFF"
                                  : sync_ == LogSync::kPeriodic ? "NORMAL"
                                                                : "FULL";
  return Execute(absl::StrCat("PRAGMA synchronous = ", level));
}

absl::Status SqliteLog::CheckFormat() {
  DING_ASSIGN_OR_RETURN(const int64_t application, Number("PRAGMA application_id"));
  DING_ASSIGN_OR_RETURN(const int64_t version, Number("PRAGMA user_version"));
  if (application != kApplication) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", path_, "' is no log of a coordinator, but another database of SQLite"));
  }
  if (version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("log '", path_, "' has version ", version, ", expected ", kVersion,
                     version > kVersion ? ": a newer ding_worker has written it" : ""));
  }
  run_ = Text("SELECT run FROM about");
  return absl::OkStatus();
}

absl::Status SqliteLog::CheckContent(const LogOptions& options) {
  const std::string damage = CheckIntegrity();
  if (!damage.empty()) return Damaged(damage);
  const std::string tables = Text("SELECT group_concat(sql || ';', '') FROM sqlite_schema");
  if (tables != kTables) return Damaged("its tables are not those of a log");
  // One that was repaired may have lost its name.
  if (run_ == options.run || run_.empty() || options.run.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("log '", path_, "' is of run '", run_, "', expected '", options.run, "'"));
}

absl::Status SqliteLog::PrepareStatements() {
  statements_ = std::make_unique<Statements>();
  const auto prepare = [this](const char* sql, sqlite3_stmt** statement) {
    const int code =
        sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, nullptr);
    return code == SQLITE_OK ? absl::OkStatus() : ErrorOf(code);
  };
  DING_RETURN_IF_ERROR(prepare("BEGIN IMMEDIATE", &statements_->begin));
  DING_RETURN_IF_ERROR(prepare("COMMIT", &statements_->commit));
  DING_RETURN_IF_ERROR(prepare("INSERT INTO records VALUES (?1, ?2, ?3)", &statements_->insert));
  DING_RETURN_IF_ERROR(prepare("INSERT INTO snapshot VALUES (?1, ?2, ?3)", &statements_->part));
  DING_RETURN_IF_ERROR(
      prepare("DELETE FROM records WHERE i BETWEEN ?1 AND ?2", &statements_->remove));
  return prepare("SELECT i, crc, bytes FROM records WHERE i >= ?1 ORDER BY i", &statements_->read);
}

absl::StatusOr<int64_t> SqliteLog::Commit(const Change& change) {
  const int64_t first = next_;
  // What identifies the run is on the disk with its first record.
  if (first == 1) DING_RETURN_IF_ERROR(Flush(SQLITE_FCNTL_FILE_POINTER));
  absl::Status status = Step(statements_->begin);
  // Not before, so that whoever finds damage after the start has changed nothing.
  if (status.ok() && !begun_) {
    status = Execute(absl::StrCat("UPDATE about SET epoch = ", epoch_));
  }
  if (status.ok()) status = Write(change, first);
  if (status.ok()) status = Step(statements_->commit);
  if (!status.ok()) {
    if (sqlite3_get_autocommit(db_) == 0) Execute("ROLLBACK").IgnoreError();
    return status;
  }
  begun_ = true;
  next_ += static_cast<int64_t>(change.append.size());
  if (first == 1 && next_ > 1) ApplySync().IgnoreError();
  if (sync_ != LogSync::kPeriodic) return first;
  const int64_t now = Clock::Real()->MonotonicNanos();
  if (now - synced_nanos_ >= kSyncPeriodNanos) {
    synced_nanos_ = now;
    const absl::Status flushed = Sync();
    DING_LOG_IF(WARNING, !flushed.ok()) << flushed.message();
  }
  return first;
}

absl::Status SqliteLog::Write(const Change& change, int64_t first) {
  if (change.anew) {
    DING_RETURN_IF_ERROR(Execute("DELETE FROM records; DELETE FROM snapshot"));
  } else {
    if (change.remove_below > 0) DING_RETURN_IF_ERROR(RemoveRange(0, change.remove_below - 1));
    std::vector<int64_t> remove = change.remove;
    std::sort(remove.begin(), remove.end());
    for (size_t i = 0; i < remove.size();) {
      const int64_t begin = remove[i];
      int64_t end = begin;
      while (++i < remove.size() && remove[i] <= end + 1) end = remove[i];
      DING_RETURN_IF_ERROR(RemoveRange(begin, end));
    }
  }
  for (size_t i = 0; i < change.append.size(); ++i) {
    DING_RETURN_IF_ERROR(
        Put(statements_->insert, first + static_cast<int64_t>(i), change.append[i]));
  }
  if (change.snapshot.has_value()) {
    DING_RETURN_IF_ERROR(Execute("DELETE FROM snapshot"));
    int64_t part = 0;
    for (const absl::string_view bytes : *change.snapshot) {
      DING_RETURN_IF_ERROR(Put(statements_->part, part++, bytes));
    }
  }
  if (change.snapshot.has_value() || change.anew) {
    DING_RETURN_IF_ERROR(Execute("UPDATE about SET parts = (SELECT count(*) FROM snapshot)"));
  }
  // No record has the last index any more.
  const bool last_removed =
      change.append.empty() &&
      (change.anew || change.remove_below >= first ||
       std::find(change.remove.begin(), change.remove.end(), first - 1) != change.remove.end());
  return last_removed ? Execute(absl::StrCat("UPDATE about SET next = ", first)) : absl::OkStatus();
}

absl::Status SqliteLog::Put(sqlite3_stmt* statement, int64_t index, absl::string_view bytes) {
  sqlite3_bind_int64(statement, 1, index);
  sqlite3_bind_int64(statement, 2, CrcOf(index, bytes));
  const int code = sqlite3_bind_blob64(statement, 3, bytes.empty() ? "" : bytes.data(),
                                       bytes.size(), SQLITE_STATIC);
  return code == SQLITE_OK ? Step(statement) : ErrorOf(code);
}

absl::Status SqliteLog::RemoveRange(int64_t begin, int64_t end) {
  sqlite3_bind_int64(statements_->remove, 1, begin);
  sqlite3_bind_int64(statements_->remove, 2, end);
  return Step(statements_->remove);
}

absl::Status SqliteLog::Visit(sqlite3_stmt* statement, int64_t from, int64_t* last,
                              const Visitor& visit) {
  sqlite3_bind_int64(statement, 1, from);
  absl::Status status;
  int code = SQLITE_OK;
  while (status.ok() && (code = sqlite3_step(statement)) == SQLITE_ROW) {
    const int64_t index = sqlite3_column_int64(statement, 0);
    const absl::string_view bytes = BytesOf(statement, 2);
    *last = index;
    status = sqlite3_column_int64(statement, 1) == CrcOf(index, bytes)
                 ? visit(index, bytes)
                 : Damaged(absl::StrCat("record ", index, " is not as it was written"));
  }
  if (status.ok() && code != SQLITE_DONE) status = ErrorOf(code);
  sqlite3_reset(statement);
  return status;
}

absl::Status SqliteLog::Read(int64_t from, const Visitor& visit) {
  int64_t last = 0;
  return Visit(statements_->read, from, &last, visit);
}

absl::StatusOr<int64_t> SqliteLog::ReadWhole(const Visitor& visit) {
  int64_t damaged = 0;
  // Whether SQLite can go to the first record from this index on.
  const auto reads = [this](int64_t from) {
    sqlite3_bind_int64(statements_->read, 1, from);
    const int code = sqlite3_step(statements_->read);
    sqlite3_reset(statements_->read);
    return code == SQLITE_ROW || code == SQLITE_DONE;
  };
  for (int64_t from = 0;;) {
    int64_t last = from - 1;
    absl::Status visited;
    const absl::Status read =
        Visit(statements_->read, from, &last, [&](int64_t index, absl::string_view bytes) {
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

absl::StatusOr<std::vector<std::string>> SqliteLog::ReadSnapshot() {
  std::vector<std::string> parts;
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(
      db_, "SELECT i, crc, bytes FROM snapshot WHERE i >= ?1 ORDER BY i", -1, &statement, nullptr);
  if (code != SQLITE_OK) return ErrorOf(code);
  int64_t last = 0;
  const absl::Status read = Visit(statement, 0, &last, [&](int64_t, absl::string_view bytes) {
    parts.emplace_back(bytes);
    return absl::OkStatus();
  });
  sqlite3_finalize(statement);
  DING_RETURN_IF_ERROR(read);
  DING_ASSIGN_OR_RETURN(const int64_t expected, Number("SELECT parts FROM about"));
  if (static_cast<int64_t>(parts.size()) == expected) return parts;
  return Damaged(absl::StrCat("its snapshot has ", parts.size(), " parts, expected ", expected));
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
  const absl::StatusOr<int64_t> pages = Number("PRAGMA page_count");
  const absl::StatusOr<int64_t> page = Number("PRAGMA page_size");
  return pages.ok() && page.ok() ? *pages * *page : 0;
}

std::string SqliteLog::CheckIntegrity() {
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(db_, "PRAGMA quick_check(10)", -1, &statement, nullptr);
  std::string found;
  while (code == SQLITE_OK || code == SQLITE_ROW) {
    code = sqlite3_step(statement);
    if (code != SQLITE_ROW) break;
    const absl::string_view line = BytesOf(statement, 0);
    if (line != "ok") absl::StrAppend(&found, found.empty() ? "" : "; ", line);
  }
  if (code != SQLITE_DONE) absl::StrAppend(&found, found.empty() ? "" : "; ", sqlite3_errmsg(db_));
  sqlite3_finalize(statement);
  std::replace(found.begin(), found.end(), '\n', ' ');
  return found;
}

absl::Status SqliteLog::Step(sqlite3_stmt* statement) {
  const int code = sqlite3_step(statement);
  const absl::Status status = code == SQLITE_DONE ? absl::OkStatus() : ErrorOf(code);
  sqlite3_reset(statement);
  return status;
}

absl::Status SqliteLog::Execute(const std::string& sql) {
  const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : ErrorOf(code);
}

absl::StatusOr<int64_t> SqliteLog::Number(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr);
  int64_t number = 0;
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  if (code == SQLITE_ROW) number = sqlite3_column_int64(statement, 0);
  const absl::Status status = code == SQLITE_ROW    ? absl::OkStatus()
                              : code == SQLITE_DONE ? Damaged("it does not say what it is")
                                                    : ErrorOf(code);
  sqlite3_finalize(statement);
  DING_RETURN_IF_ERROR(status);
  return number;
}

std::string SqliteLog::Text(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  std::string text;
  if (sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW) {
    text = std::string(BytesOf(statement, 0));
  }
  sqlite3_finalize(statement);
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
