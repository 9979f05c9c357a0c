// Records videos of the episodes of an evaluation and keeps the worst, the median and the best.
//
// Every picture is encoded at once (metrics/video.h): without that, 8 episodes of 500 pictures of 600 x 400
// would need 3 GB.
//
// Ownership: a value.   Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_EVALUATOR_EVAL_VIDEOS_H_
#define DING_WORKER_COLLECTOR_EVALUATOR_EVAL_VIDEOS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/image.h"
#include "ding_worker/metrics/video.h"

namespace ding {

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
  // Keeps at most `max_frames` pictures of an episode; further ones are dropped. `make_encoder` makes the encoder
  // of an episode.
  EvalVideos(int env_num, int64_t max_frames,
             std::function<absl::StatusOr<std::unique_ptr<VideoEncoder>>()> make_encoder);

  // Whether the running episode of this env has `max_frames` pictures; the episode counts as cut then.
  bool is_full(int env_id);
  // Adds a picture to the running episode of the env. Errors are those of `make_encoder` and of
  // VideoEncoder::AddFrame(); its exceptions are kInternal.
  absl::Status AddFrame(int env_id, const Image& picture);
  // Ends the running episode, or drops it as void.
  absl::Status EndEpisode(int env_id, double episode_return);
  void DropEpisode(int env_id) { running_[env_id] = {}; }

  // Returns the videos by ascending return: for one episode "best"; for two "worst", "best"; for three
  // "worst", "median", "best"; for more "worst", "median_low", "median_high", "best". NaN is the worst.
  // Removes the returned videos.
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

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVALUATOR_EVAL_VIDEOS_H_
