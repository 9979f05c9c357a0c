#include "ding_worker/collector/evaluator/eval_videos.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/metrics/gif.h"

namespace ding {
namespace {

struct Choice {
  absl::string_view which;
  size_t place;  // rank among the episodes by return
};

std::vector<Choice> Choose(size_t episodes) {
  switch (episodes) {
    case 0:
      return {};
    case 1:
      return {{"best", 0}};
    case 2:
      return {{"worst", 0}, {"best", 1}};
    case 3:
      return {{"worst", 0}, {"median", 1}, {"best", 2}};
    default: {
      const size_t middle = episodes / 2;
      return {{"worst", 0},
              {"median_low", middle - 1},
              {"median_high", middle},
              {"best", episodes - 1}};
    }
  }
}

bool IsWorse(const EvalVideos::Video& a, const EvalVideos::Video& b) {
  if (std::isnan(a.episode_return) || std::isnan(b.episode_return)) {
    return std::isnan(a.episode_return) && !std::isnan(b.episode_return);
  }
  return a.episode_return < b.episode_return;
}

}  // namespace

EvalVideos::EvalVideos(int env_num, int64_t max_frames)
    : EvalVideos(env_num, max_frames,
                 [] { return std::make_unique<GifEncoder>(kFramesPerSecond); }) {}

EvalVideos::EvalVideos(int env_num, int64_t max_frames,
                       std::function<absl::StatusOr<std::unique_ptr<VideoEncoder>>()> make_encoder)
    : max_frames_(max_frames),
      make_encoder_(std::move(make_encoder)),
      running_(static_cast<size_t>(env_num)) {}

bool EvalVideos::is_full(int env_id) {
  Episode& episode = running_[env_id];
  episode.cut = episode.video != nullptr && episode.video->frames() >= max_frames_;
  return episode.cut;
}

absl::Status EvalVideos::AddFrame(int env_id, const Image& picture) {
  std::unique_ptr<VideoEncoder>& video = running_[env_id].video;
  if (video == nullptr) {
    DING_ASSIGN_OR_RETURN(video, make_encoder_());
  }
  return CallUser("the video's encoder", [&] { return video->AddFrame(picture); });
}

absl::Status EvalVideos::EndEpisode(int env_id, double episode_return) {
  const Episode ended = std::move(running_[env_id]);
  running_[env_id] = {};
  Video video;
  video.episode_return = episode_return;
  video.width = ended.video->width();
  video.height = ended.video->height();
  video.cut = ended.cut;
  DING_ASSIGN_OR_RETURN(video.bytes,
                        CallUser("the video's encoder", [&] { return ended.video->Finish(); }));
  episodes_.push_back(std::move(video));
  return absl::OkStatus();
}

std::vector<EvalVideos::Video> EvalVideos::TakeChosen() {
  std::stable_sort(episodes_.begin(), episodes_.end(), IsWorse);
  std::vector<Video> chosen;
  for (const Choice& choice : Choose(episodes_.size())) {
    chosen.push_back(std::move(episodes_[choice.place]));
    chosen.back().which = std::string(choice.which);
  }
  episodes_.clear();
  return chosen;
}

}  // namespace ding
