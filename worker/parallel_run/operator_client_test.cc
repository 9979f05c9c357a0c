#include "ding_worker/worker/parallel_run/operator_client.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/transport/connect_refused.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// A transport to an address where nobody listens, or to a listener that says nothing.
class DeadEnd : public Transport {
 public:
  explicit DeadEnd(bool silent) : silent_(silent) {}

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& /*address*/) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& /*address*/,
                                                      absl::Duration timeout) override {
    ++attempts;
    longest = std::max(longest, timeout);
    const absl::Status late = absl::DeadlineExceededError("no connection");
    return silent_ ? late : MarkConnectRefused(late);
  }

  int attempts = 0;
  absl::Duration longest;

 private:
  const bool silent_;
};

// Without the cancellation, the call would take all of its time.
TEST(OperatorClientTest, CancellationEndsTheCallEarly) {
  DeadEnd transport(/*silent=*/false);
  EXPECT_THAT(AskStatus("nowhere", "test", absl::Hours(1), &transport,
                        [&] { return transport.attempts == 5; }),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(transport.attempts, 5);
  EXPECT_LE(transport.longest, absl::Milliseconds(100));
}

// A transport that gives a reason for its failure, unless an attempt is too short for that.
class Refusal : public DeadEnd {
 public:
  Refusal() : DeadEnd(/*silent=*/false) {}

  absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& /*address*/,
                                                      absl::Duration timeout) override {
    absl::SleepFor(timeout);
    if (timeout < absl::Milliseconds(50)) return absl::DeadlineExceededError("too short");
    return MarkConnectRefused(absl::DeadlineExceededError("the reason"));
  }
};

TEST(OperatorClientTest, AShortLastAttemptDoesNotHideTheReason) {
  Refusal transport;
  EXPECT_THAT(AskStatus("refuses", "test", absl::Milliseconds(70), &transport),
              StatusIs(absl::StatusCode::kDeadlineExceeded, testing::HasSubstr("the reason")));
}

// A silent coordinator may only be busy.
TEST(OperatorClientTest, ASilentCoordinatorIsGivenTheWholeTime) {
  DeadEnd transport(/*silent=*/true);
  EXPECT_THAT(AskStatus("hangs", "test", absl::Hours(1), &transport,
                        [&] { return transport.attempts == 2; }),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_GT(transport.longest, absl::Minutes(59));
}

}  // namespace
}  // namespace ding
