// Tests the programs of a parallel run that other machines can reach. With the files of
// tools/make_certs the run trains; a program without the right files is told which are wrong, and
// why.

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/grpc/link_credentials.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/worker/processes/ask_operator.h"
#include "ding_worker/worker/testing/child_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Only a broken program needs that long.
constexpr absl::Duration kPatience = absl::Minutes(2);

class ParallelSecurityTest : public testing::Test {
 protected:
  ParallelSecurityTest() {
    AdoptOrphans();
    MakeCertificates("certs");
  }
  ~ParallelSecurityTest() override {
    EXPECT_THAT(ReapOrphans(absl::ZeroDuration()), IsEmpty()) << "processes were left";
  }

  std::string Path(absl::string_view name) const { return JoinPath(folder_, name); }
  void MakeCertificates(absl::string_view name) const {
    ChildProgram program("tools/make_certs", {Path(name), "trainer.lan"}, Path("make_certs"), {});
    EXPECT_EQ(program.Wait(kPatience), 0) << program.err();
  }
  // The flags that tools/make_certs prints for the files in `folder`.
  std::vector<std::string> LinkFlags(absl::string_view folder) const {
    const std::string path = Path(folder);
    return {absl::StrCat("--tls_ca=", path, "/ca.pem"),
            absl::StrCat("--tls_cert=", path, "/cert.pem"),
            absl::StrCat("--tls_key=", path, "/key.pem"),
            absl::StrCat("--token_file=", path, "/tokens")};
  }
  GrpcTransportOptions LinkOptions(absl::string_view role) const {
    const std::string path = Path(absl::StrCat("certs/", role));
    GrpcTransportOptions options;
    options.tls_ca = JoinPath(path, "ca.pem");
    options.tls_cert = JoinPath(path, "cert.pem");
    options.tls_key = JoinPath(path, "key.pem");
    options.token_file = JoinPath(path, "tokens");
    options.role = std::string(role);
    return options;
  }

  std::unique_ptr<ChildProgram> Start(const std::string& program, std::vector<std::string> args,
                                      const std::vector<std::string>& more) const {
    args.insert(args.end(), more.begin(), more.end());
    return std::make_unique<ChildProgram>(program, args, Path(absl::StrCat("log_", ++programs_)),
                                          [] {});
  }
  // Returns the error output of a program that must fail.
  std::string Failure(const std::string& program, std::vector<std::string> args,
                      const std::vector<std::string>& more) const {
    const auto started = Start(program, std::move(args), more);
    EXPECT_EQ(started->Wait(kPatience), 1) << started->err();
    return started->err();
  }

  const std::string folder_ = FreshTestFolder();
  mutable int programs_ = 0;
};

TEST_F(ParallelSecurityTest, TrainsAndRefusesPeersWithoutCredentials) {
  const std::string soak = "--config=worker/configs/cartpole_dqn_soak.textproto";
  const auto run =
      Start("worker/parallel",
            {soak, absl::StrCat("--exp_dir=", Path("run")), "--listen=0.0.0.0:0",
             "--set=system.max_seconds=0", "--set=system.coordinator.lease_seconds=60"},
            LinkFlags("certs/coordinator"));
  ASSERT_TRUE(Eventually([&] { return !CoordinatorAddress(*run).empty() || !run->IsRunning(); }));
  const std::string anywhere = CoordinatorAddress(*run);
  ASSERT_THAT(anywhere, testing::StartsWith("0.0.0.0:")) << run->err();
  const std::string address = absl::StrReplaceAll(anywhere, {{"0.0.0.0", "127.0.0.1"}});
  GrpcTransport as_operator(LinkOptions("operator"));
  RunStatus status;
  const auto is_training = [&] {
    const absl::StatusOr<RunStatus> asked =
        AskStatus(address, "test", absl::Seconds(30), &as_operator);
    EXPECT_THAT(asked, IsOk());
    if (asked.ok()) status = *asked;
    return !asked.ok() || (status.worker_size() == 3 && status.policy_version() > 1);
  };
  ASSERT_TRUE(Eventually(is_training)) << status.DebugString() << run->err();

  const std::string at = absl::StrCat("--coordinator=", address);
  const auto asked = Start("worker/ctl", {"status", at}, LinkFlags("certs/operator"));
  EXPECT_EQ(asked->Wait(kPatience), 0) << asked->err();
  EXPECT_THAT(asked->out(), HasSubstr("learner-0"));

  // These calls have no credentials, a part of them, or those of others.
  EXPECT_THAT(Failure("worker/ctl", {"status", at, "--timeout=1"}, {}),
              HasSubstr("that speaks TLS (--tls_ca is missing here)"));
  const std::vector<std::string> flags = LinkFlags("certs/operator");
  EXPECT_THAT(Failure("worker/ctl", {"status", at}, {flags[0], flags[1], flags[2]}),
              HasSubstr("it asks for a token, and none was shown"));
  EXPECT_THAT(Failure("worker/ctl", {"status", at, "--timeout=1"}, {flags[0], flags[3]}),
              HasSubstr("that asks for a certificate"));
  EXPECT_THAT(Failure("worker/ctl", {"status", at}, LinkFlags("certs/learner")),
              HasSubstr("has no line of role 'operator'"));
  MakeCertificates("others");
  EXPECT_THAT(Failure("worker/ctl", {"status", at}, LinkFlags("others/operator")),
              HasSubstr("is not signed by an authority in --tls_ca"));
  EXPECT_THAT(Failure("worker/ctl", {"status", at},
                      {flags[0], flags[1], flags[2], LinkFlags("others/operator")[3]}),
              HasSubstr("it does not know the token"));
  const std::string elsewhere = absl::StrReplaceAll(at, {{"127.0.0.1", "127.0.0.2"}});
  EXPECT_THAT(Failure("worker/ctl", {"status", elsewhere}, flags),
              HasSubstr("its certificate belongs to another host"));
  ASSERT_EQ(chmod(Path("certs/operator/key.pem").c_str(), 0644), 0);
  EXPECT_THAT(Failure("worker/ctl", {"status", at}, flags), HasSubstr("expected 0600"));
  ASSERT_EQ(chmod(Path("certs/operator/key.pem").c_str(), 0600), 0);

  // A collector pretends to be a learner.
  const std::string token = ReadFile(Path("certs/collector/tokens")).value();
  const std::string disguise = Path("certs/collector/tokens");
  ASSERT_THAT(RenamePath(disguise, Path("aside")), IsOk());
  ASSERT_THAT(WriteFileAtomically(disguise, absl::StrReplaceAll(token, {{"collector", "learner"}})),
              IsOk());
  ASSERT_EQ(chmod(disguise.c_str(), 0600), 0);
  EXPECT_THAT(
      Failure("worker/parallel", {"--role=learner", at}, LinkFlags("certs/collector")),
      HasSubstr("says that its role is learner, and has shown the token of role collector"));
  ASSERT_THAT(RenamePath(Path("aside"), disguise), IsOk());

  // A collector tries to publish a policy.
  GrpcTransport as_collector(LinkOptions("collector"));
  Hello hello;
  hello.set_role(Hello::COLLECTOR);
  hello.set_name("intruder");
  DING_ASSERT_OK_AND_ASSIGN(const auto session,
                            WorkerSession::Join(&as_collector, address, hello, {}));
  WorkerMessage message;
  message.mutable_policy_version()->set_policy_id("policy_0");
  message.mutable_policy_version()->set_version(1000000);
  ASSERT_THAT(session->Send(message, kPatience), IsOk());
  absl::StatusOr<CoordinatorMessage> answer = session->Receive(kPatience);
  while (answer.ok()) answer = session->Receive(kPatience);
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kAborted,
                               AllOf(HasSubstr("COLLECTOR"), HasSubstr("LEARNER"))));

  ASSERT_TRUE(Eventually([&] {
    const int64_t envstep = status.envstep();
    return is_training() && status.envstep() > envstep;
  }));
  EXPECT_LT(status.policy_version(), 1000000u);
  EXPECT_EQ(status.workers_lost(), 1) << "the intruder";
  kill(run->pid(), SIGINT);
  EXPECT_EQ(run->Wait(kPatience), 128 + SIGINT) << run->err();
  // gRPC's messages about clients without a certificate have gone to the log only.
  EXPECT_THAT(run->err(), AllOf(HasSubstr("gRPC: "), Not(HasSubstr("ssl_transport_security"))));
}

TEST_F(ParallelSecurityTest, BeyondLoopbackCredentialsAreRequired) {
  const std::string config = "--config=worker/configs/cartpole_dqn_parallel_fast.textproto";
  const std::string exp_dir = absl::StrCat("--exp_dir=", Path("run"));
  for (const char* role : {"all", "coordinator"}) {
    EXPECT_THAT(Failure("worker/parallel",
                        {config, exp_dir, absl::StrCat("--role=", role), "--listen=0.0.0.0:0"}, {}),
                AllOf(HasSubstr("listening on 0.0.0.0:0"), HasSubstr("needs TLS and a token"),
                      HasSubstr("--tls_cert, --tls_key, --tls_ca, --token_file are missing")));
  }
  EXPECT_THAT(Failure("worker/parallel", {"--role=learner", "--coordinator=trainer.lan:7235"},
                      {LinkFlags("certs/learner")[3]}),
              AllOf(HasSubstr("connecting to trainer.lan:7235"), HasSubstr("--tls_ca is missing"),
                    Not(HasSubstr("token_file is"))));
  EXPECT_THAT(Failure("worker/ctl", {"status", "--coordinator=10.0.0.7:7235"}, {}),
              HasSubstr("--tls_ca, --token_file are missing"));
  // The value of a flag may stand behind it, before the command.
  EXPECT_THAT(Failure("worker/ctl", {"--coordinator", "10.0.0.7:7235", "status"}, {}),
              HasSubstr("--tls_ca, --token_file are missing"));
  // A worker's certificate is not valid for a coordinator.
  EXPECT_THAT(Failure("worker/parallel", {config, exp_dir}, LinkFlags("certs/collector")),
              HasSubstr("may not be used to listen"));
  EXPECT_FALSE(PathExists(Path("run")));
}

}  // namespace
}  // namespace ding
