#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/evaluator/vector_eval_monitor.h"
#include "ding_worker/data/image.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::Pair;

Image Pixel() {
  Image picture;
  picture.width = 1;
  picture.height = 1;
  picture.rgb = {1, 2, 3};
  return picture;
}

std::vector<std::pair<std::string, double>> Chosen(const std::vector<double>& returns) {
  EvalVideos videos(2, 10);
  for (size_t i = 0; i < returns.size(); ++i) {
    const int env_id = static_cast<int>(i % 2);
    EXPECT_THAT(videos.AddFrame(env_id, Pixel()), IsOk());
    EXPECT_THAT(videos.EndEpisode(env_id, returns[i]), IsOk());
  }
  std::vector<std::pair<std::string, double>> chosen;
  for (const EvalVideos::Video& video : videos.TakeChosen()) {
    EXPECT_FALSE(video.bytes.empty());
    chosen.emplace_back(video.which, video.episode_return);
  }
  return chosen;
}

TEST(EvalVideosTest, ChoosesByReturn) {
  EXPECT_TRUE(Chosen({}).empty());
  EXPECT_THAT(Chosen({3}), ElementsAre(Pair("best", 3)));
  EXPECT_THAT(Chosen({3, -1}), ElementsAre(Pair("worst", -1), Pair("best", 3)));
  EXPECT_THAT(Chosen({3, -1, 2}),
              ElementsAre(Pair("worst", -1), Pair("median", 2), Pair("best", 3)));
  EXPECT_THAT(Chosen({6, 5, 4, 3, 2, 1}), ElementsAre(Pair("worst", 1), Pair("median_low", 3),
                                                      Pair("median_high", 4), Pair("best", 6)));
}

TEST(EvalVideosTest, NanIsWorst) {
  const auto chosen = Chosen({1, std::nan(""), 2});
  EXPECT_TRUE(std::isnan(chosen[0].second));
  EXPECT_EQ(chosen[2].second, 2);
}

TEST(EvalVideosTest, LeavesOutVoidEpisodesAndExcessPictures) {
  EvalVideos videos(1, 2);
  ASSERT_THAT(videos.AddFrame(0, Pixel()), IsOk());
  EXPECT_FALSE(videos.is_full(0));
  ASSERT_THAT(videos.AddFrame(0, Pixel()), IsOk());
  EXPECT_TRUE(videos.is_full(0));
  videos.DropEpisode(0);
  EXPECT_FALSE(videos.is_full(0));
  EXPECT_TRUE(videos.TakeChosen().empty());
}

}  // namespace
}  // namespace ding
