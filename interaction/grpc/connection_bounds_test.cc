#include "ding_worker/interaction/grpc/connection_bounds.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(ConnectionBoundsTest, LeaveDescriptorsForEverythingElse) {
  for (const int64_t limit : {16, 64, 256, 1024, 4096, 20000, 65536}) {
    const ConnectionBounds bounds = ConnectionBounds::Within(limit);
    const int64_t all = bounds.silent + bounds.unproven + bounds.proven;
    EXPECT_LE(all, limit - limit / 4) << limit;
    if (limit >= 128) {
      EXPECT_LE(all, limit - 64) << limit;
    }
    EXPECT_GE(bounds.silent, 1) << limit;
    EXPECT_GE(bounds.unproven, 1) << limit;
    EXPECT_GE(bounds.proven, bounds.unproven) << limit;
  }
}

TEST(CallAllowanceTest, SomeAtOnceAndSomeInASecond) {
  constexpr int64_t kSecond = 1'000'000'000;
  CallAllowance allowance;
  EXPECT_TRUE(allowance.Take(CallAllowance::kAtOnce, 0));
  EXPECT_FALSE(allowance.Take(1, 0));
  CallAllowance patient;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(patient.Take(CallAllowance::kPerSecond, i * kSecond)) << i;
  }
  // What was not used is not kept for ever.
  EXPECT_FALSE(patient.Take(CallAllowance::kAtOnce + 1, 1'000'000 * kSecond));
}

}  // namespace
}  // namespace ding
