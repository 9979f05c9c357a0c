#include "ding_worker/interaction/transport/in_process_transport.h"

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/transport/transport.h"
#include "ding_worker/interaction/transport/transport_conformance.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TransportConformanceCase InProcess() {
  TransportConformanceCase in_process;
  in_process.name = "InProcess";
  in_process.create = [] { return std::make_unique<InProcessTransport>(); };
  in_process.fresh_address = [] {
    static std::atomic<int> last{0};
    return absl::StrCat("place ", ++last);
  };
  return in_process;
}

INSTANTIATE_TEST_SUITE_P(InProcess, TransportConformance, testing::Values(InProcess()),
                         TransportConformanceName);

TEST(InProcessTransport, EachTransportHasItsOwnAddresses) {
  InProcessTransport one;
  InProcessTransport other;
  DING_ASSERT_OK_AND_ASSIGN(const auto listener, one.Listen("coordinator"));
  EXPECT_THAT(other.Connect("coordinator", absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(other.Listen("coordinator"), IsOk());
}

TEST(InProcessTransport, AQueueHoldsExactlyMaxQueuedMessages) {
  InProcessTransport transport;
  DING_ASSERT_OK_AND_ASSIGN(const auto listener, transport.Listen("coordinator"));
  DING_ASSERT_OK_AND_ASSIGN(const auto caller, transport.Connect("coordinator", absl::Seconds(1)));
  DING_ASSERT_OK_AND_ASSIGN(const auto callee, listener->Accept(absl::Seconds(1)));
  for (int i = 0; i < kMaxQueuedMessages; ++i) {
    ASSERT_THAT(caller->Send("x", absl::ZeroDuration()), IsOk());
  }
  EXPECT_THAT(caller->Send("x", absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(callee->Receive(absl::ZeroDuration()), IsOk());
  EXPECT_THAT(caller->Send("x", absl::ZeroDuration()), IsOk());
}

}  // namespace
}  // namespace ding
