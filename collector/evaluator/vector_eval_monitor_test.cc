#include "ding_worker/collector/evaluator/vector_eval_monitor.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/image.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TEST(VectorEvalMonitorTest, DividesTheEpisodes) {
  DING_ASSERT_OK_AND_ASSIGN(const VectorEvalMonitor monitor, VectorEvalMonitor::Create(3, 8));
  EXPECT_EQ(monitor.quota(0), 3);
  EXPECT_EQ(monitor.quota(1), 3);
  EXPECT_EQ(monitor.quota(2), 2);
}

TEST(VectorEvalMonitorTest, QuotasAreExact) {
  DING_ASSERT_OK_AND_ASSIGN(VectorEvalMonitor monitor, VectorEvalMonitor::Create(2, 3));
  EXPECT_THAT(monitor.Update(0, 1, {}), IsOk());
  EXPECT_FALSE(monitor.is_full(0));
  EXPECT_THAT(monitor.Update(0, 2, {}), IsOk());
  EXPECT_TRUE(monitor.is_full(0));
  EXPECT_THAT(monitor.Update(0, 99, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("env 0")));
  EXPECT_FALSE(monitor.is_finished());
  EXPECT_EQ(monitor.current_episode(), 2);
  EXPECT_THAT(monitor.Update(1, 3, {}), IsOk());
  EXPECT_TRUE(monitor.is_finished());
  EXPECT_THAT(monitor.GetEpisodeReturn(), ElementsAre(1, 2, 3));
}

TEST(VectorEvalMonitorTest, OrdersResultsByEnv) {
  DING_ASSERT_OK_AND_ASSIGN(VectorEvalMonitor monitor, VectorEvalMonitor::Create(2, 4));
  EXPECT_THAT(monitor.Update(1, 10, {{"goals", 1}}), IsOk());
  EXPECT_THAT(monitor.Update(0, 20, {{"goals", 2}}), IsOk());
  EXPECT_THAT(monitor.Update(1, 30, {{"goals", 3}}), IsOk());
  EXPECT_THAT(monitor.Update(0, 40, {{"goals", 4}}), IsOk());
  EXPECT_THAT(monitor.GetEpisodeReturn(), ElementsAre(20, 40, 10, 30));
  EXPECT_THAT(monitor.GetEpisodeInfo(), ElementsAre(Pair("goals", ElementsAre(2, 4, 1, 3))));
}

TEST(VectorEvalMonitorTest, EpisodesMayNameDifferentValues) {
  DING_ASSERT_OK_AND_ASSIGN(VectorEvalMonitor monitor, VectorEvalMonitor::Create(2, 3));
  EXPECT_THAT(monitor.Update(0, 0, {}), IsOk());
  EXPECT_THAT(monitor.Update(0, 0, {{"a", 1}}), IsOk());
  EXPECT_THAT(monitor.Update(1, 0, {{"b", 2}, {"a", 3}}), IsOk());
  EXPECT_THAT(monitor.GetEpisodeInfo(),
              ElementsAre(Pair("a", ElementsAre(1, 3)), Pair("b", ElementsAre(2))));
}

TEST(VectorEvalMonitorTest, NeedsAnEpisodePerEnv) {
  EXPECT_THAT(VectorEvalMonitor::Create(4, 3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("n_episode is 3 for 4 envs")));
  EXPECT_THAT(VectorEvalMonitor::Create(0, 3), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(VectorEvalMonitorTest, EnvsAndPlayersThatDoNotExist_AreRefused) {
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_THAT(VectorEvalMonitor::Create(kMost, std::numeric_limits<int64_t>::max()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  DING_ASSERT_OK_AND_ASSIGN(VectorEvalMonitor monitor, VectorEvalMonitor::Create(2, 4));
  ASSERT_THAT(monitor.Update(0, 1, {}), IsOk());
  for (const int env : {-1, 2, kMost}) {
    EXPECT_THAT(monitor.Update(env, 1, {}), StatusIs(absl::StatusCode::kInvalidArgument)) << env;
    EXPECT_DEATH((void)monitor.is_full(env), "there is no env");
    EXPECT_DEATH((void)monitor.quota(env), "there is no env");
  }
  for (const int player : {-1, 1, kMost}) {
    EXPECT_DEATH((void)monitor.GetEpisodeReturn(player), "there is no player");
  }
}

TEST(VectorEvalMonitorTest, ReturnsAndInfos_AreKeptOneByOne) {
  DING_ASSERT_OK_AND_ASSIGN(VectorEvalMonitor monitor, VectorEvalMonitor::Create(2, 2));
  EXPECT_THAT(monitor.GetLatestReward(0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("env 0")));
  EXPECT_THAT(monitor.UpdateReward(0, 5), IsOk());
  EXPECT_THAT(monitor.UpdateInfo(0, {{"goals", 3}}), IsOk());
  EXPECT_EQ(monitor.GetLatestReward(0).value(), 5);
  EXPECT_FALSE(monitor.is_finished());
  EXPECT_THAT(monitor.UpdateReward(0, 6), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(monitor.UpdateInfo(0, {}), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(monitor.UpdateReward(1, 7), IsOk());
  EXPECT_TRUE(monitor.is_finished());
  EXPECT_THAT(monitor.GetEpisodeInfo(), ElementsAre(Pair("goals", ElementsAre(3))));
  EXPECT_THAT(monitor.GetLatestReward(2), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(VectorEvalMonitorTest, Videos_AreOfTheEpisodesThatCount) {
  DING_ASSERT_OK_AND_ASSIGN(VectorEvalMonitor monitor, VectorEvalMonitor::Create(2, 2));
  EXPECT_THAT(monitor.GetVideo(), IsEmpty());
  Image picture;
  picture.width = 2;
  picture.height = 1;
  picture.rgb = {0, 0, 0, 255, 255, 255};
  for (const int env_id : {0, 1}) {
    ASSERT_THAT(monitor.UpdateVideo(env_id, picture), IsOk());
    ASSERT_THAT(monitor.UpdateReward(env_id, env_id), IsOk());
    ASSERT_THAT(monitor.UpdateVideo(env_id, picture), IsOk());  // Its quota is full.
  }
  EXPECT_THAT(monitor.UpdateVideo(2, picture), StatusIs(absl::StatusCode::kInvalidArgument));
  const std::vector<EvalVideos::Video> videos = monitor.GetVideo();
  ASSERT_EQ(videos.size(), 2u);
  EXPECT_EQ(videos[0].which, "worst");
  EXPECT_EQ(videos[1].episode_return, 1);
}

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
