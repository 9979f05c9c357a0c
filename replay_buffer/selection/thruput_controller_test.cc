#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ThruputController::Options Limits(double max, double min) {
  ThruputController::Options options;
  options.max_push_sample_ratio = max;
  options.min_push_sample_ratio = min;
  return options;
}

TEST(ThruputController, AllWrongOptionsAreListed) {
  std::vector<std::string> problems;
  ThruputController::Options options = Limits(0, -1);
  options.window_seconds = std::nan("");
  ThruputController::AppendProblems(options, &problems);
  EXPECT_THAT(problems, testing::ElementsAre(HasSubstr("max is 0"), HasSubstr("min is -1"),
                                             HasSubstr("window_seconds is nan")));
  problems.clear();
  ThruputController::AppendProblems(Limits(1, 2), &problems);
  EXPECT_THAT(problems, testing::ElementsAre(HasSubstr("min is 2, expected at most its max, 1")));
  problems.clear();
  ThruputController::AppendProblems({}, &problems);
  EXPECT_TRUE(problems.empty());
}

TEST(ThruputController, WithoutLimitsNothingIsRefused) {
  SimulatedClock clock;
  ThruputController controller({}, &clock);
  EXPECT_THAT(controller.CheckSample(1000), IsOk());
  controller.CountSample(1000);
  EXPECT_THAT(controller.CheckPush(1 << 30), IsOk());
}

TEST(ThruputController, PushesAreRefusedAboveTheMaximum) {
  SimulatedClock clock;
  ThruputController controller(Limits(2, 0), &clock);
  controller.CountPush(1000);
  EXPECT_THAT(controller.CheckPush(1000), IsOk());  // No row was drawn yet.
  controller.CountSample(600);
  EXPECT_THAT(controller.CheckPush(200), IsOk());
  EXPECT_THAT(controller.CheckPush(201),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("a push of 201 rows"), HasSubstr("1000 pushed, 600 drawn"),
                             HasSubstr("expected at most 2"))));
  controller.Reset();
  EXPECT_THAT(controller.CheckPush(201), IsOk());
}

TEST(ThruputController, DrawsAreRefusedBelowTheMinimum) {
  SimulatedClock clock;
  ThruputController controller(Limits(2, 0.5), &clock);
  EXPECT_THAT(controller.CheckSample(1), StatusIs(absl::StatusCode::kFailedPrecondition));
  controller.CountPush(64);
  controller.CountSample(64);
  EXPECT_THAT(controller.CheckSample(64), IsOk());
  EXPECT_THAT(controller.CheckSample(65),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("a draw of 65 rows"), HasSubstr("expected at least 0.5"))));
}

TEST(ThruputController, OnePercentIsLeftAfterTheWindowHoweverOftenItFades) {
  for (const int asked : {1, 10, 1000}) {
    SimulatedClock clock;
    ThruputController::Options options = Limits(2, 0.5);
    options.window_seconds = 10;
    ThruputController controller(options, &clock);
    controller.CountPush(1000);
    for (int i = 0; i < asked; ++i) {
      clock.Advance(absl::Seconds(10) / asked);
      EXPECT_THAT(controller.CheckPush(1), IsOk());
    }
    // 10 pushed rows are left: 10 / 19 is above 0.5, 10 / 21 below.
    EXPECT_THAT(controller.CheckSample(19), IsOk());
    EXPECT_THAT(controller.CheckSample(21), StatusIs(absl::StatusCode::kFailedPrecondition));
  }
}

}  // namespace
}  // namespace ding
