// Files that are damaged, cut off or no logs, full disks, and processes that are killed.
#include "ding_worker/coordinator/journal/sqlite_log.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The content of record `index` of a test.
std::string Content(int64_t index) {
  return std::string(static_cast<size_t>(20 + index % 7 * 40), static_cast<char>('a' + index % 26));
}

class SqliteLogTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = CreateTemporaryDirectory(JoinPath(testing::TempDir(), "sqlite_log")).value();
    path_ = JoinPath(folder_, "log");
  }
  void TearDown() override { RemoveRecursively(folder_).IgnoreError(); }

  absl::StatusOr<std::unique_ptr<SqliteLog>> Open() { return SqliteLog::Open(path_, Options()); }
  static LogOptions Options() {
    LogOptions options{"run-1"};
    options.sync = LogSync::kNone;  // The tests open it thousands of times.
    return options;
  }
  static absl::Status Append(Log* log, const std::vector<std::string>& records) {
    Log::Change change;
    change.append = {records.begin(), records.end()};
    return log->Commit(change).status();
  }
  // Appends records with these indexes, `group` at a time.
  static void Fill(Log* log, int64_t begin, int64_t end, int64_t group = 1) {
    while (begin < end) {
      std::vector<std::string> records;
      for (int64_t i = 0; i < group && begin < end; ++i) records.push_back(Content(begin++));
      ASSERT_THAT(Append(log, records), IsOk());
    }
  }
  // Returns the number of records, which must be those of Fill(), without gaps, up to an error.
  static int64_t CountWhole(SqliteLog* log, absl::Status* status) {
    int64_t count = 0;
    *status = log->Read([&count](int64_t index, absl::string_view record) {
      EXPECT_EQ(index, ++count);
      EXPECT_EQ(record, Content(index));
      return absl::OkStatus();
    });
    return count;
  }
  int64_t CountAll() {
    const auto log = Open();
    EXPECT_THAT(log, IsOk());
    if (!log.ok()) return -1;
    absl::Status status;
    const int64_t count = CountWhole(log->get(), &status);
    EXPECT_THAT(status, IsOk());
    return count;
  }
  void SetBytes(const std::string& name, const std::string& bytes) { OverwriteFile(name, bytes); }

  std::string folder_;
  std::string path_;
};

TEST_F(SqliteLogTest, Open_NotALog_IsRefused) {
  SetBytes(path_, "This is a text, which is longer than the beginning of a database.");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("is no log of a coordinator")));
  SetBytes(path_, "DINGJNL2 and records");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr("journal of ding_worker 0.1.0"),
                                     HasSubstr("load_ckpt_before_run"))));
  ASSERT_THAT(RemoveFile(path_), IsOk());
  ASSERT_THAT(CreateDirectories(path_), IsOk());
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(SqliteLogTest, Open_AnotherDatabaseOrVersion_IsRefused) {
  const auto execute = [this](const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
  };
  execute("CREATE TABLE other (x)");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("another database of SQLite")));
  ASSERT_THAT(RemoveFile(path_), IsOk());
  ASSERT_THAT(Open(), IsOk());
  execute("PRAGMA user_version = 4");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("has version 4, expected 3: a newer ding_worker")));
  execute("PRAGMA user_version = 3; CREATE TABLE other (x)");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("its tables")));
}

// What a file system without locks says.
int NoLocks(int file, int command, ...) {
  if (command == F_SETLK || command == F_GETLK) {
    errno = ENOLCK;
    return -1;
  }
  va_list args;
  va_start(args, command);
  void* const argument = va_arg(args, void*);
  va_end(args);
  return fcntl(file, command, argument);
}

TEST_F(SqliteLogTest, Open_NoLocks_OffersRedis) {
  sqlite3_vfs* const vfs = sqlite3_vfs_find(nullptr);
  ASSERT_EQ(vfs->xSetSystemCall(vfs, "fcntl", reinterpret_cast<sqlite3_syscall_ptr>(NoLocks)),
            SQLITE_OK);
  const auto log = Open();
  ASSERT_EQ(vfs->xSetSystemCall(vfs, "fcntl", nullptr), SQLITE_OK);
  EXPECT_THAT(log, StatusIs(absl::StatusCode::kFailedPrecondition,
                            AllOf(HasSubstr("has no locks"), HasSubstr("JOURNAL_IN_STORE"))));
}

TEST_F(SqliteLogTest, Open_InUseByAnotherProcess_NamesIt) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto log = Open();
    const char ready = log.ok() ? 'y' : 'n';
    if (write(pipe_ends[1], &ready, 1) == 1) pause();
    _exit(1);
  }
  char ready = 0;
  ASSERT_EQ(read(pipe_ends[0], &ready, 1), 1);
  ASSERT_EQ(ready, 'y');
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr(absl::StrCat("is in use by process ", child))));
  EXPECT_EQ(LogFileUser(path_).value(), child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  EXPECT_THAT(Open(), IsOk());
}

TEST_F(SqliteLogTest, Commit_DiskIsFull_ChangesNothingAndGoesOnLater) {
  // The limit of the size of a file stands for the disk.
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  const auto log = Open().value();
  Fill(log.get(), 1, 11);
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = 200000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  int64_t next = 11;
  absl::Status status;
  while (status.ok() && next < 1000) {
    status = Append(log.get(), {Content(next), Content(next + 1)});
    if (status.ok()) next += 2;
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Append(log.get(), {Content(next), Content(next + 1)}),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, old_handler);
  EXPECT_EQ(CountWhole(log.get(), &status), next - 1);
  EXPECT_THAT(status, IsOk());
  Fill(log.get(), next, next + 10);
  EXPECT_EQ(CountWhole(log.get(), &status), next + 9);
}

TEST_F(SqliteLogTest, Commit_ProcessIsKilled_AllThatWasAcknowledgedIsThere) {
  const auto seed = static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  Rng rng(seed, "log");
  for (int round = 0; round < 15; ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", round ", round));
    const int64_t before = CountAll();
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      const auto log = Open();
      for (int64_t next = before + 1; log.ok(); next += 3) {
        if (!Append(log->get(), {Content(next), Content(next + 1), Content(next + 2)}).ok()) break;
        if (write(pipe_ends[1], &next, sizeof(next)) != sizeof(next)) break;
      }
      _exit(1);
    }
    close(pipe_ends[1]);
    int64_t acknowledged = before - 2;
    const int64_t last = before + static_cast<int64_t>(rng.UniformInt(400));
    for (int64_t next = 0; acknowledged < last;) {
      if (read(pipe_ends[0], &next, sizeof(next)) != sizeof(next)) break;
      acknowledged = next;
    }
    usleep(static_cast<useconds_t>(rng.UniformInt(300)));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (int64_t next = 0; read(pipe_ends[0], &next, sizeof(next)) == sizeof(next);) {
      acknowledged = next;
    }
    close(pipe_ends[0]);
    const int64_t count = CountAll();
    ASSERT_GE(count, acknowledged + 2);
    ASSERT_LE(count, acknowledged + 5);
    ASSERT_EQ((count - before) % 3, 0) << "a change is there as a whole or not at all";
  }
}

// A machine that goes down may cut the end of <file>-wal anywhere.
TEST_F(SqliteLogTest, Open_TheEndIsCutAnywhere_HasWholeChanges) {
  std::string file, wal;
  {
    const auto log = Open().value();
    Fill(log.get(), 1, 61, 2);
    file = ReadFile(path_).value();
    wal = ReadFile(path_ + "-wal").value();
  }
  const size_t last_pages = std::min<size_t>(wal.size(), 3 * 4120);
  for (size_t cut = 0; cut < last_pages; cut += cut < 4200 ? 1 : 37) {
    SCOPED_TRACE(absl::StrCat(cut, " bytes are cut off"));
    for (const bool zeros : {false, true}) {
      if (zeros && cut % 8 != 0) continue;
      std::string torn = wal.substr(0, wal.size() - cut);
      if (zeros) torn.resize(wal.size());
      SetBytes(path_, file);
      SetBytes(path_ + "-wal", torn);
      const int64_t count = CountAll();
      ASSERT_EQ(count % 2, 0);
      ASSERT_GE(count, 50);
      ASSERT_LE(count, 60);
      if (cut == 0) {
        ASSERT_EQ(count, 60);
      }
    }
    if (HasFailure()) return;
  }
}

TEST_F(SqliteLogTest, Sync_EachSetting_KeepsWhatWasCommitted) {
  for (const LogSync sync : {LogSync::kNone, LogSync::kPeriodic, LogSync::kEvery}) {
    LogOptions options{"run-1"};
    options.sync = sync;
    {
      const auto log = SqliteLog::Open(path_, options).value();
      Fill(log.get(), 1, 101);
      ASSERT_THAT(log->Sync(), IsOk());
    }
    EXPECT_EQ(CountAll(), 100);
    ASSERT_THAT(RemoveFile(path_), IsOk());
  }
}

}  // namespace
}  // namespace ding
