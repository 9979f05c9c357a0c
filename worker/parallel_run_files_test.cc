// Tests parallel runs whose files are in the store (system.run_files: STORE): the processes share
// no folder.

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/worker/testing/child_program.h"
#include "ding_worker/worker/testing/parallel_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;

class RunFilesInStoreTest : public ParallelTest {
 protected:
  void SetUp() override {
    DING_ASSERT_OK_AND_ASSIGN(redis_, RedisServer::Start({}));
    for (const char* name : {"tmp", "learner", "collector"}) {
      ASSERT_THAT(CreateDirectories(Path(name)), IsOk());
    }
    ASSERT_EQ(setenv("TMPDIR", Path("tmp").c_str(), 1), 0);
  }
  void TearDown() override {
    EXPECT_THAT(PrivateFolders(), IsEmpty());
    redis_.reset();
  }

  std::vector<std::string> StoreArgs(std::vector<std::string> more) {
    more.push_back(absl::StrCat("--set=system.store_url=", redis_->Url("runs")));
    more.push_back("--set=system.run_files=STORE");
    more.push_back(kLongLease);
    return more;
  }
  // Starts a worker in a folder of its own, with the address of the coordinator and nothing else.
  std::unique_ptr<ChildProgram> StartWorker(const std::string& address, const std::string& role,
                                            const std::string& name) {
    const std::string folder = Path(role);
    const std::string program = std::filesystem::absolute(program_).string();
    return std::make_unique<ChildProgram>(
        program,
        std::vector<std::string>{absl::StrCat("--role=", role), absl::StrCat("--name=", name),
                                 absl::StrCat("--coordinator=", address)},
        Path(name), [folder] {
          if (chdir(folder.c_str()) != 0) _exit(99);
        });
  }
  // The URL that the coordinator prints.
  static std::string UrlOf(const ChildProgram& program) {
    const std::string kLabel = "run files: ";
    const std::string err = program.err();
    const size_t begin = err.find(kLabel);
    EXPECT_NE(begin, std::string::npos) << err;
    if (begin == std::string::npos) return "";
    const size_t url = begin + kLabel.size();
    return err.substr(url, err.find('\n', url) - url);
  }
  // Fetches the run with ctl, and returns its files.
  std::map<std::string, std::string> FetchFiles(const std::string& url, const std::string& folder,
                                                const std::vector<std::string>& flags = {}) {
    std::vector<std::string> args = {"fetch", url, Path(folder)};
    args.insert(args.end(), flags.begin(), flags.end());
    ChildProgram ctl("worker/ctl", args, Path("ctl"), {});
    EXPECT_EQ(ctl.Wait(kPatience), 0) << ctl.err();
    return Files(Path(folder));
  }
  static std::map<std::string, std::string> Files(const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      files[entry.path().lexically_relative(folder).string()] =
          ReadFile(entry.path().string()).value_or("(unreadable)");
    }
    return files;
  }
  static int Count(absl::string_view text, absl::string_view what) {
    int count = 0;
    for (size_t at = 0; (at = text.find(what, at)) != text.npos; ++at) ++count;
    return count;
  }
  std::vector<std::string> PrivateFolders() const {
    const std::string base = JoinPath(Path("tmp"), absl::StrCat("ding_worker_files-", geteuid()));
    return ListDirectory(base).value_or(std::vector<std::string>());
  }

  std::unique_ptr<RedisServer> redis_;
};

TEST_F(RunFilesInStoreTest, ConvergesAndLeavesTheFolderOfAnyRun) {
  const auto program = Run("run", Args(kConfig, "a", StoreArgs({"--seed=0"})));
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  EXPECT_THAT(program->out(), HasSubstr("\"stop\":true"));
  const std::map<std::string, std::string> here = Files(RunPath("a"));
  const auto fetched = FetchFiles(UrlOf(*program), "fetched", {"--follow"});
  EXPECT_EQ(fetched, here);
  for (const char* file :
       {"total_config.textproto", "result.json", "ckpt/ckpt_best/manifest.json",
        "ckpt/learner_resume/manifest.json", "log/metrics.csv", "log/learner-0.csv",
        "log/learner-0_logger.txt", "log/collector-1_logger.txt", "coordinator/run.textproto"}) {
    EXPECT_THAT(fetched, Contains(Key(file)));
  }
  // On a machine that has nothing of it, the run is known to have converged.
  const auto again = Run("again", {absl::StrCat("--exp_dir=", RunPath("b")), "--resume",
                                   absl::StrCat("--run_store=", UrlOf(*program))});
  EXPECT_EQ(again->Wait(kPatience), 0) << again->err();
  EXPECT_EQ(again->out(), program->out());

  FetchFiles(UrlOf(*program), "fetched", {"--remove"});
  EXPECT_EQ(
      redis_->Command({"EVAL", "return #redis.call('KEYS', 'runs/*.files/*') .. ''", "0"}).value(),
      "0");
}

TEST_F(RunFilesInStoreTest, WorkersNeedNoFolderAndALearnerContinuesFromTheStore) {
  std::vector<std::string> args = Args(kSoakConfig, "a", StoreArgs({kForever, kFewPolicies}));
  args.push_back("--role=coordinator");
  auto coordinator = Start("coordinator", args);
  const std::string address = WaitForAddress(*coordinator);
  auto learner = StartWorker(address, "learner", "one");
  std::vector<std::unique_ptr<ChildProgram>> collectors;
  for (const char* name : {"c0", "c1"}) {
    collectors.push_back(StartWorker(address, "collector", name));
  }
  WaitForStatus(*coordinator, IsTraining);
  const std::string url = UrlOf(*coordinator);
  // Once it has published a checkpoint, its death loses no more than what came after.
  EXPECT_TRUE(Eventually(
      [&] { return FetchFiles(url, "fetched").count("ckpt/learner_resume/manifest.json") > 0; }));
  EXPECT_FALSE(PathExists(JoinPath(RunPath("a"), "ckpt/learner_resume")));
  kill(learner->pid(), SIGKILL);
  EXPECT_EQ(learner->Wait(kPatience), -SIGKILL);
  learner = StartWorker(address, "learner", "one");
  const RunStatus after = WaitForStatus(*coordinator, [](const RunStatus& status) {
    return status.workers_lost() == 1 && IsTraining(status);
  });
  EXPECT_TRUE(Eventually([&] {
    const std::string log = FetchFiles(url, "fetched")["log/one_logger.txt"];
    return Count(log, "one is worker ") == 2 && absl::StrContains(log, ": loaded checkpoint ");
  })) << FetchFiles(url, "fetched")["log/one_logger.txt"];

  kill(coordinator->pid(), SIGINT);
  EXPECT_EQ(coordinator->Wait(kPatience), 128 + SIGINT) << coordinator->err();
  EXPECT_EQ(learner->Wait(kPatience), 0) << learner->err();
  for (const auto& collector : collectors) EXPECT_EQ(collector->Wait(kPatience), 0);
  EXPECT_THAT(Files(Path("learner")), IsEmpty()) << "nothing is written where a worker works";
  EXPECT_EQ(FetchFiles(url, "fetched"), Files(RunPath("a")));

  // Another machine goes on: it has neither the run's folder nor any other file of it.
  ASSERT_THAT(RemoveRecursively(RunPath("a")), IsOk());
  const auto elsewhere = Start("elsewhere", {absl::StrCat("--exp_dir=", RunPath("b")), "--resume",
                                             absl::StrCat("--run_store=", url)});
  const RunStatus resumed = WaitForStatus(*elsewhere, [](const RunStatus& status) {
    return IsTraining(status) && status.buffer_size() == 1;
  });
  EXPECT_EQ(resumed.run(), after.run());
  EXPECT_GE(resumed.envstep(), after.envstep());
  EXPECT_EQ(resumed.buffer(0).lost_count(), 0);
  Interrupt(elsewhere.get());
  EXPECT_THAT(Log("b", "learner-0"), HasSubstr(": loaded checkpoint "));
  EXPECT_EQ(Count(Log("b", "coordinator"), " acknowledged"), 2) << "the end of both coordinators";
  EXPECT_THAT(Log("b", "coordinator"), Not(HasSubstr("begins anew")));
  EXPECT_EQ(FetchFiles(url, "fetched"), Files(RunPath("b")));
}

TEST_F(RunFilesInStoreTest, LearnersOfAGroupContinueFromTheStore) {
  const auto program = Start(
      "run", Args(kSoakConfig, "a", StoreArgs({kForever, "--set=policy.learn.learner_num=2"})));
  WaitForStatus(*program, IsTraining);
  const std::string url = UrlOf(*program);
  EXPECT_TRUE(Eventually(
      [&] { return FetchFiles(url, "fetched").count("ckpt/learner_resume/manifest.json") > 0; }));
  const RunStatus status = WaitForStatus(*program, IsTraining);
  for (const WorkerStatus& worker : status.worker()) {
    for (const WorkerStatus& member : worker.member()) {
      kill(static_cast<pid_t>(member.pid()), SIGKILL);
    }
  }
  EXPECT_TRUE(Eventually([&] {
    std::map<std::string, std::string> files = FetchFiles(url, "fetched");
    return absl::StrContains(files["log/learner-0_logger.txt"] + files["log/learner-1_logger.txt"],
                             ": loaded checkpoint ");
  })) << program->err();
  Interrupt(program.get());
  EXPECT_EQ(FetchFiles(url, "fetched"), Files(RunPath("a")));
}

TEST_F(RunFilesInStoreTest, AStoreOfThisMachineIsRefused) {
  const auto program = Run("run", Args(kConfig, "a", {"--set=system.run_files=STORE", "--record"}));
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(), AllOf(HasSubstr("system.run_files is STORE, but system.store_url is "
                                              "not set"),
                                    HasSubstr("system.record_bytes is")));
  EXPECT_FALSE(PathExists(RunPath("a")));
}

}  // namespace
}  // namespace ding
