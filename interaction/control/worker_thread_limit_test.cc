// Tests a worker server when the system refuses to start threads. It is a test of its own because it limits the
// address space, of which sanitizers need much.
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/worker_server.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr char kAddress[] = "run";
constexpr absl::Duration kLong = absl::Minutes(1);

class Handler : public WorkerHandler {
 public:
  absl::StatusOr<uint32_t> Admit(const Hello& /*hello*/) override { return ++workers_; }
  void WorkerJoined(uint32_t /*worker*/, const Hello& /*hello*/,
                    const std::string& /*peer*/) override {}
  void WorkerLost(uint32_t /*worker*/, const absl::Status& /*why*/) override {}
  absl::Status Handle(uint32_t /*worker*/, const WorkerMessage& /*message*/) override {
    return absl::OkStatus();
  }
  OperatorReply Operate(const OperatorRequest& /*request*/) override { return {}; }
  RunStatus status() const override { return {}; }

 private:
  uint32_t workers_ = 0;  // only the thread that greets uses it
};

absl::StatusOr<std::unique_ptr<WorkerSession>> Join(Transport* transport, const std::string& name) {
  Hello hello;
  hello.set_name(name);
  return WorkerSession::Join(transport, kAddress, hello, {});
}

void ExpectServed(WorkerSession* worker) {
  WorkerMessage ask;
  ask.mutable_status_request();
  EXPECT_THAT(worker->Send(ask, kLong), IsOk());
  EXPECT_THAT(worker->Receive(kLong), IsOk());
}

// Lets the system refuse all further threads of this process. It limits the address space, because root is exempt
// from the limit of processes. There is enough for a session, but not for the stack of a thread, and the stack of an
// earlier thread is too small to be used again.
void RefuseThreads() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{1} << 30);
  pthread_setattr_default_np(&attributes);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{512} << 20);
  const rlimit limit = {most, most};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

void RunWithoutThreads() {
  InProcessTransport transport;
  Handler handler;
  WorkerServer::Options options;
  options.address = kAddress;
  const auto server = WorkerServer::Create(options, &transport).value();
  ASSERT_THAT(server->Start(&handler), IsOk());
  const auto good = Join(&transport, "good").value();
  ExpectServed(good.get());
  RefuseThreads();
  EXPECT_THAT(Join(&transport, "second"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("cannot start a thread for worker 'second'")));
  ExpectServed(good.get());
  good->Close("done");
  server->Close("over");
  // A server that cannot start its own threads returns an error.
  options.address = "another";
  const auto another = WorkerServer::Create(options, &transport).value();
  EXPECT_THAT(another->Start(&handler), StatusIs(absl::StatusCode::kResourceExhausted,
                                                 HasSubstr("cannot start a thread for")));
}

// Runs in a child process, because the limit cannot be raised again.
TEST(WorkerThreadLimitTest, AWorkerWithoutAThreadIsRefusedAndTheOthersGoOn) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    RunWithoutThreads();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
}

}  // namespace
}  // namespace ding
