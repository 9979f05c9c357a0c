#include "ding_worker/worker/program/program.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/metrics/testing/screen.h"
#include "gflags/gflags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

DEFINE_string(test_path, "", "a flag with a value");
DEFINE_bool(test_switch, false, "a flag without one");

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

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
  EXPECT_EQ(argc, 1) << "what reads the other flags would call it unknown";
}

TEST(TakeRepeatedTest, LeavesFlagsThatBeginAlike) {
  std::vector<std::string> words = {"evaluate", "--checkpoint=a", "--checkpoints", "-checkpoint",
                                    "b"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(words.size());
  std::vector<std::string> values;
  EXPECT_THAT(TakeRepeated("checkpoint", "FOLDER", &argc, argv.data(), &values), IsOk());
  EXPECT_THAT(values, ElementsAre("a", "b"));
  EXPECT_THAT(std::vector<std::string>(argv.begin(), argv.begin() + argc),
              ElementsAre("evaluate", "--checkpoints"));
}

// Returns the exit status of a process that calls `act`.
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

TEST(ExitGuardTest, ExitWithinTheGuardIsAFailure) {
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

TEST(ExitGuardTest, AfterTheGuardExitIsUnchanged) {
  EXPECT_EQ(StatusOf([] { ExitGuard guard("the run is lost"); }), 0);
}

// For example, a child that cannot execute a program calls exit().
TEST(ExitGuardTest, AChildOfTheProcessMayCallExit) {
  const ExitGuard guard("the run is lost");
  EXPECT_EQ(StatusOf([] { exit(0); }), 0);
}

TEST(ExplainCrashesDeathTest, ACrash_WritesTheSignalAndTheAdvice) {
  const auto crash = [] {
    signal(SIGABRT, SIG_DFL);
    ExplainCrashes("envs of type subprocess survive it");
    abort();
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGABRT),
              "crashed by SIGABRT: envs of type subprocess survive it");
}

TEST(ExplainCrashesDeathTest, ASignalThatIsHandledAlready_IsLeftAlone) {
  const auto crash = [] {
    signal(SIGABRT, [](int) { _exit(7); });
    ExplainCrashes("nobody sees it");
    abort();
  };
  EXPECT_EXIT(crash(), testing::ExitedWithCode(7), "");
}

// This runs in a child, since a process can set up gflags and glog only once.
TEST(InitProgramTest, AFileSizeLimitIsAnErrorAndNotASignal) {
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

// Starts the program with these arguments.
void Init(std::vector<std::string> words) {
  words.insert(words.begin(), "program");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int argc = static_cast<int>(words.size());
  char** argv = arguments.data();
  InitProgram(&argc, &argv, "the help page\n");
  std::exit(17);
}

TEST(InitProgramDeathTest, AFlagThatDoesNotExistNamesTheNearestOne) {
  const auto refused = testing::ExitedWithCode(1);
  EXPECT_EXIT(Init({"--test_paht=x"}), refused,
              "program: there is no flag --test_paht; did you mean --test_path\\? \\(--help lists");
  EXPECT_EXIT(Init({"--help_confg"}), refused, "did you mean --help_config\\?");
  EXPECT_EXIT(Init({"--qwertyuiop=3"}), refused, "there is no flag --qwertyuiop \\(--help lists");
  EXPECT_EXIT(Init({"--notest_path"}), refused, "there is no flag --notest_path");
}

TEST(InitProgramDeathTest, FlagsThatExistAndTheirValuesArePassed) {
  const auto passed = testing::ExitedWithCode(17);
  EXPECT_EXIT(Init({"--test_path", "--no_flag", "--test_switch"}), passed, "");
  EXPECT_EXIT(Init({"-test_path=x", "--notest_switch"}), passed, "");
  EXPECT_EXIT(Init({"--test_path=x", "more"}), testing::ExitedWithCode(1),
              "unexpected argument 'more'");
}

TEST(InitProgramDeathTest, TheHelpOfAPathThatDoesNotExistIsRefusedWithSuggestions) {
  EXPECT_EXIT(Init({"--help_config=policy.lern"}), testing::ExitedWithCode(1),
              "program: --help_config: no field 'lern' in 'policy'; did you mean 'learn'\\?");
}

TEST(InitProgramDeathTest, HelpOfTheConfigIsPrinted) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--help_config=policy.learn.batch_size"},
        std::vector<std::string>{"--help_config", "policy.learn.batch_size"},
        std::vector<std::string>{"--help_config", "--test_path=x"}}) {
    EXPECT_EXIT(
        {
          dup2(STDERR_FILENO, STDOUT_FILENO);
          Init(words);
        },
        testing::ExitedWithCode(0), "policy.learn.batch_size = 64 ");
  }
}

// Returns what this process writes to stderr while `act` runs, if stderr is a terminal of 120
// columns.
std::string OnTerminal(const std::function<void()>& act) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_TRUE(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
  const int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  EXPECT_GE(other_end, 0);
  termios raw;  // The terminal must not change newlines.
  tcgetattr(other_end, &raw);
  cfmakeraw(&raw);
  tcsetattr(other_end, TCSANOW, &raw);
  winsize size = {};
  size.ws_col = 120;
  ioctl(other_end, TIOCSWINSZ, &size);
  const int stderr_before = dup(STDERR_FILENO);
  dup2(other_end, STDERR_FILENO);
  act();
  dup2(stderr_before, STDERR_FILENO);
  close(stderr_before);
  close(other_end);
  // Reads everything that was written, until nobody can write any more.
  std::string text;
  char part[512];
  for (ssize_t count = 0; (count = read(terminal, part, sizeof(part))) > 0;) {
    text.append(part, static_cast<size_t>(count));
  }
  close(terminal);
  return text;
}

TEST(InitProgramTest, ALogLineBesideAProgressLineIsOnALineOfItsOwn) {
  setenv("TERM", "xterm", 1);
  setenv("NO_COLOR", "1", 1);
  std::vector<std::string> words = {"program"};
  std::vector<char*> arguments = {words[0].data(), nullptr};
  int argc = 1;
  char** argv = arguments.data();
  InitProgram(&argc, &argv, "");
  Screen screen(120);
  screen.Write(OnTerminal([] {
    ProgressOptions options = ProgressTo(stderr);
    EXPECT_EQ(options.style, ProgressStyle::kLine);
    EXPECT_FALSE(options.colors) << "NO_COLOR";
    Progress progress(options);
    ProgressState state;
    state.env_step = 7;
    progress.Update(state);
    DING_LOG(WARNING) << "rows are dropped";
    DING_LOG(INFO) << "not for the terminal";
    EXPECT_EQ(ReportFailure(absl::InternalError("it failed")), 1);
    progress.Finish();
  }));
  EXPECT_THAT(screen.Lines(),
              ElementsAre(AllOf(StartsWith("W"), EndsWith("rows are dropped")),
                          EndsWith(": it failed"), StartsWith("env_step 7  train_iter 0"), ""));
}

TEST(ProgressToTest, ObeysTheWidthOfTheTerminalWhenItChangesAndItsColors) {
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  SimulatedClock clock;
  const std::string text = OnTerminal([&clock] {
    ProgressOptions options = ProgressTo(stderr);
    EXPECT_TRUE(options.colors);
    options.clock = &clock;
    options.max_env_step = 1000;
    Progress progress(options);
    for (const unsigned short columns : {40, 20, 40}) {
      winsize size = {};
      size.ws_col = columns;
      ioctl(STDERR_FILENO, TIOCSWINSZ, &size);
      clock.Advance(absl::Seconds(1));
      ProgressState state;
      state.env_step = columns;
      state.last_eval = state.best_eval = 9.5;
      progress.Update(state);
    }
    setenv("TERM", "dumb", 1);
    EXPECT_EQ(ProgressTo(stderr).style, ProgressStyle::kPlain);
    EXPECT_FALSE(ProgressTo(stderr).colors);
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    EXPECT_FALSE(ProgressTo(stderr).colors);
  });
  const std::vector<std::string> drawn = absl::StrSplit(text, '\r', absl::SkipEmpty());
  ASSERT_EQ(drawn.size(), 4u) << "the last one is drawn at the end";
  EXPECT_EQ(drawn[0],
            "40/1000 4%  \x1b[32meval 9.5\x1b[0m  \x1b[2m40.0/s\x1b[0m  \x1b[2mleft 0:24\x1b[0m");
  EXPECT_EQ(drawn[1], "20 2%  \x1b[32meval 9.5\x1b[0m    ");
  EXPECT_THAT(drawn[2], StartsWith("40/1000 4%  \x1b[32meval 9.5\x1b[0m"));
}

}  // namespace
}  // namespace ding
