// What videos, averages and summaries do with sizes and numbers that nobody should give them. Run
// it with AddressSanitizer and UndefinedBehaviorSanitizer, too.
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/averages.h"
#include "ding_worker/metrics/file_sink.h"
#include "ding_worker/metrics/gif.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int kMinInt = std::numeric_limits<int>::min();
constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(MetricsMisuse, Gif_PicturesOfImpossibleSizes_AreRefused) {
  GifEncoder video(/*frames_per_second=*/kMinInt);
  for (const auto& [width, height] : std::vector<std::pair<int, int>>{
           {0, 0}, {-1, -1}, {kMinInt, 1}, {kMaxInt, kMaxInt}, {2, 2}}) {
    Image picture;
    picture.width = width;
    picture.height = height;
    EXPECT_THAT(video.AddFrame(picture), IsInvalid());
  }
  EXPECT_THAT(video.Finish(), IsFailedPrecondition());
}

TEST(MetricsMisuse, Gif_UsedAfterItsEnd_IsRefused) {
  GifEncoder video(kMaxInt);
  const Image picture = {2, 1, std::vector<uint8_t>(6, 7)};
  ASSERT_THAT(video.AddFrame(picture), IsOk());
  ASSERT_THAT(video.Finish(), IsOk());
  EXPECT_THAT(video.AddFrame(picture), IsFailedPrecondition("finished already"));
  EXPECT_THAT(video.Finish(), IsFailedPrecondition());
}

TEST(MetricsMisuse, Histogram_OfAnyNumbers_HasEachOnce) {
  const float most = std::numeric_limits<float>::max();
  const std::vector<float> values = {kNan, kInf, -kInf, most, -most, 0, most, 1e-45f};
  for (const int buckets : {1, 2, 30, 1 << 20}) {
    const HistogramSummary summary = Summarize(values, buckets);
    EXPECT_EQ(summary.non_finite_count, 3);
    int64_t counted = 0;
    for (const int64_t count : summary.counts) counted += count;
    EXPECT_EQ(counted, 5) << buckets;
  }
  EXPECT_EQ(Summarize({}).count, 0);
}

TEST(MetricsMisuseDeathTest, SizesOutOfRange_EndTheProgramWithASentence) {
  for (const int size : {0, -1, kMinInt}) {
    EXPECT_DEATH(Summarize({1}, size), "buckets");
    EXPECT_DEATH(WindowAverage{size}, "window");
    EXPECT_DEATH(Monitor{size}, "window");
  }
  EXPECT_DEATH(Summarize({1, 2}, kMaxInt), "buckets");
}

TEST(MetricsMisuse, Monitor_AnyNumbersAndStates_AreReadOrRefused) {
  Monitor monitor(kMaxInt);
  monitor.Add("", kNan);
  monitor.Add("x", kInf);
  EXPECT_EQ(monitor.Average("unknown"), std::nullopt);
  StateDict state;
  ASSERT_THAT(state.WriteInt("x", 3), IsOk());
  EXPECT_THAT(monitor.LoadState(&state), IsInvalid());
}

}  // namespace
}  // namespace ding
