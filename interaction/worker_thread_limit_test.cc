// A server of workers whose system has no thread left. A test of its own, as sanitizers need address
// space of their own.
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
#include "ding_worker/interaction/in_process_transport.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport.h"
#include "ding_worker/interaction/worker_server.h"
#include "ding_worker/interaction/worker_session.h"
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
  uint32_t workers_ = 0;  // of the thread that greets
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

// From now on this process gets no thread. Address space, because root is exempt from the limit of
// processes: there is enough for a session, and not for a stack, nor is a stack left of before.
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
  // A server that gets none of its own says so.
  options.address = "another";
  const auto another = WorkerServer::Create(options, &transport).value();
  EXPECT_THAT(another->Start(&handler), StatusIs(absl::StatusCode::kResourceExhausted,
                                                 HasSubstr("cannot start a thread for")));
}

// In a child, as the limit cannot be raised again.
TEST(WorkerThreadLimitTest, AWorkerWhoseThreadIsRefusedIsRefusedAndTheOthersGoOn) {
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
