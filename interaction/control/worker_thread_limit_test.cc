// Tests a worker server when the system refuses to start threads. It is a test of its own because
// it limits the address space, of which sanitizers need much.
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/base/thread_limit_testing.h"
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
  void Admit(const Hello& /*hello*/, Admitted admitted) override { admitted(++workers_); }
  void WorkerJoined(uint32_t /*worker*/, const Hello& /*hello*/,
                    const std::string& /*peer*/) override {}
  void WorkerLost(uint32_t /*worker*/, const absl::Status& /*why*/) override {}
  void Handle(uint32_t worker, WorkerMessage /*message*/, Done done) override {
    CoordinatorMessage answer;
    answer.mutable_run_status();
    sender->Send(worker, answer);
    done(absl::OkStatus());
  }

  WorkerSender* sender = nullptr;

 private:
  uint32_t workers_ = 0;  // only the server's thread uses it
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

void RunWithoutThreads() {
  InProcessTransport transport;
  Handler handler;
  WorkerServer::Options options;
  options.address = kAddress;
  const auto server = WorkerServer::Create(options, &transport).value();
  handler.sender = server.get();
  ASSERT_THAT(server->Start(&handler), IsOk());
  const auto good = Join(&transport, "good").value();
  ExpectServed(good.get());
  RefuseThreads();
  const auto second = Join(&transport, "second").value();
  ExpectServed(second.get());
  ExpectServed(good.get());
  good->Close("done");
  server->Close("over");
  // A server that cannot start its own threads returns an error.
  options.address = "another";
  const auto another = WorkerServer::Create(options, &transport).value();
  EXPECT_THAT(another->Start(&handler), StatusIs(absl::StatusCode::kResourceExhausted,
                                                 HasSubstr("cannot start a thread for")));
}

TEST(WorkerThreadLimitTest, WorkersNeedNoThreads) { RunInChild(RunWithoutThreads); }

}  // namespace
}  // namespace ding
