// Tests the programs of a parallel run as people start them: real processes that are refused, asked
// for their status and interrupted, and envs that fail. Each test ends with no process and no
// folder of its run left.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/transport.h"
#include "ding_worker/worker/run_folder/run_result.h"
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
using testing::Not;
using testing::SizeIs;

int ConnectTo(const std::string& address) {
  const std::pair<std::string, std::string> host_port =
      absl::StrSplit(address, absl::MaxSplits(':', 1));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(host_port.second)));
  inet_pton(AF_INET, host_port.first.c_str(), &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) return fd;
  close(fd);
  return -1;
}

TEST_F(ParallelTest, ConvergesAndLeavesNothing) {
  const auto program = Run("run", Args(kConfig, "a", {"--seed=0"}));
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  const std::string address = WaitForAddress(*program);
  DING_ASSERT_OK_AND_ASSIGN(const std::string result,
                            ReadFile(JoinPath(RunPath("a"), "result.json")));
  EXPECT_EQ(program->out(), absl::StrCat("result ", ShortenJson(result), "\n"));
  EXPECT_THAT(result, HasSubstr("\"stop\":true"));
  EXPECT_THAT(result, Not(HasSubstr("\"eval_value_raw\":[]")));
  EXPECT_EQ(ConnectTo(address), -1) << "somebody listens at " << address;
  for (const char* name : {"coordinator", "learner-0", "collector-0", "collector-1"}) {
    EXPECT_NE(Log("a", name), "") << name;
    EXPECT_TRUE(IsDirectory(JoinPath(RunPath("a"), absl::StrCat("log/", name)))) << name;
  }
  DING_ASSERT_OK_AND_ASSIGN(const auto checkpoints, ListDirectory(JoinPath(RunPath("a"), "ckpt")));
  // A run that takes some time saves more checkpoints than just the last one.
  ASSERT_THAT(checkpoints, Not(IsEmpty()));
  EXPECT_EQ(checkpoints.front(), "ckpt_best");
  EXPECT_THAT(checkpoints, testing::Contains(testing::StartsWith("iteration_")));
  EXPECT_EQ(checkpoints.back(), "learner_resume");
  EXPECT_THAT(Log("a", "coordinator"), Not(HasSubstr("was cut")));
  EXPECT_THAT(Events("a"), AllOf(HasSubstr("\"event\":\"start\",\"name\":\"new\""),
                                 HasSubstr("\"event\":\"join\",\"name\":\"learner-0\""),
                                 HasSubstr("\"event\":\"evaluation\",\"name\":\"collector_task_"),
                                 HasSubstr("\"event\":\"checkpoint\",\"name\":\"ckpt_best\""),
                                 HasSubstr("\"event\":\"end\",\"name\":\"finished\"")));
  EXPECT_THAT(Events("a", "learner-0_"),
              HasSubstr("\"event\":\"checkpoint\",\"name\":\"iteration_"));
}

TEST_F(ParallelTest, CtlTellsTheStatus) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  WaitForStatus(*program, IsTraining);
  const std::string address = WaitForAddress(*program);
  program_ = "worker/ctl";
  const auto status = Run("status", {"status", absl::StrCat("--coordinator=", address)});
  EXPECT_EQ(status->Wait(kPatience), 0) << status->err();
  EXPECT_THAT(status->out(), AllOf(HasSubstr("learner-0"), HasSubstr("collector-0"),
                                   HasSubstr("collector-1"), HasSubstr("buffer buffer_0: ")));
  const auto unknown = Run("unknown", {absl::StrCat("--coordinator=", address), "dance"});
  EXPECT_EQ(unknown->Wait(kPatience), 1);
  EXPECT_THAT(unknown->err(), HasSubstr("command 'dance' is not known, expected: status"));
  const auto nowhere = Run("nowhere", {"status"});
  EXPECT_EQ(nowhere->Wait(kPatience), 1);
  EXPECT_THAT(nowhere->err(), HasSubstr("--coordinator=HOST:PORT is missing"));
  Interrupt(program.get());
  const auto gone = Run("gone", {"status", absl::StrCat("--coordinator=", address), "--timeout=1"});
  EXPECT_EQ(gone->Wait(kPatience), 1);
  EXPECT_THAT(gone->err(), HasSubstr(address));
}

TEST_F(ParallelTest, CtlChangesTheNumberOfCollectorsAndStopsTheRun) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  WaitForStatus(*program, IsTraining);
  const std::string coordinator = absl::StrCat("--coordinator=", WaitForAddress(*program));
  program_ = "worker/ctl";
  const auto ctl = [&](const std::vector<std::string>& words, int code) {
    std::vector<std::string> args = words;
    args.push_back(coordinator);
    const auto done = Run("ctl", args);
    EXPECT_EQ(done->Wait(kPatience), code) << done->err();
    return done->out() + done->err();
  };
  const auto collectors = [](const RunStatus& status) {
    return std::count_if(status.worker().begin(), status.worker().end(),
                         [](const auto& worker) { return worker.role() == Hello::COLLECTOR; });
  };
  EXPECT_THAT(ctl({"grow", "1"}, 0), HasSubstr("3 collectors are wanted"));
  WaitForStatus(*program, [&](const RunStatus& status) { return collectors(status) == 3; });
  EXPECT_THAT(ctl({"drain", "collector-0"}, 0), HasSubstr("2 collectors are wanted"));
  WaitForStatus(*program, [&](const RunStatus& status) {
    return collectors(status) == 2 && Find(status, "collector-0") == nullptr;
  });
  EXPECT_THAT(ctl({"shrink", "1"}, 0), HasSubstr("1 collectors are wanted"));
  WaitForStatus(*program, [&](const RunStatus& status) { return collectors(status) == 1; });
  EXPECT_THAT(ctl({"inspect", "learner-0"}, 0), HasSubstr("name: \"learner-0\""));
  EXPECT_THAT(ctl({"inspect", "nobody"}, 1), HasSubstr("expected one of: "));
  EXPECT_THAT(ctl({"grow", "-2"}, 1), HasSubstr("grow by -2 collectors, expected at least 1"));
  EXPECT_THAT(ctl({"grow", "1000"}, 1), HasSubstr("expected 0 to 64"));
  EXPECT_THAT(ctl({"shrink", "2"}, 1), HasSubstr("that would be -1 collectors"));
  EXPECT_THAT(ctl({"grow"}, 1), HasSubstr("grow takes one argument"));
  EXPECT_THAT(ctl({"stop"}, 0), HasSubstr("the run ends"));
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  EXPECT_THAT(program->out(), HasSubstr("\"stop\":false"));
  EXPECT_THAT(Events("a"), AllOf(HasSubstr("\"event\":\"leave\",\"name\":\"collector-0\""),
                                 HasSubstr("\"event\":\"refusal\",")));
}

TEST_F(ParallelTest, ARunThatNoWorkerJoined_EndsWithAnError) {
  const auto program = Run("run", Args(kConfig, "a", {"--role=coordinator", "--max_seconds=0.3"}));
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(), HasSubstr("no worker joined before the run ended"));
}

TEST_F(ParallelTest, AConfigTooLargeToSendToWorkers_IsRefusedAtTheStart) {
  DING_ASSERT_OK_AND_ASSIGN(std::string config, ReadFile(kConfig));
  const std::string path = Path("large.textproto");
  const std::string kName = "exp_name: \"";
  config.insert(config.find(kName) + kName.size(), std::string(1 << 20, 'n'));
  ASSERT_THAT(WriteFileAtomically(path, config), IsOk());
  const auto program = Run("run", Args(path, "a", {}));
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(), HasSubstr("workers get the run's config when they join: it takes"));
  EXPECT_FALSE(PathExists(RunPath("a")));
}

TEST_F(ParallelTest, AFolderThatIsThereStaysAsItIs) {
  ASSERT_THAT(CreateDirectories(RunPath("a")), IsOk());
  const auto program = Run("run", Args(kConfig, "a", {}));
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(), HasSubstr("exists already and is not overwritten"));
  EXPECT_THAT(ListDirectory(RunPath("a")).value(), IsEmpty());
}

// `bazel run` starts a program in a folder of Bazel's.
TEST_F(ParallelTest, PathsAreSeenFromWhereBazelRunWasCalled) {
  const std::string program = Path("program");
  const std::string runfiles = absl::StrCat(program, ".runfiles/ding_worker");
  ASSERT_THAT(CreateDirectories(runfiles), IsOk());
  std::filesystem::copy_file(std::filesystem::canonical(kProgram), program);
  std::filesystem::copy_file(kSoakConfig, Path("run.textproto"));
  program_ = program;
  const auto printed = Start("printed", {"--config=run.textproto", "--print_config"}, [&] {
    (void)!chdir(runfiles.c_str());
    setenv("BUILD_WORKING_DIRECTORY", folder_.c_str(), 1);
  });
  EXPECT_EQ(printed->Wait(kPatience), 0) << printed->err();
  EXPECT_THAT(printed->out(), HasSubstr("CartPole-v0"));
}

TEST_F(ParallelTest, AnInterruptedRunSavesACheckpoint) {
  const auto program = Start(
      "run",
      Args(kSoakConfig, "a", {kForever, "--set=policy.learn.learner.hook.save_ckpt_seconds=0"}));
  WaitForStatus(*program, IsTraining);
  Interrupt(program.get());
  DING_ASSERT_OK_AND_ASSIGN(const auto checkpoints, ListDirectory(JoinPath(RunPath("a"), "ckpt")));
  EXPECT_THAT(checkpoints, Contains(testing::StartsWith("iteration_")));
  EXPECT_THAT(program->out(), HasSubstr("\"stop\":false"));
}

TEST_F(ParallelTest, AFailedStartNamesTheReason) {
  const auto fails = [this](const std::vector<std::string>& args,
                            const testing::Matcher<std::string>& why) {
    const auto program = Run("fails", args);
    EXPECT_EQ(program->Wait(kPatience), 1);
    EXPECT_THAT(program->err(), why);
  };
  fails({"--role=nonsense"},
        HasSubstr("--role is 'nonsense', expected all, coordinator, collector, learner or"));
  fails({}, HasSubstr("--config is missing"));
  fails({"--role=learner"}, HasSubstr("--coordinator=HOST:PORT is missing"));
  fails(
      Args(kConfig, "a", {"--set=system.comm_collector_type=pigeon"}),
      AllOf(HasSubstr("system.comm_collector_type"), HasSubstr("'pigeon'"), HasSubstr("grpc_fs")));
  fails(Args(kConfig, "a", {"--set=system.comm_learner_type=pigeon"}),
        AllOf(HasSubstr("system.comm_learner_type"), HasSubstr("'pigeon'")));
  fails(Args(kConfig, "a", {"--set=system.coordinator.lease_seconds=0.001"}),
        HasSubstr("system.coordinator.lease_seconds is 0.001"));
  fails(Args(kConfig, "a", {"--listen=nowhere"}), HasSubstr("nowhere"));
  fails(Args(kConfig, "b", {"--set=system.store_url=carrier:/pigeon"}), HasSubstr("carrier"));
  fails(Args(kConfig, "c", {"--set=system.store_url=mem:a"}), HasSubstr("memory of one process"));
  fails(Args(kConfig, "a", {"--set=system.coordinator.journal=JOURNAL_IN_STORE"}),
        AllOf(HasSubstr("system.coordinator.journal is JOURNAL_IN_STORE"),
              HasSubstr("goes with the run; expected 'redis:HOST:PORT/PREFIX'")));
  fails(Args(kConfig, "a", {"--set=system.comm_learner_type=grpc_redis"}),
        AllOf(HasSubstr("system.comm_learner_type is 'grpc_redis'"),
              HasSubstr("expected a store of 'redis:...'")));
  fails(Args(kConfig, "a",
             {"--set=system.store_url=redis:127.0.0.1:1",
              "--set=system.comm_learner_type=grpc_redis"}),
        HasSubstr("cannot connect to Redis at 127.0.0.1:1"));
  EXPECT_FALSE(PathExists(RunPath("a"))) << "a run that cannot start leaves no folder";
  EXPECT_FALSE(PathExists(RunPath("b")));
}

TEST_F(ParallelTest, AGpuThatNobodyHasEndsTheRunAtOnce) {
  const std::string needs = "--set=policy.other.commander.learner_resources.gpus=1";
  const auto without = Run("without", Args(kConfig, "a", {needs}));
  EXPECT_EQ(without->Wait(kPatience), 1);
  EXPECT_THAT(without->err(), HasSubstr("commander.learner_resources.gpus is 1, and it has 0"));
  const auto with = Run("with", Args(kConfig, "b", {needs, "--gpus=1", "--max_train_iter=50"}));
  EXPECT_EQ(with->Wait(kPatience), 0) << with->err();
}

TEST_F(ParallelTest, RefusesPeersThatDoNotBelongToTheRun) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever, kLongLease, kFewPolicies}));
  const std::string address = WaitForAddress(*program);
  WaitForStatus(*program, IsTraining);

  const auto second = Run("second", Args(kConfig, "b", {absl::StrCat("--listen=", address)}));
  EXPECT_EQ(second->Wait(kPatience), 1);
  EXPECT_THAT(second->err(), HasSubstr(address));
  EXPECT_THAT(MemoryOfRuns(), SizeIs(1));

  const auto other = Run("other", {"--role=collector", absl::StrCat("--coordinator=", address),
                                   absl::StrCat("--config=", kConfig)});
  EXPECT_EQ(other->Wait(kPatience), 1);
  EXPECT_THAT(other->err(), AllOf(HasSubstr("the config of collector"),
                                  HasSubstr("start it with the same config, or without one")));

  // This worker has a later protocol version.
  DING_ASSERT_OK_AND_ASSIGN(auto later, transport_.Connect(address, absl::Seconds(30)));
  const std::unique_ptr<Session> session = Session::Start(std::move(later), {}).value();
  WorkerMessage message;
  message.mutable_hello()->mutable_version()->set_major(CurrentProtocol().major() + 1);
  ASSERT_THAT(session->Send(message.SerializeAsString(), absl::Seconds(30)), IsOk());
  EXPECT_THAT(session->Receive(absl::Seconds(30)),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("protocol version is ")));

  // The bytes are neither gRPC nor a frame.
  Rng random(7, "noise");
  std::string noise(100000, '\0');
  for (char& byte : noise) byte = static_cast<char>(random.Next32());
  for (int i = 0; i < 20; ++i) {
    const int fd = ConnectTo(address);
    ASSERT_GE(fd, 0);
    (void)!send(fd, noise.data() + i, noise.size() - static_cast<size_t>(i), MSG_NOSIGNAL);
    close(fd);
  }
  DING_ASSERT_OK_AND_ASSIGN(auto connection, transport_.Connect(address, absl::Seconds(30)));
  ASSERT_THAT(connection->Send(noise, absl::Seconds(30)), IsOk());
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(Log("a", "coordinator"), absl::StrCat("refused ", "127.0.0.1"));
  }));
  connection->Close();

  ExpectGoesOn(*program);
  EXPECT_EQ(WaitForStatus(*program, IsTraining).workers_lost(), 0);
  Interrupt(program.get());
}

TEST_F(ParallelTest, WorkersOfAnyOriginMayJoin) {
  const auto coordinator = Start("run", Args(kConfig, "a", {"--role=coordinator"}));
  const std::string address = absl::StrCat("--coordinator=", WaitForAddress(*coordinator));
  const auto learner = Start("learner", {"--role=learner", address});
  const auto collector =
      Start("collector", {"--role=collector", address, absl::StrCat("--config=", kConfig)});
  EXPECT_EQ(coordinator->Wait(kPatience), 0) << coordinator->err();
  EXPECT_EQ(learner->Wait(kPatience), 0) << learner->err();
  EXPECT_EQ(collector->Wait(kPatience), 0) << collector->err();
  EXPECT_THAT(coordinator->out(), HasSubstr("\"stop\":true"));
}

TEST_F(ParallelTest, ALearnerWithoutDataFails) {
  const auto coordinator =
      Start("run", Args(kConfig, "a", {"--role=coordinator", "--set=policy.learn.data_timeout=1"}));
  const auto learner = Start(
      "learner", {"--role=learner", absl::StrCat("--coordinator=", WaitForAddress(*coordinator))});
  EXPECT_EQ(coordinator->Wait(kPatience), 1);
  EXPECT_THAT(coordinator->err(), AllOf(HasSubstr("3 tasks failed in a row"),
                                        HasSubstr("no data to learn from within 1s")));
  EXPECT_EQ(learner->Wait(kPatience), 0) << learner->err();
}

class ChaosTest : public ParallelTest {
 protected:
  ChaosTest() { program_ = "worker/testing/parallel_with_chaos"; }

  std::string WriteConfig(absl::string_view fault) const {
    const std::string path = Path("chaos.textproto");
    EXPECT_THAT(WriteFileAtomically(path, absl::StrCat(R"(
env {
  type: "chaos"
  params { [type.googleapis.com/ding.ChaosConfig] { at_step: 3 fault: )",
                                                       fault, R"( } }
  collector_env_num: 2
  evaluator_env_num: 2
}
policy {
  type: "dqn"
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } }
  learn { batch_size: 8 }
  collect { collector { collector_num: 2 } }
  other { commander { collector_task_space: 2 } }
}
)")),
                IsOk());
    return path;
  }
};

TEST_F(ChaosTest, AnEnvThatKeepsFailingEndsTheRunWithItsName) {
  const auto program = Run("run", Args(WriteConfig("ERROR"), "a", {}));
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr(" tasks failed in a row, the last"), HasSubstr("chaos")));
  EXPECT_EQ(program->out(), "");
}

// A collector that exits with 0 looks like one that has done its work.
TEST_F(ChaosTest, ACollectorThatKeepsExitingWithZeroEndsTheRunWithItsName) {
  const auto program = Run("run", Args(WriteConfig("EXIT exit_status: 0"), "a", {}));
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr("collector-"),
                    HasSubstr("ended: exit status 0, but it was not done: something in it called"),
                    HasSubstr("5 times in a row soon after its start")));
}

TEST_F(ChaosTest, ACollectorThatKeepsDyingEndsTheRunWithItsName) {
  const auto program = Run("run", Args(WriteConfig("KILL"), "a", {}));
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr("collector-"), HasSubstr("5 times in a row soon after its start")));
}

}  // namespace
}  // namespace ding
