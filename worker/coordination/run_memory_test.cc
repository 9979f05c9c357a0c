#include "ding_worker/worker/coordination/run_memory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunMemoryTest : public testing::Test {
 protected:
  RunMemoryTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/run_memory_XXXXXX");
    folder_ = mkdtemp(folder.data());
    base_ = JoinPath(folder_, "base");
  }
  ~RunMemoryTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  // Creates a run whose process is killed in the middle of it.
  void KillRun(const std::string& name) {
    const pid_t pid = fork();
    if (pid == 0) {
      const auto memory = RunMemory::Create(base_, name);
      if (memory.ok()) (void)WriteFileAtomically(JoinPath((*memory)->path(), "data"), "rows");
      raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(PathExists(JoinPath(JoinPath(base_, name), "data")));
  }

  std::string folder_;
  std::string base_;
};

TEST_F(RunMemoryTest, KeptMemoryStaysUntilItsRunHasContinued) {
  KillRun("a");
  KillRun("b");
  const std::string path = JoinPath(base_, "a");
  EXPECT_FALSE(IsKeptRunMemory(path));
  EXPECT_THAT(KeepRunMemory(path), IsOk());
  EXPECT_THAT(KeepRunMemory(path), IsOk()) << "again";
  EXPECT_THAT(KeepRunMemory(JoinPath(base_, "none")), IsOk());
  EXPECT_TRUE(IsKeptRunMemory(path));
  EXPECT_THAT(RemoveDeadRuns(base_), ElementsAre("b"));
  EXPECT_THAT(RemoveRunMemory(path), IsOk());
  EXPECT_TRUE(PathExists(JoinPath(path, "data")));
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto memory, RunMemory::Reopen(base_, "a"));
    EXPECT_TRUE(PathExists(JoinPath(path, "data")));
    memory->Keep();
  }
  EXPECT_THAT(RemoveDeadRuns(base_), IsEmpty());
  { DING_ASSERT_OK_AND_ASSIGN(const auto memory, RunMemory::Reopen(base_, "a")); }
  EXPECT_FALSE(PathExists(path));
}

TEST_F(RunMemoryTest, OnlyTheMemoryOfADeadRunIsRemoved) {
  DING_ASSERT_OK_AND_ASSIGN(const auto memory, RunMemory::Create(base_, "alive"));
  EXPECT_THAT(RemoveRunMemory(memory->path()), IsOk());
  EXPECT_TRUE(PathExists(memory->path()));
  KillRun("dead");
  EXPECT_THAT(RemoveRunMemory(JoinPath(base_, "dead")), IsOk());
  EXPECT_FALSE(PathExists(JoinPath(base_, "dead")));
}

TEST_F(RunMemoryTest, IsGoneWithItsRun) {
  std::string path;
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto memory, RunMemory::Create(base_, "a"));
    path = memory->path();
    EXPECT_EQ(path, JoinPath(base_, "a"));
    EXPECT_THAT(WriteFileAtomically(JoinPath(path, "data"), "rows"), IsOk());
    EXPECT_THAT(RunMemory::Create(base_, "a"), StatusIs(absl::StatusCode::kAlreadyExists));
  }
  EXPECT_FALSE(PathExists(path));
}

TEST_F(RunMemoryTest, TheFoldersOfDeadRunsAreRemovedAndNoOthers) {
  DING_ASSERT_OK_AND_ASSIGN(const auto alive, RunMemory::Create(base_, "alive"));
  KillRun("dead");
  ASSERT_THAT(CreateDirectories(JoinPath(base_, "other")), IsOk());
  EXPECT_THAT(RemoveDeadRuns(base_), ElementsAre("dead"));
  DING_ASSERT_OK_AND_ASSIGN(const auto left, ListDirectory(base_));
  EXPECT_THAT(left, ElementsAre("alive", "other"));
  EXPECT_THAT(RemoveDeadRuns(base_), IsEmpty());
  EXPECT_THAT(RemoveDeadRuns(JoinPath(folder_, "nothing")), IsEmpty());
}

TEST_F(RunMemoryTest, ASymbolicLinkIsNotUsed) {
  ASSERT_EQ(symlink(folder_.c_str(), base_.c_str()), 0);
  EXPECT_THAT(RunMemory::Create(base_, "a"),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("system.store_url")));
}

TEST_F(RunMemoryTest, AContinuedRunFindsItsMemoryUnchanged) {
  KillRun("a");
  {
    // A process that watches the run keeps it from being removed while its coordinator is
    // restarted.
    const RunMemoryHold hold(JoinPath(base_, "a"));
    EXPECT_THAT(RemoveDeadRuns(base_), IsEmpty());
    DING_ASSERT_OK_AND_ASSIGN(const auto memory, RunMemory::Reopen(base_, "a"));
    EXPECT_TRUE(PathExists(JoinPath(memory->path(), "data")));
    memory->Keep();
  }
  EXPECT_TRUE(PathExists(JoinPath(base_, "a")));
  EXPECT_THAT(RemoveDeadRuns(base_), ElementsAre("a"));
  DING_ASSERT_OK_AND_ASSIGN(const auto memory, RunMemory::Reopen(base_, "a"));
  EXPECT_TRUE(PathExists(memory->path())) << "made anew";
  EXPECT_FALSE(PathExists(JoinPath(memory->path(), "data")));
  const RunMemoryHold nothing(JoinPath(base_, "b"));
}

TEST_F(RunMemoryTest, AHalfMadeFolderIsMadeAgain) {
  ASSERT_THAT(CreateDirectories(JoinPath(base_, "run")), IsOk());
  ASSERT_THAT(WriteFileAtomically(JoinPath(base_, "run/.lock.new"), ""), IsOk());
  EXPECT_THAT(RemoveDeadRuns(base_), IsEmpty()) << "nobody knows whose that is";
  EXPECT_THAT(RunMemory::Create(base_, "run"), StatusIs(absl::StatusCode::kAlreadyExists));
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RunMemory> memory,
                            RunMemory::Reopen(base_, "run"));
  EXPECT_TRUE(PathExists(JoinPath(memory->path(), ".lock")));
}

}  // namespace
}  // namespace ding
