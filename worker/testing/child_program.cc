#include "ding_worker/worker/testing/child_program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"

namespace ding {
namespace {

constexpr absl::Duration kPollPeriod = absl::Milliseconds(5);

int CodeOf(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -WTERMSIG(wait_status);
}

}  // namespace

ChildProgram::ChildProgram(const std::string& path, const std::vector<std::string>& args,
                           std::string log, const std::function<void()>& before)
    : log_(std::move(log)) {
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const std::string out = absl::StrCat(log_, ".out");
  const std::string err = absl::StrCat(log_, ".err");
  pid_ = fork();
  DING_CHECK(pid_ >= 0) << "cannot fork";
  if (pid_ != 0) return;
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644), STDERR_FILENO);
  if (before != nullptr) before();
  execv(argv[0], argv.data());
  dprintf(STDERR_FILENO, "cannot execute %s: %s\n", argv[0], strerror(errno));
  _exit(127);
}

ChildProgram::~ChildProgram() {
  if (ended_.has_value()) return;
  kill(pid_, SIGKILL);
  int wait_status = 0;
  waitpid(pid_, &wait_status, 0);
}

bool ChildProgram::IsRunning() const {
  siginfo_t info = {};
  return !ended_.has_value() &&
         waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

std::optional<int> ChildProgram::Wait(absl::Duration timeout) {
  Eventually([this] { return !IsRunning(); }, timeout);
  int wait_status = 0;
  if (!ended_.has_value() && waitpid(pid_, &wait_status, WNOHANG) == pid_) {
    ended_ = CodeOf(wait_status);
  }
  return ended_;
}

std::string ChildProgram::out() const { return ReadFile(absl::StrCat(log_, ".out")).value_or(""); }
std::string ChildProgram::err() const { return ReadFile(absl::StrCat(log_, ".err")).value_or(""); }

bool Eventually(const std::function<bool()>& condition, absl::Duration timeout) {
  const Deadline deadline = Deadline::After(timeout);
  while (!condition()) {
    if (deadline.Passed()) return false;
    absl::SleepFor(kPollPeriod);
  }
  return true;
}

std::string CoordinatorAddress(const ChildProgram& program) {
  const std::string text = program.err();
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  // The last line may be half written.
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    absl::string_view line = lines[i];
    if (absl::ConsumePrefix(&line, "coordinator: ")) return std::string(line);
  }
  return "";
}

void AdoptOrphans() { DING_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0); }

std::vector<Orphan> ReapOrphans(absl::Duration timeout) {
  std::vector<Orphan> orphans;
  const Deadline deadline = Deadline::After(timeout);
  while (true) {
    int wait_status = 0;
    const pid_t pid = waitpid(-1, &wait_status, WNOHANG);
    if (pid < 0) return orphans;
    if (pid > 0) {
      orphans.push_back({pid, CodeOf(wait_status)});
    } else if (deadline.Passed()) {
      siginfo_t info = {};
      // Kills all children that are alive; /proc/self/task/<tid>/children lists them.
      const std::string path = absl::StrCat("/proc/self/task/", getpid(), "/children");
      const std::string children = ReadFile(path).value_or("");
      for (const absl::string_view child : absl::StrSplit(children, ' ', absl::SkipWhitespace())) {
        kill(std::stoi(std::string(child)), SIGKILL);
      }
      waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
    } else {
      absl::SleepFor(kPollPeriod);
    }
  }
}

}  // namespace ding
