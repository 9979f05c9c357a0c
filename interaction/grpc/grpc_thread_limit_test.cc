// Tests that connections close in time although gRPC cannot start threads. It is a test of its own
// because it limits the address space.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/base/thread_limit_testing.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);
constexpr int kPeers = 100;

TEST(GrpcThreadLimitTest, ConnectionsCloseInTimeWithoutThreads) {
  RunInChild([] {
    GrpcTransport transport;
    DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Listener> listener, transport.Listen("127.0.0.1:0"));
    std::vector<std::unique_ptr<Connection>> ends;
    const auto connect = [&] {
      DING_ASSERT_OK_AND_ASSIGN(ends.emplace_back(), transport.Connect(listener->address(), kLong));
      DING_ASSERT_OK_AND_ASSIGN(ends.emplace_back(), listener->Accept(kLong));
    };
    connect();
    RefuseThreads();
    for (int i = 1; i < kPeers; ++i) connect();
    const Timer timer(Clock::Real());
    for (const auto& end : ends) end->BeginClose();
    ends.clear();
    listener.reset();
    EXPECT_LT(timer.Elapsed(), kLong);
  });
}

}  // namespace
}  // namespace ding
