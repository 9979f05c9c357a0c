// Evaluates a checkpoint: plays episodes with its policy, and on request makes a video of one and
// records them.
#ifndef DING_WORKER_WORKER_EVALUATION_EVALUATION_H_
#define DING_WORKER_WORKER_EVALUATION_EVALUATION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/collector/serial_evaluator.h"

namespace ding {

// A video shows the first kMaxVideoFrames steps of one of the first kMaxFilmedEpisodes episodes.
inline constexpr int64_t kMaxFilmedEpisodes = 10;
inline constexpr int64_t kMaxVideoFrames = 5000;

struct EvaluationVideo {
  std::string path;  // its ending is a registered format (metrics/video.h); empty: no video
  // Which of the filmed episodes, by their return: "worst", "median" (the lower one of two) or
  // "best".
  std::string episode = "median";
  // Steps per second, 1 to 100; not set: 50, or fewer where episodes are short (FramesPerSecond()).
  std::optional<int> frames_per_second;
};

// Returns the steps per second at which an episode of `max_episode_steps` steps takes four seconds:
// at least 2, so that a viewer can follow a few moves, and at most 50. Without a limit of steps (0)
// it is 50.
int FramesPerSecond(int64_t max_episode_steps);

struct EvaluationOptions {
  std::string checkpoint;  // its folder; only the model in it is needed
  int64_t n_episode = 10;  // at least 1
  uint64_t seed = 0;    // of the episodes, each of which begins differently, and of sampled actions
  bool sample = false;  // act as the policy does while it collects; else by its best actions
  // Type of another env with the observations and actions of the run's env; empty: the run's env.
  // Params, reward weights and evaluator_type of the run are then left out.
  std::string env;
  // Changes of the run's config, "path=value", after `env`: of the env, its manager and the
  // evaluator only.
  std::vector<std::string> settings;
  // File for the episodes (data/episodes.h), replaced after all of them are played; empty: they are
  // not recorded. If they are, returns are the sums of the recorded rewards.
  std::string record_episodes;
  EvaluationVideo video;
  // If set, it is called between two steps; true ends the evaluation with kCancelled.
  std::function<bool()> cancelled;
};

struct CheckpointEvaluation : EvalResult {
  std::string env;         // the name of the env that was played
  int64_t train_iter = 0;  // of the checkpoint
  int64_t env_step = 0;
  std::optional<double> video_return;  // of the episode in the video
  bool video_is_cut = false;           // it had more than kMaxVideoFrames steps
};

// Errors name the checkpoint.
//   kNotFound, kDataLoss  there is no checkpoint, or it is truncated or corrupted; its policy is
//                         not linked
//   kInvalidArgument      n_episode is below 1, the checkpoint is of another model, a setting does
//                         not belong here, or the env has other observations or actions: the
//                         message names the field
//   kFailedPrecondition   the checkpoint is of a run without an env, or a video of a game is asked
//                         for
//   kUnimplemented        a video of an env that cannot be rendered
//   other codes           as from WriteEpisodes() and WriteFileAtomically(); no half file is left
absl::StatusOr<CheckpointEvaluation> EvaluateCheckpoint(const EvaluationOptions& options);

}  // namespace ding

#endif  // DING_WORKER_WORKER_EVALUATION_EVALUATION_H_
