#include "ding_worker/worker/testing/parallel_fixture.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/worker/processes/ask_operator.h"
#include "gmock/gmock.h"

namespace ding {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

bool SomebodyWaitsFor(const RunStatus& status, absl::string_view what) {
  return std::any_of(status.worker().begin(), status.worker().end(), [&](const auto& worker) {
    return absl::StrContains(worker.waits_for(), what);
  });
}

}  // namespace

ParallelTest::ParallelTest() {
  AdoptOrphans();
  std::string folder = absl::StrCat(testing::TempDir(), "/parallel_XXXXXX");
  folder_ = std::filesystem::canonical(mkdtemp(folder.data())).string();
}

ParallelTest::~ParallelTest() {
  EXPECT_THAT(ReapOrphans(absl::ZeroDuration()), IsEmpty()) << "processes were left";
  EXPECT_THAT(MemoryOfRuns(), IsEmpty());
  EXPECT_THAT(RemoveRecursively(folder_), IsOk());
}

std::string ParallelTest::Path(absl::string_view name) const { return JoinPath(folder_, name); }

std::string ParallelTest::RunPath(absl::string_view run) const {
  return Path(absl::StrCat(Basename(folder_), "-", run));
}

std::vector<std::string> ParallelTest::MemoryOfRuns() const {
  const absl::StatusOr<std::vector<std::string>> all =
      ListDirectory(absl::StrCat("/dev/shm/ding_worker-", geteuid()));
  std::vector<std::string> mine;
  if (!all.ok()) return mine;
  std::copy_if(all->begin(), all->end(), std::back_inserter(mine), [this](const std::string& name) {
    return absl::StartsWith(name, Basename(folder_));
  });
  return mine;
}

std::unique_ptr<RunMemoryHold> ParallelTest::HoldMemory() const {
  const std::vector<std::string> runs = MemoryOfRuns();
  EXPECT_THAT(runs, SizeIs(1));
  return std::make_unique<RunMemoryHold>(
      absl::StrCat("/dev/shm/ding_worker-", geteuid(), "/", runs.empty() ? "" : runs[0]));
}

std::vector<std::string> ParallelTest::Args(absl::string_view config, absl::string_view run,
                                            const std::vector<std::string>& more) const {
  std::vector<std::string> args = {absl::StrCat("--config=", config),
                                   absl::StrCat("--exp_dir=", RunPath(run))};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::unique_ptr<ChildProgram> ParallelTest::Start(absl::string_view name,
                                                  const std::vector<std::string>& args,
                                                  const std::function<void()>& before) const {
  return std::make_unique<ChildProgram>(program_, args, Path(name), before);
}

std::unique_ptr<ChildProgram> ParallelTest::Run(absl::string_view name,
                                                const std::vector<std::string>& args) const {
  std::unique_ptr<ChildProgram> program = Start(name, args);
  EXPECT_TRUE(program->Wait(kPatience).has_value()) << program->err();
  return program;
}

pid_t ParallelTest::CoordinatorOf(const ChildProgram& program) {
  const std::string path =
      absl::StrCat("/proc/", program.pid(), "/task/", program.pid(), "/children");
  const std::string children = ReadFile(path).value_or("");
  for (const absl::string_view child : absl::StrSplit(children, ' ', absl::SkipWhitespace())) {
    const std::string arguments = ReadFile(absl::StrCat("/proc/", child, "/cmdline")).value_or("");
    if (absl::StrContains(arguments, "--role=coordinator")) return std::stoi(std::string(child));
  }
  return 0;
}

void ParallelTest::Interrupt(ChildProgram* program) {
  kill(program->pid(), SIGINT);
  EXPECT_EQ(program->Wait(kPatience), 128 + SIGINT) << program->err();
}

std::string ParallelTest::WaitForAddress(const ChildProgram& program) const {
  EXPECT_TRUE(Eventually(
      [&] { return !CoordinatorAddress(program).empty() || !program.IsRunning(); }, kPatience));
  EXPECT_FALSE(CoordinatorAddress(program).empty()) << program.err();
  return CoordinatorAddress(program);
}

absl::StatusOr<RunStatus> ParallelTest::Ask(const std::string& address) {
  return AskStatus(address, "test", absl::Seconds(30), &transport_);
}

RunStatus ParallelTest::WaitForStatus(const ChildProgram& program,
                                      const std::function<bool(const RunStatus&)>& wanted) {
  RunStatus last;
  const std::string address = WaitForAddress(program);
  const bool found = Eventually(
      [&] {
        const absl::StatusOr<RunStatus> status = Ask(address);
        if (status.ok()) last = *status;
        return !status.ok() || wanted(*status);
      },
      kPatience);
  EXPECT_TRUE(found && wanted(last)) << last.DebugString() << program.err();
  return last;
}

bool ParallelTest::IsTraining(const RunStatus& status) {
  return status.worker_size() == 3 && status.train_iter() > 0 && status.policy_version() > 1;
}

const WorkerStatus* ParallelTest::Find(const RunStatus& status, absl::string_view name) {
  for (const WorkerStatus& worker : status.worker()) {
    if (worker.name() == name) return &worker;
  }
  return nullptr;
}

int64_t ParallelTest::PidOf(const RunStatus& status, absl::string_view name) {
  const WorkerStatus* const worker = Find(status, name);
  return worker == nullptr ? 0 : worker->pid();
}

std::string ParallelTest::Log(absl::string_view run, absl::string_view process) const {
  return ReadFile(JoinPath(RunPath(run), absl::StrCat("log/", process, "_logger.txt")))
      .value_or("");
}

std::string ParallelTest::Events(absl::string_view run, absl::string_view worker) const {
  return ReadFile(JoinPath(RunPath(run), absl::StrCat("log/", worker, "events.jsonl")))
      .value_or("");
}

void ParallelTest::ExpectGoesOn(const ChildProgram& program) {
  const RunStatus now = WaitForStatus(program, IsTraining);
  WaitForStatus(program, [&](const RunStatus& status) {
    return status.envstep() > now.envstep() + 1000 &&
           status.policy_version() > now.policy_version();
  });
}

void PausesTest::ExpectPauses(const ChildProgram& program) {
  WaitForStatus(program,
                [](const RunStatus& status) { return SomebodyWaitsFor(status, "the store "); });
}

void PausesTest::ExpectIsOver(const ChildProgram& program) {
  ExpectGoesOn(program);
  WaitForStatus(program,
                [](const RunStatus& status) { return !SomebodyWaitsFor(status, "the store "); });
}

}  // namespace ding
