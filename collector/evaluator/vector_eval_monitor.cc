#include "ding_worker/collector/evaluator/vector_eval_monitor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/metrics/gif.h"

namespace ding {
namespace {

constexpr int kMaxEnvs = 1 << 20;
constexpr int64_t kMaxFrames = 2000;  // of an episode, as in a config (max_video_frames)

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

absl::StatusOr<VectorEvalMonitor> VectorEvalMonitor::Create(int env_num, int64_t n_episode) {
  if (env_num > kMaxEnvs) {
    return absl::InvalidArgumentError(
        absl::StrCat("an evaluation in ", env_num, " envs, expected at most ", kMaxEnvs));
  }
  if (env_num < 1 || n_episode < env_num) {
    return absl::InvalidArgumentError(absl::StrCat("n_episode is ", n_episode, " for ", env_num,
                                                   " envs, expected at least one episode per env, "
                                                   "and an env"));
  }
  return VectorEvalMonitor(env_num, n_episode);
}

VectorEvalMonitor::VectorEvalMonitor(int env_num, int64_t n_episode)
    : n_episode_(n_episode), envs_(static_cast<size_t>(env_num)) {
  for (int id = 0; id < env_num; ++id) {
    envs_[id].quota = n_episode / env_num + (id < n_episode % env_num ? 1 : 0);
  }
}

absl::Status VectorEvalMonitor::CheckEnv(int env_id) const {
  if (env_id >= 0 && env_id < static_cast<int>(envs_.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no env ", env_id, ", only 0..", envs_.size() - 1));
}

absl::Status VectorEvalMonitor::CheckRoom(int env_id, size_t kept) const {
  if (static_cast<int64_t>(kept) < quota(env_id)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("env ", env_id, " has played all of its ", quota(env_id), " episodes already"));
}

absl::Status VectorEvalMonitor::Update(int env_id, double episode_return, const NamedValues& info,
                                       std::vector<double> other_returns) {
  DING_RETURN_IF_ERROR(Keep(env_id, episode_return, std::move(other_returns)));
  return UpdateInfo(env_id, info);
}

absl::Status VectorEvalMonitor::Keep(int env_id, double episode_return,
                                     std::vector<double> other_returns) {
  DING_RETURN_IF_ERROR(CheckEnv(env_id));
  DING_RETURN_IF_ERROR(CheckRoom(env_id, envs_[env_id].returns.size()));
  if (videos_.has_value()) {
    DING_RETURN_IF_ERROR(videos_->EndEpisode(env_id, episode_return));
  }
  envs_[env_id].returns.push_back(episode_return);
  envs_[env_id].other_returns.push_back(std::move(other_returns));
  ++current_episode_;
  return absl::OkStatus();
}

absl::Status VectorEvalMonitor::UpdateInfo(int env_id, const NamedValues& info) {
  DING_RETURN_IF_ERROR(CheckEnv(env_id));
  DING_RETURN_IF_ERROR(CheckRoom(env_id, envs_[env_id].infos.size()));
  envs_[env_id].infos.push_back(info);
  return absl::OkStatus();
}

absl::Status VectorEvalMonitor::UpdateVideo(int env_id, const Image& picture) {
  DING_RETURN_IF_ERROR(CheckEnv(env_id));
  if (is_full(env_id)) return absl::OkStatus();
  if (!videos_.has_value()) videos_.emplace(static_cast<int>(envs_.size()), kMaxFrames);
  return videos_->AddFrame(env_id, picture);
}

absl::StatusOr<double> VectorEvalMonitor::GetLatestReward(int env_id) const {
  DING_RETURN_IF_ERROR(CheckEnv(env_id));
  if (!envs_[env_id].returns.empty()) return envs_[env_id].returns.back();
  return absl::FailedPreconditionError(absl::StrCat("env ", env_id, " has no episode yet"));
}

std::vector<EvalVideos::Video> VectorEvalMonitor::GetVideo() {
  return videos_.has_value() ? videos_->TakeChosen() : std::vector<EvalVideos::Video>();
}

std::vector<double> VectorEvalMonitor::GetEpisodeReturn(int player) const {
  std::vector<double> returns;
  for (const EnvResults& env : envs_) {
    for (size_t i = 0; i < env.returns.size(); ++i) {
      DING_CHECK(player >= 0 && player <= static_cast<int>(env.other_returns[i].size()))
          << "there is no player " << player;
      returns.push_back(player == 0 ? env.returns[i] : env.other_returns[i][player - 1]);
    }
  }
  return returns;
}

std::map<std::string, std::vector<double>> VectorEvalMonitor::GetEpisodeInfo() const {
  std::map<std::string, std::vector<double>> merged;
  for (const EnvResults& env : envs_) {
    for (const NamedValues& info : env.infos) {
      for (const auto& [name, value] : info) merged[name].push_back(value);
    }
  }
  return merged;
}

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
