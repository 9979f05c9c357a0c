// Videos of the episodes of an evaluation, of which it keeps the worst, the median and the best.
//
// Every picture is packed at once (metrics/gif.h): an evaluation of 8 episodes of 500 pictures of
// 600 x 400 would need 3 GB otherwise.
//
// Ownership: a value.   Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_EVAL_VIDEOS_H_
#define DING_WORKER_COLLECTOR_EVAL_VIDEOS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/image.h"
#include "ding_worker/metrics/gif.h"

namespace ding {

class EvalVideos {
 public:
  struct Video {
    std::string which;  // "worst", "median", ...
    double episode_return = 0;
    int width = 0;
    int height = 0;
    std::string gif;
  };

  // At most so many pictures of an episode; what follows is left out.
  EvalVideos(int env_num, int64_t max_frames);

  // Whether the running episode of this env takes no more pictures.
  bool is_full(int env_id) const;
  // The next picture of the env's running episode. kInvalidArgument as of GifEncoder::AddFrame().
  absl::Status AddFrame(int env_id, const Image& picture);
  // The running episode is over, or void.
  absl::Status EndEpisode(int env_id, double episode_return);
  void DropEpisode(int env_id) { running_[env_id].reset(); }

  // By return, in ascending order: of one episode "best"; of two "worst", "best"; of three "worst",
  // "median", "best"; of more "worst", "median_low", "median_high", "best". NaN is worst of all.
  // Those that are returned are gone from here.
  std::vector<Video> TakeChosen();

 private:
  const int64_t max_frames_;
  std::vector<std::optional<GifEncoder>> running_;  // per env
  std::vector<Video> episodes_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVAL_VIDEOS_H_
