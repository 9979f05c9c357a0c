#include "ding_worker/replay_buffer/selection/rate_limiter.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Options = ReplayRatioLimiter::Options;

std::vector<std::string> Problems(const Options& options, int64_t draw_rows) {
  std::vector<std::string> problems;
  ReplayRatioLimiter::AppendProblems(options, draw_rows, &problems);
  return problems;
}

TEST(ReplayRatioLimiterTest, AllWrongOptionsAreListed) {
  EXPECT_THAT(Problems({}, 0), IsEmpty());
  EXPECT_THAT(Problems({2, 2, 100, 64}, 64), IsEmpty());
  EXPECT_THAT(Problems({-1, 0, -3, 63}, 64),
              ElementsAre(HasSubstr("replay_ratio.min is -1"), HasSubstr("replay_ratio.max is 0"),
                          HasSubstr("replay_ratio.min_size is -3"),
                          AllOf(HasSubstr("replay_ratio.error_buffer is 63, expected at least 64"),
                                HasSubstr("could wait for each other"))));
  EXPECT_THAT(Problems({3, 2, 0, 0}, 0),
              ElementsAre(HasSubstr("min is 3, expected at most its max, 2")));
  const double nan = std::nan("");
  EXPECT_THAT(Problems({nan, nan, 0, 0}, 0),
              ElementsAre(HasSubstr("min is nan"), HasSubstr("max is nan")));
  EXPECT_THAT(Problems({std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::infinity(), 0, 0},
                       0),
              ElementsAre(HasSubstr("min is inf")));
}

TEST(ReplayRatioLimiterTest, WithoutBoundsEverythingIsAllowed) {
  ReplayRatioLimiter limiter({});
  EXPECT_THAT(limiter.CheckSample(1000), IsOk());
  limiter.CountSample(1000);
  EXPECT_THAT(limiter.CheckPush(1000), IsOk());
  limiter.CountPush(1'000'000);
  EXPECT_THAT(limiter.CheckPush(1000), IsOk());
}

TEST(ReplayRatioLimiterTest, ADrawWaitsForRows) {
  ReplayRatioLimiter limiter({0, 2, 10, 8});
  limiter.CountPush(9);
  EXPECT_THAT(limiter.CheckSample(8), IsFailedPrecondition("9 of 10 are pushed"));
  limiter.CountPush(4);
  EXPECT_EQ(limiter.ratio(), 0);
  EXPECT_THAT(
      limiter.CheckSample(8),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               "more rows before 8 are drawn (replay_ratio.max is 2: 0 rows are drawn and 3 "
               "pushed after the first 10)"));
  limiter.CountPush(1);
  EXPECT_THAT(limiter.CheckSample(8), IsOk());
  limiter.CountSample(8);
  EXPECT_EQ(limiter.ratio(), 2);
  EXPECT_THAT(limiter.CheckSample(1), IsFailedPrecondition());
}

TEST(ReplayRatioLimiterTest, APushWaitsForDraws) {
  ReplayRatioLimiter limiter({4, 4, 10, 8});
  limiter.CountPush(12);
  EXPECT_THAT(limiter.CheckPush(100), IsOk()) << "8 rows behind";
  limiter.CountPush(1);
  EXPECT_THAT(limiter.CheckPush(1),
              StatusIs(absl::StatusCode::kUnavailable,
                       "more draws before 1 rows are pushed (replay_ratio.min is 4: 0 rows are "
                       "drawn and 3 pushed after the first 10)"));
  limiter.CountSample(4);
  EXPECT_THAT(limiter.CheckPush(1), IsOk());
}

TEST(ReplayRatioLimiterTest, ARestoredLimiterGoesOn) {
  ReplayRatioLimiter limiter({1, 1, 10, 8});
  limiter.Restore(30, 20);
  EXPECT_EQ(limiter.ratio(), 1);
  EXPECT_THAT(limiter.CheckSample(1), IsFailedPrecondition());
  EXPECT_THAT(limiter.CheckPush(1), IsOk());
  limiter.CountPush(9);
  EXPECT_THAT(limiter.CheckPush(1), IsUnavailable());
}

// Keeps every call, and counts anew for each question.
struct NaiveModel {
  Options options;
  std::vector<int64_t> pushes;
  std::vector<int64_t> draws;

  int64_t pushed() const { return std::accumulate(pushes.begin(), pushes.end(), int64_t{0}); }
  int64_t drawn() const { return std::accumulate(draws.begin(), draws.end(), int64_t{0}); }
  bool MayPush() const {
    if (pushed() <= options.min_size) return true;
    return static_cast<double>(drawn() + options.error_buffer) >=
           options.min * static_cast<double>(pushed() - options.min_size);
  }
  bool MayDraw(int64_t rows) const {
    if (pushed() < options.min_size) return false;
    if (options.max == std::numeric_limits<double>::infinity()) return true;
    return static_cast<double>(drawn() + rows) <=
           options.max * static_cast<double>(pushed() - options.min_size);
  }
};

// The limiter agrees with the model whatever happens, obeys its bounds, and one of a draw and a
// push is allowed at any time.
TEST(ReplayRatioLimiterTest, AgreesWithANaiveModelAndNeverBlocksBoth) {
  Rng rng(3, "replay_ratio_limiter_test");
  int64_t refused_pushes = 0;
  int64_t refused_draws = 0;
  for (int round = 0; round < 200; ++round) {
    const int64_t batch = 1 + static_cast<int64_t>(rng.UniformInt(64));
    NaiveModel model;
    model.options.min = rng.Uniform() < 0.2 ? 0 : rng.Uniform(0, 8);
    model.options.max = rng.Uniform() < 0.2 ? std::numeric_limits<double>::infinity()
                                            : model.options.min + rng.Uniform(0, 2) * rng.Uniform();
    if (model.options.max == 0) model.options.max = 1;
    model.options.min_size = static_cast<int64_t>(rng.UniformInt(100));
    model.options.error_buffer = batch + static_cast<int64_t>(rng.UniformInt(10));
    ASSERT_THAT(Problems(model.options, batch), IsEmpty());
    ReplayRatioLimiter limiter(model.options);
    int64_t largest_push = 0;
    for (int step = 0; step < 200; ++step) {
      const int64_t rows = 1 + static_cast<int64_t>(rng.UniformInt(200));
      const bool may_push = limiter.CheckPush(rows).ok();
      const bool may_draw = limiter.CheckSample(batch).ok();
      ASSERT_EQ(may_push, model.MayPush());
      ASSERT_EQ(may_draw, model.MayDraw(batch));
      ASSERT_TRUE(may_push || may_draw)
          << "min " << model.options.min << " max " << model.options.max << " pushed "
          << model.pushed() << " drawn " << model.drawn();
      if (rng.Uniform() < 0.5) {
        refused_pushes += may_push ? 0 : 1;
        if (!may_push) continue;
        limiter.CountPush(rows);
        model.pushes.push_back(rows);
        largest_push = std::max(largest_push, rows);
      } else {
        refused_draws += may_draw ? 0 : 1;
        if (!may_draw) continue;
        limiter.CountSample(batch);
        model.draws.push_back(batch);
      }
      const auto counted =
          static_cast<double>(std::max<int64_t>(0, model.pushed() - model.options.min_size));
      const auto drawn = static_cast<double>(model.drawn());
      ASSERT_TRUE(drawn <= model.options.max * counted || drawn == 0);
      // A push may leave the lower bound behind by itself only.
      ASSERT_GE(drawn + static_cast<double>(model.options.error_buffer),
                model.options.min * (counted - static_cast<double>(largest_push)) - 1e-6);
      ASSERT_EQ(limiter.ratio(), counted > 0 ? drawn / counted : 0);
    }
  }
  EXPECT_GT(refused_pushes, 1000);
  EXPECT_GT(refused_draws, 1000);
}

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
              IsUnavailable("a push of 201 rows", "1000 pushed, 600 drawn", "expected at most 2"));
  controller.Reset();
  EXPECT_THAT(controller.CheckPush(201), IsOk());
}

TEST(ThruputController, DrawsAreRefusedBelowTheMinimum) {
  SimulatedClock clock;
  ThruputController controller(Limits(2, 0.5), &clock);
  EXPECT_THAT(controller.CheckSample(1), IsFailedPrecondition());
  controller.CountPush(64);
  controller.CountSample(64);
  EXPECT_THAT(controller.CheckSample(64), IsOk());
  EXPECT_THAT(controller.CheckSample(65),
              IsFailedPrecondition("a draw of 65 rows", "expected at least 0.5"));
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
    EXPECT_THAT(controller.CheckSample(21), IsFailedPrecondition());
  }
}

}  // namespace
}  // namespace ding
