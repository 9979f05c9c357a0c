// Tests parallel runs whose store in the file system is away, full or read-only for a time.

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/worker/testing/child_program.h"
#include "ding_worker/worker/testing/parallel_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class StoreTest : public PausesTest {
 protected:
  void SetUp() override { ASSERT_THAT(CreateDirectories(Path("store")), IsOk()); }

  std::unique_ptr<ChildProgram> StartWithStore(const std::function<void()>& before) {
    return Start("run",
                 Args(kSoakConfig, "a",
                      {kForever, kLongLease, kFewPolicies,
                       absl::StrCat("--set=system.store_url=file:", Path("store"))}),
                 before);
  }
};

TEST_F(StoreTest, MayBeGoneForATime) {
  const auto program = StartWithStore({});
  WaitForStatus(*program, IsTraining);
  ASSERT_EQ(rename(Path("store").c_str(), Path("away").c_str()), 0);
  ExpectPauses(*program);
  ASSERT_EQ(rename(Path("away").c_str(), Path("store").c_str()), 0);
  ExpectIsOver(*program);
  EXPECT_EQ(WaitForStatus(*program, IsTraining).workers_lost(), 0);
  Interrupt(program.get());
  DING_ASSERT_OK_AND_ASSIGN(const auto left, ListDirectory(Path("store")));
  EXPECT_THAT(left, IsEmpty());
}

// The program runs in a mount namespace of its own, with a small file system as the store.
class SmallStoreTest : public StoreTest {
 protected:
  // Returns false if this machine does not allow it.
  static bool EnterNamespace() {
    const auto write_all = [](const char* path, const std::string& text) {
      const int fd = open(path, O_WRONLY | O_CLOEXEC);
      const bool written = fd >= 0 && write(fd, text.data(), text.size()) > 0;
      close(fd);
      return written;
    };
    const std::string uid = absl::StrCat(geteuid(), " ", geteuid(), " 1");
    const std::string gid = absl::StrCat(getegid(), " ", getegid(), " 1");
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_all("/proc/self/setgroups", "deny") &&
           write_all("/proc/self/uid_map", uid) && write_all("/proc/self/gid_map", gid) &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  }
  static void MountOrExit(const std::string& folder) {
    if (!EnterNamespace() || mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64m") != 0) {
      _exit(kNotAllowed);
    }
  }
  // Remounts a folder in the program's namespaces. This happens in a process with one thread, which
  // namespaces demand.
  static bool Remount(const ChildProgram& program, const std::string& folder, unsigned long flags,
                      const std::string& options, bool again = true) {
    if (again) flags |= MS_REMOUNT;
    const pid_t pid = fork();
    if (pid == 0) {
      const auto enter = [&](const char* kind, int type) {
        const std::string path = absl::StrCat("/proc/", program.pid(), "/ns/", kind);
        return setns(open(path.c_str(), O_RDONLY | O_CLOEXEC), type) == 0;
      };
      _exit(enter("user", CLONE_NEWUSER) && enter("mnt", CLONE_NEWNS) &&
                    mount("tmpfs", folder.c_str(), "tmpfs", flags, options.c_str()) == 0
                ? 0
                : 1);
    }
    return ReapChild(pid) == 0;
  }
  // Mounts an empty file system on a folder, so that the folder cannot be removed.
  static bool MountOn(const ChildProgram& program, const std::string& folder) {
    return Remount(program, folder, 0, "size=64k", /*again=*/false);
  }
  static int ReapChild(pid_t pid) {
    int wait_status = 0;
    return waitpid(pid, &wait_status, 0) == pid && WIFEXITED(wait_status) ? WEXITSTATUS(wait_status)
                                                                          : -1;
  }

  void SetUp() override {
    StoreTest::SetUp();
    const pid_t pid = fork();
    if (pid == 0) {
      MountOrExit(Path("store"));
      _exit(0);
    }
    if (ReapChild(pid) != 0) {
      const char* const left_out = std::getenv("DING_TEST_WITHOUT_NAMESPACES");
      if (left_out != nullptr && std::strcmp(left_out, "1") == 0) {
        GTEST_SKIP() << "left out by DING_TEST_WITHOUT_NAMESPACES=1";
      }
      FAIL() << "this machine does not allow mount namespaces (unshare --user --map-root-user "
                "--mount): allow them, or leave the tests out that need them by "
                "--test_env=DING_TEST_WITHOUT_NAMESPACES=1; see docs/explanation/testing.md";
    }
    program_run_ = StartWithStore([this] { MountOrExit(Path("store")); });
    WaitForStatus(*program_run_, IsTraining);
  }

  static constexpr int kNotAllowed = 99;
  std::unique_ptr<ChildProgram> program_run_;
};

TEST_F(SmallStoreTest, MayBeFullForATime) {
  // The file system cannot be made smaller than its content. At the smallest possible size it is
  // full, or will be soon.
  const auto resize = [this](int kilobytes) {
    return Remount(*program_run_, Path("store"), 0, absl::StrCat("size=", kilobytes, "k"));
  };
  int kilobytes = 512;
  while (!resize(kilobytes)) kilobytes += 16;
  ExpectPauses(*program_run_);
  EXPECT_TRUE(Remount(*program_run_, Path("store"), 0, "size=64m"));
  ExpectIsOver(*program_run_);
  EXPECT_EQ(WaitForStatus(*program_run_, IsTraining).workers_lost(), 0);
  Interrupt(program_run_.get());
}

TEST_F(SmallStoreTest, MayBeReadOnlyForATime) {
  // The file system is busy for as long as a file is open for writing.
  EXPECT_TRUE(
      Eventually([&] { return Remount(*program_run_, Path("store"), MS_RDONLY, "size=64m"); }));
  ExpectPauses(*program_run_);
  EXPECT_TRUE(Remount(*program_run_, Path("store"), 0, "size=64m"));
  ExpectIsOver(*program_run_);
  EXPECT_EQ(WaitForStatus(*program_run_, IsTraining).workers_lost(), 0);
  Interrupt(program_run_.get());
}

// A small file system is mounted on the folder for saved data, and becomes full.
TEST_F(SmallStoreTest, UnsavedDataStayAndTheExitStatusReportsIt) {
  Interrupt(program_run_.get());
  auto program =
      Start("memory", Args(kSoakConfig, "b", {kForever}), [this] { MountOrExit(Path("store")); });
  const RunStatus before = WaitForStatus(*program, IsTraining);
  const std::string saved = JoinPath(RunPath("b"), "coordinator/saved");
  ASSERT_THAT(CreateDirectories(saved), IsOk());
  ASSERT_TRUE(MountOn(*program, saved));
  kill(program->pid(), SIGINT);
  EXPECT_EQ(program->Wait(kPatience), 3) << program->err();
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr("are not saved; they stay in /dev/shm/ding_worker-"),
                    HasSubstr(absl::StrCat("parallel --resume --exp_dir=", RunPath("b"))),
                    HasSubstr("coordinator/saved")));
  EXPECT_THAT(program->out(), HasSubstr("result {"));
  const auto other = Run("other", Args(kConfig, "c", {"--max_train_iter=20"}));
  EXPECT_EQ(other->Wait(kPatience), 0) << other->err();
  ASSERT_THAT(MemoryOfRuns(), SizeIs(1));
  program = Start("goes_on", Args(kSoakConfig, "b", {kForever, "--resume"}));
  const RunStatus after = WaitForStatus(*program, [](const RunStatus& status) {
    return IsTraining(status) && status.buffer_size() == 1;
  });
  EXPECT_GE(after.envstep(), before.envstep());
  EXPECT_EQ(after.buffer(0).lost_count(), 0);
  EXPECT_THAT(Log("b", "coordinator"), Not(HasSubstr("goes on with 0 of ")));
  Interrupt(program.get());
}

}  // namespace
}  // namespace ding
