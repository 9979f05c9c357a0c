#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/policy/optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

TEST(TargetUpdate, HardCopiesEveryFreqIterations) {
  const TargetUpdate update{3, 0};
  std::vector<float> target = {0, 0};
  for (int64_t iter = 1; iter <= 7; ++iter) {
    const std::vector<float> online = {static_cast<float>(iter), static_cast<float>(-iter)};
    UpdateTarget(update, iter, online, absl::MakeSpan(target));
    EXPECT_EQ(target[0], static_cast<float>(iter / 3 * 3)) << "iteration " << iter;
    EXPECT_EQ(target[1], -target[0]);
  }
}

TEST(TargetUpdate, SoftMovesByThetaEveryIteration) {
  std::vector<float> target(19, 1.0f);
  const std::vector<float> online(19, 5.0f);
  UpdateTarget({0, 0.25}, 1, online, absl::MakeSpan(target));
  EXPECT_EQ(target, std::vector<float>(19, 2.0f));
  UpdateTarget({0, 0.25}, 2, online, absl::MakeSpan(target));
  EXPECT_EQ(target, std::vector<float>(19, 2.75f));
}

TEST(TargetUpdate, RequiresExactlyOneKind) {
  EXPECT_THAT(Validate({1, 0}), IsOk());
  EXPECT_THAT(Validate({0, 1}), IsOk());
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const TargetUpdate& bad :
       {TargetUpdate{0, 0}, TargetUpdate{100, 0.1}, TargetUpdate{-1, 0}, TargetUpdate{-1, 0.1},
        TargetUpdate{0, 1.5}, TargetUpdate{0, -0.1}, TargetUpdate{0, kNan}}) {
    EXPECT_THAT(Validate(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("freq is")))
        << bad.freq << " " << bad.theta;
  }
}

}  // namespace
}  // namespace ding
