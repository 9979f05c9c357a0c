#include "ding_worker/interaction/testing/faulty_transport.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "ding_worker/interaction/transport/transport_conformance.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);
constexpr absl::Duration kShort = absl::Milliseconds(100);
constexpr absl::StatusCode kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// A FaultyTransport without faults, which must behave like any transport.
class Faultless : public Transport {
 public:
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address) override {
    return base_.Listen(address);
  }
  absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& address,
                                                      absl::Duration timeout) override {
    return faulty_.Connect(address, timeout);
  }

 private:
  InProcessTransport base_;
  FaultyTransport faulty_{&base_, {}};
};

TransportConformanceCase WithoutFaults() {
  TransportConformanceCase without_faults;
  without_faults.name = "WithoutFaults";
  without_faults.create = [] { return std::make_unique<Faultless>(); };
  without_faults.fresh_address = [] {
    static std::atomic<int> last{0};
    return absl::StrCat("place ", ++last);
  };
  return without_faults;
}

INSTANTIATE_TEST_SUITE_P(Faulty, TransportConformance, testing::Values(WithoutFaults()),
                         TransportConformanceName);

// A connection whose caller's end is faulty and whose callee's end is not.
struct Ends {
  explicit Ends(const Faults& faults) : faulty(&base, faults) {
    listener = base.Listen("there").value();
    caller = faulty.Connect("there", kLong).value();
    callee = listener->Accept(kLong).value();
  }

  InProcessTransport base;
  FaultyTransport faulty;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Connection> caller;
  std::unique_ptr<Connection> callee;
};

TEST(FaultyTransport, DelaysBothDirectionsAndKeepsTheOrder) {
  Faults faults;
  faults.delay = 1;
  faults.max_delay = absl::Milliseconds(5);
  for (const bool at_callee : {true, false}) {
    Ends ends(faults);
    Connection* const from = (at_callee ? ends.caller : ends.callee).get();
    Connection* const to = (at_callee ? ends.callee : ends.caller).get();
    const absl::Time begin = absl::Now();
    for (int i = 0; i < 100; ++i) EXPECT_THAT(from->Send(absl::StrCat(i), kLong), IsOk());
    from->Close();
    for (int i = 0; i < 100; ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const std::string message, to->Receive(kLong));
      ASSERT_EQ(message, absl::StrCat(i));
    }
    EXPECT_THAT(to->Receive(kLong), StatusIs(kUnavailable));
    // The seed gives 100 delays of 2.5 ms on average, and no message arrives before its delay is
    // over.
    EXPECT_GT(absl::Now() - begin, absl::Milliseconds(150));
  }
}

TEST(FaultyTransport, EndCanBeDestroyedWhileThePeerReceivesNothing) {
  Ends ends({});
  absl::Status sent;
  while (sent.ok()) sent = ends.caller->Send("x", kShort);
  ends.caller.reset();
  for (int i = 0; i < kMaxQueuedMessages; ++i) ASSERT_THAT(ends.callee->Receive(kLong), IsOk());
  EXPECT_THAT(ends.callee->Receive(kLong), StatusIs(kUnavailable));
}

TEST(FaultyTransport, NothingArrivesInABlackHole) {
  Ends ends({});
  ends.faulty.set_black_hole(true);
  ASSERT_THAT(ends.caller->Send("lost", kLong), IsOk());
  ASSERT_THAT(ends.callee->Send("lost", kLong), IsOk());
  EXPECT_THAT(ends.callee->Receive(kShort), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(ends.caller->Receive(kShort), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(ends.faulty.Connect("there", kShort), StatusIs(kDeadlineExceeded));
  ends.faulty.set_black_hole(false);
  ASSERT_THAT(ends.caller->Send("found", kLong), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string found, ends.callee->Receive(kLong));
  EXPECT_EQ(found, "found");
}

TEST(FaultyTransport, PeerDoesNotNoticeACloseInABlackHole) {
  Ends ends({});
  ends.faulty.set_black_hole(true);
  ends.caller.reset();
  EXPECT_THAT(ends.callee->Receive(kShort), StatusIs(kDeadlineExceeded));
  Ends others({});
  others.faulty.set_black_hole(true);
  others.callee.reset();
  EXPECT_THAT(others.caller->Receive(kShort), StatusIs(kDeadlineExceeded));
}

TEST(FaultyTransport, CutBreaksOnlyExistingConnections) {
  Ends ends({});
  ends.faulty.Cut();
  EXPECT_THAT(ends.caller->Receive(kLong), StatusIs(kUnavailable));
  EXPECT_THAT(ends.callee->Receive(kLong), StatusIs(kUnavailable));
  EXPECT_THAT(ends.faulty.Connect("there", kLong), IsOk());
}

}  // namespace
}  // namespace ding
