#include "ding_worker/worker/program.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TakeSettingsTest, TakesEverySettingInOrderAndLeavesTheRest) {
  std::vector<std::string> words = {"serial",    "--set",       "a=1",    "--config=c", "-set",
                                    "b.c=[1,2]", "--set=d=x y", "--seed", "3"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(words.size());
  std::vector<std::string> settings;
  EXPECT_THAT(TakeSettings(&argc, argv.data(), &settings), IsOk());
  EXPECT_THAT(settings, ElementsAre("a=1", "b.c=[1,2]", "d=x y"));
  EXPECT_THAT(std::vector<std::string>(argv.begin(), argv.begin() + argc),
              ElementsAre("serial", "--config=c", "--seed", "3"));
}

TEST(TakeSettingsTest, ASettingNeedsAValue) {
  std::vector<std::string> words = {"serial", "--set"};
  std::vector<char*> argv = {words[0].data(), words[1].data(), nullptr};
  int argc = 2;
  std::vector<std::string> settings;
  EXPECT_THAT(TakeSettings(&argc, argv.data(), &settings),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("path=value")));
}

// How a process ends that does it.
int StatusOf(const std::function<void()>& act) {
  const pid_t pid = fork();
  if (pid == 0) {
    act();
    exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST(ExitGuardTest, ACallOfExitIsNoEndOfARun) {
  EXPECT_EQ(StatusOf([] {
              const ExitGuard guard("the run is lost");
              exit(0);
            }),
            1);
  EXPECT_EQ(StatusOf([] {
              const ExitGuard guard("the run is lost");
              exit(7);
            }),
            7);
}

TEST(ExitGuardTest, WithoutAGuardExitIsAsEver) {
  EXPECT_EQ(StatusOf([] { ExitGuard guard("the run is lost"); }), 0);
}

// One that starts a program, and cannot, say.
TEST(ExitGuardTest, AChildOfTheProcessMayCallExit) {
  const ExitGuard guard("the run is lost");
  EXPECT_EQ(StatusOf([] { exit(0); }), 0);
}

// In a child: it sets up gflags and glog, which a process does once.
TEST(InitProgramTest, AFileThatMayNotGrowIsAnErrorAndNotTheEnd) {
  const std::string path = JoinPath(FreshTestFolder(), "f");
  const pid_t pid = fork();
  if (pid == 0) {
    std::string name = "program";
    char* words[] = {name.data(), nullptr};
    char** argv = words;
    int argc = 1;
    InitProgram(&argc, &argv, "help");
    const rlimit limit = {100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    const absl::Status written = WriteFileAtomically(path, std::string(200, 'x'));
    _exit(absl::IsResourceExhausted(written) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace ding
