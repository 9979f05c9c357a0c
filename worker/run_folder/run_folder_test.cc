#include "ding_worker/worker/run_folder/run_folder.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding::flushed_logs {

// The files that the test program has flushed to the disk, with the sizes that they had.
inline std::map<std::string, int64_t> sizes;

}  // namespace ding::flushed_logs

// Takes the place of the function of the C library in this program.
extern "C" int fdatasync(int fd) {
  std::error_code error;
  struct stat info = {};
  if (fstat(fd, &info) == 0) {
    ding::flushed_logs::sizes
        [std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", fd), error).string()] =
            info.st_size;
  }
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/run_folder_XXXXXX");
    folder_ = std::filesystem::canonical(mkdtemp(folder.data())).string();
    EXPECT_EQ(chdir(folder_.c_str()), 0);
  }
  ~RunFolderTest() override {
    EXPECT_EQ(chdir(testing::TempDir().c_str()), 0);
    EXPECT_THAT(RemoveRecursively(folder_), IsOk());
  }

  std::string folder_;
  SimulatedClock clock_;
};

TEST_F(RunFolderTest, SaysWhetherAFolderIsFree) {
  EXPECT_THAT(RunFolder::CheckFree("a"), IsOk());
  ASSERT_THAT(CreateDirectories("a"), IsOk());
  EXPECT_THAT(RunFolder::CheckFree("a"), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(RunFolderTest, WritesItsLogsAndFiles) {
  DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<RunFolder> run,
                            RunFolder::Create("", "exp", "serial", &clock_));
  EXPECT_EQ(run->path(), JoinPath(folder_, "exp"));
  run->metrics()->Scalar("a/b", 3, 1.5);
  DING_LOG(INFO) << "said in passing";
  EXPECT_THAT(run->FlushLogs(), IsOk());
  EXPECT_THAT(run->WriteText("note.txt", "text"), IsOk());
  EXPECT_THAT(*ReadFile("exp/log/serial_logger.txt"), HasSubstr("said in passing"));
  EXPECT_THAT(*ReadFile("exp/log/metrics.csv"), HasSubstr("3,a/b,1.5"));
  EXPECT_THAT(*ListDirectory("exp/log/serial"), ElementsAre(StartsWith("events.out.tfevents.")));
  EXPECT_EQ(*ReadFile("exp/note.txt"), "text");
}

TEST_F(RunFolderTest, NeverOverwritesARun) {
  DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<RunFolder> first,
                            RunFolder::Create("", "exp", "serial", &clock_));
  first.reset();
  DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<RunFolder> second,
                            RunFolder::Create("", "exp", "serial", &clock_));
  EXPECT_THAT(second->path(), StartsWith(JoinPath(folder_, "exp_")));
  second.reset();
  DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<RunFolder> third,
                            RunFolder::Create("", "exp", "serial", &clock_));
  EXPECT_EQ(ListDirectory(".")->size(), 3u);
  third.reset();
  EXPECT_THAT(RunFolder::Create("exp", "exp", "serial", &clock_),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr(absl::StrCat("--exp_dir ", folder_, "/exp exists already"))));
}

// A process may change its current folder, and other processes that work in other folders read the
// same path.
TEST_F(RunFolderTest, IsTheSameWhereverTheProcessGoes) {
  ASSERT_THAT(CreateDirectories("elsewhere"), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<RunFolder> run,
                            RunFolder::Create("a/../run/", "exp", "serial", &clock_));
  EXPECT_EQ(run->path(), JoinPath(folder_, "run"));
  ASSERT_EQ(chdir("elsewhere"), 0);
  EXPECT_THAT(run->WriteText("note.txt", "text"), IsOk());
  run.reset();
  DING_ASSERT_OK_AND_ASSIGN(run, RunFolder::Continue("../run", "serial", &clock_));
  EXPECT_EQ(run->path(), JoinPath(folder_, "run"));
  run.reset();
  DING_ASSERT_OK_AND_ASSIGN(run, RunFolder::Reopen("../run/.", {}, "serial", &clock_));
  EXPECT_EQ(run->path(), JoinPath(folder_, "run"));
  EXPECT_EQ(*ReadFile("../run/note.txt"), "text");
  EXPECT_EQ(RunFolder::ChoosePath("", "exp", &clock_).value(), JoinPath(folder_, "elsewhere/exp"));
}

TEST_F(RunFolderTest, MakesParentsOfTheFolderAskedFor) {
  const std::string path = JoinPath(folder_, "a/b/run");
  DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<RunFolder> run,
                            RunFolder::Create(path, "exp", "serial", &clock_));
  EXPECT_EQ(run->path(), path);
  EXPECT_TRUE(IsDirectory(JoinPath(path, "log")));
}

TEST_F(RunFolderTest, SaysWhyItCannotBeWritten) {
  ASSERT_THAT(WriteFileAtomically("file", "x"), IsOk());
  EXPECT_THAT(RunFolder::Create("file/run", "exp", "serial", &clock_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("file")));
  EXPECT_THAT(RunFolder::Create("/proc/no/run", "exp", "serial", &clock_).status().message(),
              HasSubstr("/proc/no"));
}

TEST_F(RunFolderTest, GoesOnWhereItsLogsWereMeasured) {
  LogSizes logs;
  {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RunFolder> run,
                              RunFolder::Create("exp", "", "serial", &clock_));
    run->metrics()->Scalar("a", 1, 10);
    DING_LOG(INFO) << "before";
    DING_LOG_EVENT(INFO, {EventKind::kStart, "new"}) << "the run begins";
    DING_ASSERT_OK_AND_ASSIGN(logs, run->MeasureLogs());
    EXPECT_EQ(logs.size(), 4u);
    run->metrics()->Scalar("a", 2, 20);
    DING_LOG(INFO) << "after";
    DING_LOG(WARNING) << "an env fails";
    EXPECT_THAT(run->WriteText("result.json", "{}"), IsOk());
  }
  // This log is from a later process that left no resume point.
  ASSERT_THAT(WriteFileAtomically("exp/log/serial/events.out.tfevents.later", "x"), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RunFolder> run,
                            RunFolder::Reopen("exp", logs, "serial", &clock_));
  run->metrics()->Scalar("a", 2, 30);
  EXPECT_THAT(run->FlushLogs(), IsOk());
  EXPECT_THAT(*ReadFile("exp/log/metrics.csv"),
              AllOf(HasSubstr("1,a,10,"), HasSubstr("2,a,30,"), Not(HasSubstr("2,a,20,"))));
  EXPECT_THAT(*ReadFile("exp/log/serial_logger.txt"),
              AllOf(HasSubstr("before"), Not(HasSubstr("after"))));
  EXPECT_FALSE(PathExists("exp/log/serial/events.out.tfevents.later"));
  DING_LOG_EVENT(INFO, {EventKind::kStart, "resumed"}) << "it goes on";
  const std::vector<std::string> events =
      absl::StrSplit(*ReadFile("exp/log/events.jsonl"), '\n', absl::SkipEmpty());
  EXPECT_THAT(events, ElementsAre(HasSubstr("\"start\",\"name\":\"new\""), HasSubstr("\"fault\""),
                                  HasSubstr("\"start\",\"name\":\"resumed\"")));
  EXPECT_FALSE(PathExists("exp/result.json"));
}

// A resume point has these sizes: after a power loss the logs must not be shorter.
TEST_F(RunFolderTest, MeasureLogs_FilesAreOnTheDisk) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RunFolder> run,
                            RunFolder::Create("exp", "", "serial", &clock_));
  for (int step = 1; step <= 2; ++step) {
    run->metrics()->Scalar("a", step, 10);
    DING_LOG(INFO) << "step " << step;
    flushed_logs::sizes.clear();
    DING_ASSERT_OK_AND_ASSIGN(const LogSizes logs, run->MeasureLogs());
    LogSizes flushed;
    for (const auto& [path, bytes] : flushed_logs::sizes) {
      flushed[std::filesystem::path(path).lexically_relative(folder_ + "/exp/log").string()] =
          bytes;
    }
    EXPECT_EQ(flushed, logs);
    EXPECT_EQ(logs.size(), 4u);
  }
}

TEST_F(RunFolderTest, BelongsToOneProcessAtATime) {
  DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<RunFolder> run,
                            RunFolder::Create("exp", "", "serial", &clock_));
  EXPECT_THAT(RunFolder::Reopen("exp", {}, "serial", &clock_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is in use")));
  EXPECT_TRUE(PathExists("exp/log/metrics.csv"));
  run.reset();
  EXPECT_THAT(RunFolder::Reopen("exp", {}, "serial", &clock_), IsOk());
  EXPECT_THAT(RunFolder::Reopen("nowhere", {}, "serial", &clock_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nowhere")));
}

TEST_F(RunFolderTest, IsTakenOverFromAProcessThatIsJustEnding) {
  DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<RunFolder> run,
                            RunFolder::Create("exp", "", "serial", &clock_));
  std::thread ending([&run] {
    absl::SleepFor(absl::Milliseconds(100));
    run.reset();
  });
  EXPECT_THAT(RunFolder::Reopen("exp", {}, "serial", &clock_), IsOk());
  ending.join();
}

}  // namespace
}  // namespace ding
