// Tests the parts of a session that need no connection: its budget, and the bytes of its frames.
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/control/session_frame.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(SessionBudget, OneSessionMayTakeTheSharedHalf) {
  SessionBudget budget(/*bytes=*/1000, /*max_sessions=*/10);
  EXPECT_TRUE(budget.Take(/*held=*/0, 500));
  EXPECT_FALSE(budget.Take(/*held=*/500, 1));
  EXPECT_EQ(budget.taken(), 500) << "bytes that were refused must not count";
  budget.Return(1);
  EXPECT_TRUE(budget.Take(/*held=*/499, 1));
}

TEST(SessionBudget, EachSessionCanTakeItsShare) {
  SessionBudget budget(/*bytes=*/1000, /*max_sessions=*/10);
  EXPECT_TRUE(budget.Take(/*held=*/0, 500));
  for (int session = 0; session < 10; ++session) {
    EXPECT_TRUE(budget.Take(/*held=*/0, 30));
    EXPECT_TRUE(budget.Take(/*held=*/30, 20));
    EXPECT_FALSE(budget.Take(/*held=*/50, 1));
  }
  EXPECT_EQ(budget.taken(), budget.bytes());
}

TEST(SessionFrameFuzz, MutatedFramesAreDecodedOrRefused) {
  SessionFrame frame;
  frame.kind = SessionFrame::Kind::kMessage;
  frame.sequence = 7;
  frame.taken = 3;
  frame.window_bytes = 1 << 20;
  frame.message = "a message";
  const std::string good = EncodeSessionFrame(frame);
  Fuzz(50000, [&good](Mutator* mutator) {
    const std::string bytes = mutator->Mutate(good);
    const absl::StatusOr<SessionFrame> decoded = DecodeSessionFrame(bytes);
    if (decoded.ok()) {
      EXPECT_EQ(EncodeSessionFrame(*decoded), bytes);
    } else {
      EXPECT_TRUE(absl::IsDataLoss(decoded.status()) ||
                  absl::IsFailedPrecondition(decoded.status()))
          << decoded.status();
    }
  });
}

}  // namespace
}  // namespace ding
