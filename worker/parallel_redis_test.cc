// Tests parallel runs whose store, or store and journal, is in Redis; Redis is killed and comes
// back empty.

#include <sys/wait.h>

#include <csignal>
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
using testing::HasSubstr;
using testing::Not;

class RedisTest : public PausesTest {
 protected:
  void StartRedis(const RedisServer::Options& options) {
    DING_ASSERT_OK_AND_ASSIGN(redis_, RedisServer::Start(options));
  }
  std::vector<std::string> RedisArgs(absl::string_view config, std::vector<std::string> more) {
    more.push_back(absl::StrCat("--set=system.store_url=", redis_->Url("runs")));
    more.push_back("--set=system.comm_learner_type=grpc_redis");
    return Args(config, "a", more);
  }
  std::string KeysOfRuns() {
    return redis_->Command({"EVAL", "return #redis.call('KEYS', 'runs/*') .. ''", "0"}).value();
  }

  std::unique_ptr<RedisServer> redis_;
};

TEST_F(RedisTest, ConvergesLeavesNothingAndHidesThePassword) {
  RedisServer::Options options;
  options.password = "s3cret-and-l0ng";
  StartRedis(options);
  const auto program = Run("run", RedisArgs(kConfig, {"--seed=0"}));
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  EXPECT_THAT(program->out(), HasSubstr("\"stop\":true"));
  EXPECT_EQ(KeysOfRuns(), "0");
  std::string all = absl::StrCat(program->out(), program->err());
  for (const char* name : {"coordinator", "learner-0", "collector-0", "collector-1"}) {
    absl::StrAppend(&all, Log("a", name));
  }
  absl::StrAppend(&all, ReadFile(JoinPath(RunPath("a"), "total_config.textproto")).value());
  EXPECT_THAT(all, AllOf(HasSubstr("password_file"), Not(HasSubstr(options.password))));
}

TEST_F(RedisTest, MayBeKilledAndRestartedWithItsData) {
  RedisServer::Options options;
  options.append_fsync = "always";
  StartRedis(options);
  const auto program = Start("run", RedisArgs(kSoakConfig, {kForever, kLongLease, kFewPolicies}));
  WaitForStatus(*program, IsTraining);
  redis_->Kill();
  ExpectPauses(*program);
  ASSERT_THAT(redis_->Restart(), IsOk());
  ExpectIsOver(*program);
  EXPECT_EQ(WaitForStatus(*program, IsTraining).workers_lost(), 0);
  Interrupt(program.get());
  EXPECT_THAT(Log("a", "learner-0"), Not(HasSubstr("Redis has lost its data")));
  EXPECT_EQ(KeysOfRuns(), "0");
}

TEST_F(RedisTest, MayBeAwayWhenTheRunEnds) {
  RedisServer::Options options;
  options.append_fsync = "always";
  StartRedis(options);
  const auto program = Start("run", RedisArgs(kSoakConfig, {kForever, kLongLease, kFewPolicies}));
  WaitForStatus(*program, IsTraining);
  // The first evaluation brings a best policy. If it could not be saved, the run would end with
  // another status.
  EXPECT_TRUE(
      Eventually([&] { return PathExists(JoinPath(RunPath("a"), "ckpt/ckpt_best")); }, kPatience));
  redis_->Kill();
  kill(program->pid(), SIGINT);
  // The coordinator has tried to empty the store, or is about to.
  EXPECT_TRUE(
      Eventually([&] { return absl::StrContains(Log("a", "coordinator"), "rows: "); }, kPatience));
  ASSERT_THAT(redis_->Restart(), IsOk());
  EXPECT_EQ(program->Wait(kPatience), 128 + SIGINT) << program->err();
  EXPECT_EQ(KeysOfRuns(), "0");
  EXPECT_THAT(program->err(), Not(HasSubstr("the run cannot go on as it is")));
}

TEST_F(RedisTest, MayRefuseItsPasswordForAMoment) {
  RedisServer::Options options;
  options.password = "s3cret";
  StartRedis(options);
  const auto program = Start("run", RedisArgs(kSoakConfig, {kForever, kLongLease, kFewPolicies}));
  const RunStatus before = WaitForStatus(*program, IsTraining);
  ASSERT_THAT(redis_->Command({"CONFIG", "SET", "requirepass", "0ther"}), IsOk());
  ASSERT_THAT(redis_->Command({"CLIENT", "KILL", "TYPE", "normal"}), IsOk());
  ExpectPauses(*program);
  // A process that begins meanwhile waits, too.
  kill(static_cast<pid_t>(PidOf(before, "collector-0")), SIGKILL);
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(program->err(), "waits for the store: ") || !program->IsRunning();
  }));
  ASSERT_THAT(redis_->Command({"CONFIG", "SET", "requirepass", options.password}), IsOk());
  ExpectIsOver(*program);
  EXPECT_EQ(WaitForStatus(*program, IsTraining).workers_lost(), 1);
  Interrupt(program.get());
  EXPECT_THAT(program->err(), HasSubstr("does not accept the password"));
}

// Collectors that begin then find no policy, and the learner finds none of the rows that it draws.
TEST_F(RedisTest, MayRestartEmptyAndTheLearnerReportsIt) {
  StartRedis({});
  const auto program = Start("run", RedisArgs(kSoakConfig, {kForever, kLongLease, kFewPolicies}));
  const RunStatus before = WaitForStatus(*program, IsTraining);
  // Rows that it has not read yet: it remembers others.
  const auto learner = static_cast<pid_t>(PidOf(before, "learner-0"));
  kill(learner, SIGSTOP);
  WaitForStatus(*program, [&before](const RunStatus& status) {
    return status.envstep() > before.envstep() + 10000;
  });
  redis_->Kill();
  for (const char* name : {"collector-0", "collector-1"}) {
    kill(static_cast<pid_t>(PidOf(before, name)), SIGKILL);
  }
  ASSERT_THAT(redis_->Restart(), IsOk());
  kill(learner, SIGCONT);
  ExpectIsOver(*program);
  EXPECT_TRUE(Eventually(
      [&] { return absl::StrContains(Log("a", "learner-0"), "Redis has lost its data"); }));
  Interrupt(program.get());
}

TEST_F(RedisTest, OneOfSeveralMayBeKilled) {
  RedisServer::Options options;
  options.append_fsync = "no";
  StartRedis(options);
  DING_ASSERT_OK_AND_ASSIGN(const auto second, RedisServer::Start(options));
  const std::string url =
      absl::StrCat("redis:127.0.0.1:", redis_->port(), ",127.0.0.1:", second->port(), "/runs");
  const auto program = Start("run", Args(kSoakConfig, "a",
                                         {absl::StrCat("--set=system.store_url=", url), kForever,
                                          kLongLease, kFewPolicies}));
  WaitForStatus(*program, IsTraining);
  second->Kill();
  ExpectGoesOn(*program);
  EXPECT_EQ(WaitForStatus(*program, IsTraining).workers_lost(), 0);
  ASSERT_THAT(second->Restart(), IsOk());
  Interrupt(program.get());
  EXPECT_EQ(KeysOfRuns(), "0");
  EXPECT_EQ(second->Command({"EVAL", "return tostring(redis.call('DBSIZE'))", "0"}).value(), "0");
}

// The data that survive the coordinator are in Redis, too.
class RedisJournalTest : public RedisTest {
 protected:
  std::unique_ptr<ChildProgram> StartRun() {
    return Start("run", RedisArgs(kSoakConfig, {kForever, kLongLease, kFewPolicies, kInRedis}));
  }
  RunStatus WaitForNextCoordinator(const ChildProgram& program, const RunStatus& before) {
    RunStatus after = WaitForStatus(program, [&before](const RunStatus& status) {
      return status.incarnation() > before.incarnation() && IsTraining(status) &&
             status.buffer_size() == 1;
    });
    EXPECT_EQ(after.run(), before.run());
    EXPECT_GE(after.envstep(), before.envstep());
    ExpectGoesOn(program);
    return after;
  }
  static void KillCoordinator(const RunStatus& status) {
    kill(static_cast<pid_t>(status.coordinator_pid()), SIGKILL);
  }
  void KillAll(ChildProgram* program) {
    const RunStatus status = WaitForStatus(*program, IsTraining);
    std::vector<pid_t> pids = {static_cast<pid_t>(status.coordinator_pid())};
    for (const WorkerStatus& worker : status.worker()) {
      pids.push_back(static_cast<pid_t>(worker.pid()));
    }
    kill(program->pid(), SIGSTOP);
    for (const pid_t pid : pids) kill(pid, SIGKILL);
    kill(program->pid(), SIGKILL);
    EXPECT_EQ(program->Wait(kPatience), -SIGKILL);
    // Redis, which is also a child of this process, stays alive.
    for (const pid_t pid : pids) {
      EXPECT_TRUE(Eventually([pid] { return waitpid(pid, nullptr, WNOHANG) == pid; }));
    }
  }
  // The arguments that resume a run without its folder.
  std::vector<std::string> GoOnElsewhere(const RunStatus& status, absl::string_view folder) {
    return {absl::StrCat("--exp_dir=", RunPath(folder)), "--resume", kLongLease,
            absl::StrCat("--run_store=", redis_->Url(absl::StrCat("runs/", status.run())))};
  }

  static constexpr char kInRedis[] = "--set=system.coordinator.journal=JOURNAL_IN_STORE";
};

TEST_F(RedisJournalTest, ContinuesFromRedisAfterEveryKindOfEnd) {
  RedisServer::Options options;
  options.password = "s3cret";
  StartRedis(options);
  auto program = StartRun();
  RunStatus before = WaitForStatus(*program, IsTraining);
  KillCoordinator(before);
  before = WaitForNextCoordinator(*program, before);
  EXPECT_EQ(before.buffer(0).lost_count(), 0);
  EXPECT_FALSE(PathExists(JoinPath(RunPath("a"), "coordinator/journal")));
  Interrupt(program.get());
  EXPECT_FALSE(PathExists(JoinPath(RunPath("a"), "coordinator/saved"))) << "it stays in Redis";

  const std::vector<std::string> here = {absl::StrCat("--exp_dir=", RunPath("a")), "--resume"};
  program = Start("again", here);
  before = WaitForNextCoordinator(*program, before);
  EXPECT_EQ(before.buffer(0).lost_count(), 0);
  KillAll(program.get());
  program = Start("and_again", here);
  before = WaitForNextCoordinator(*program, before);
  EXPECT_EQ(before.buffer(0).lost_count(), 0);
  KillAll(program.get());
  program = Start("elsewhere", GoOnElsewhere(before, "b"));
  before = WaitForNextCoordinator(*program, before);
  EXPECT_EQ(before.buffer(0).lost_count(), 0);
  KillCoordinator(before);
  WaitForNextCoordinator(*program, before);
  Interrupt(program.get());
  // A run that converges leaves nothing behind.
  program = Run("converges", {absl::StrCat("--exp_dir=", RunPath("b")), "--resume",
                              absl::StrCat("--config=", RunPath("b"), "/total_config.textproto"),
                              "--set=env.stop_value=-1"});
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  EXPECT_THAT(program->out(), HasSubstr("\"stop\":true"));
  EXPECT_EQ(KeysOfRuns(), "0");
  const auto over = Run("over", {absl::StrCat("--exp_dir=", RunPath("b")), "--resume"});
  EXPECT_EQ(over->Wait(kPatience), 0) << over->err();
  EXPECT_EQ(over->out(), program->out());
  // The run's first folder has no record of that.
  const auto first = Run("first", here);
  EXPECT_EQ(first->Wait(kPatience), 1);
  EXPECT_THAT(first->err(), HasSubstr("has no journal of this run: it had converged"));
}

TEST_F(RedisJournalTest, ContinuesAfterRedisRestartsEmptyAndTheCoordinatorIsKilled) {
  StartRedis({});
  const auto program = StartRun();
  RunStatus before = WaitForStatus(*program, IsTraining);
  redis_->Kill();
  for (const char* name : {"collector-0", "collector-1"}) {
    kill(static_cast<pid_t>(PidOf(before, name)), SIGKILL);
  }
  ASSERT_THAT(redis_->Restart(), IsOk());
  ExpectIsOver(*program);
  EXPECT_THAT(Log("a", "coordinator"), HasSubstr("all of it was put there again"));
  before = WaitForStatus(*program, IsTraining);
  KillCoordinator(before);
  before = WaitForNextCoordinator(*program, before);
  EXPECT_GT(before.buffer(0).lost_count(), 0);
  EXPECT_THAT(Log("a", "coordinator"),
              HasSubstr("are gone from the store; these rows are dropped"));
  Interrupt(program.get());
}

TEST_F(RedisJournalTest, ACoordinatorEndsWhenAnotherOneGoesOnWithItsRun) {
  StartRedis({});
  const auto old = StartRun();
  const RunStatus before = WaitForStatus(*old, IsTraining);
  const auto program = Start("elsewhere", GoOnElsewhere(before, "b"));
  EXPECT_EQ(old->Wait(kPatience), 1) << old->err();
  EXPECT_THAT(old->err(), HasSubstr("another coordinator goes on with this run"));
  const RunStatus after = WaitForNextCoordinator(*program, before);
  EXPECT_EQ(after.buffer(0).lost_count(), 0);
  Interrupt(program.get());
}

}  // namespace
}  // namespace ding
