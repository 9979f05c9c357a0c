// What an evaluation keeps of its episodes: their results (VectorEvalMonitor), and videos of some
// (EvalVideos).
//
// Ownership: values.   Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_EVALUATOR_VECTOR_EVAL_MONITOR_H_
#define DING_WORKER_COLLECTOR_EVALUATOR_VECTOR_EVAL_MONITOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/metrics/video.h"

namespace ding {

// Records videos of the episodes of an evaluation and keeps the worst, the median and the best.
//
// Every picture is encoded at once (metrics/video.h): without that, 8 episodes of 500 pictures of
// 600 x 400 would need 3 GB.
class EvalVideos {
 public:
  struct Video {
    std::string which;  // "worst", "median", ...
    double episode_return = 0;
    int width = 0;
    int height = 0;
    std::string bytes;  // the file
    bool cut = false;   // whether pictures were dropped
  };

  // A usual step of a control problem takes 20 ms, and browsers play this rate.
  static constexpr int kFramesPerSecond = 50;

  // Makes GIFs.
  EvalVideos(int env_num, int64_t max_frames);
  // Keeps at most `max_frames` pictures of an episode; further ones are dropped. `make_encoder`
  // makes the encoder of an episode.
  EvalVideos(int env_num, int64_t max_frames,
             std::function<absl::StatusOr<std::unique_ptr<VideoEncoder>>()> make_encoder);

  // Whether the running episode of this env has `max_frames` pictures; the episode counts as cut
  // then.
  bool is_full(int env_id);
  // Adds a picture to the running episode of the env. Returns the errors of `make_encoder` and of
  // VideoEncoder::AddFrame(); exceptions become kInternal.
  absl::Status AddFrame(int env_id, const Image& picture);
  // Ends the running episode, or drops it as void.
  absl::Status EndEpisode(int env_id, double episode_return);
  void DropEpisode(int env_id) { running_[env_id] = {}; }

  // Returns the videos by ascending return: for one episode "best"; for two "worst", "best"; for
  // three "worst", "median", "best"; for more "worst", "median_low", "median_high", "best". NaN is
  // the worst. Removes the returned videos.
  std::vector<Video> TakeChosen();

 private:
  struct Episode {
    std::unique_ptr<VideoEncoder> video;  // null before the first picture
    bool cut = false;
  };

  const int64_t max_frames_;
  const std::function<absl::StatusOr<std::unique_ptr<VideoEncoder>>()> make_encoder_;
  std::vector<Episode> running_;  // per env
  std::vector<Video> episodes_;
};

// Divides the episodes of an evaluation among its envs and keeps their results.
//
// Env i gets n_episode / env_num episodes, and one more if i < n_episode % env_num. Without quotas,
// envs with short (mostly bad) episodes would contribute more episodes.
class VectorEvalMonitor {
 public:
  // kInvalidArgument without envs, or with fewer episodes than envs.
  static absl::StatusOr<VectorEvalMonitor> Create(int env_num, int64_t n_episode);

  // Keeps the result of an episode, in a game also the results of players 1, 2, ... Keeps nothing
  // and returns kFailedPrecondition if the quota of the env is full, kInvalidArgument if there is
  // no such env.
  absl::Status Update(int env_id, double episode_return, const NamedValues& info,
                      std::vector<double> other_returns = {});
  // Keep the return and the info of an episode one by one, each with its own quota. Return the
  // errors of Update().
  absl::Status UpdateReward(int env_id, double episode_return) {
    return Keep(env_id, episode_return, {});
  }
  absl::Status UpdateInfo(int env_id, const NamedValues& info);
  // Adds a picture to the running episode of the env, which the next UpdateReward() ends. Does
  // nothing if the quota of the env is full. Returns the errors of EvalVideos, and kInvalidArgument
  // if there is no such env.
  absl::Status UpdateVideo(int env_id, const Image& picture);

  // Whether every env has filled its quota.
  bool is_finished() const { return current_episode_ == n_episode_; }
  // These two end the program if there is no such env.
  bool is_full(int env_id) const {
    return static_cast<int64_t>(Of(env_id).returns.size()) == Of(env_id).quota;
  }
  int64_t quota(int env_id) const { return Of(env_id).quota; }
  // The number of results so far.
  int64_t current_episode() const { return current_episode_; }
  int64_t n_episode() const { return n_episode_; }

  // Returns the last return of this env; kFailedPrecondition if it has none, kInvalidArgument if
  // there is no such env.
  absl::StatusOr<double> GetLatestReward(int env_id) const;
  // Returns the videos of the worst, the median and the best episode, and removes them
  // (EvalVideos::TakeChosen()).
  std::vector<EvalVideos::Video> GetVideo();
  // Returns all returns of a player, env by env.
  std::vector<double> GetEpisodeReturn(int player = 0) const;
  // Returns the values of the envs by name, env by env. Episodes may lack a name.
  std::map<std::string, std::vector<double>> GetEpisodeInfo() const;

 private:
  struct EnvResults {
    int64_t quota = 0;
    std::vector<double> returns;                     // returns of player 0
    std::vector<std::vector<double>> other_returns;  // in a game, returns of players 1, 2, ...
    std::vector<NamedValues> infos;
  };

  VectorEvalMonitor(int env_num, int64_t n_episode);
  absl::Status CheckEnv(int env_id) const;
  absl::Status CheckRoom(int env_id, size_t kept) const;
  absl::Status Keep(int env_id, double episode_return, std::vector<double> other_returns);
  const EnvResults& Of(int env_id) const {
    DING_CHECK(env_id >= 0 && env_id < static_cast<int>(envs_.size()))
        << "there is no env " << env_id;
    return envs_[static_cast<size_t>(env_id)];
  }

  int64_t n_episode_;
  int64_t current_episode_ = 0;
  std::vector<EnvResults> envs_;
  std::optional<EvalVideos> videos_;  // from the first picture on
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVALUATOR_VECTOR_EVAL_MONITOR_H_
