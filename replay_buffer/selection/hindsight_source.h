// Draws single rows of envs with goals, and replaces the goals of a part of them by goals that were
// reached later or elsewhere in their episodes: Andrychowicz et al. 2017, "Hindsight Experience
// Replay".
//
//     obs/achieved_goal   float32[G]  where the agent is, in the terms of a goal
//     obs/desired_goal    float32[G]  where it should be; the same in a whole episode
//
// A row's own goal is kept with probability 1 - relabel_ratio. Otherwise obs/desired_goal and
// next_obs/desired_goal become the goal that was achieved after another row of the episode, as far
// as this is in the buffer:
//
//   kFuture   after the row itself or one of those behind it, with equal probabilities
//   kFinal    after the last row
//   kEpisode  after any row
//
// and the reward is reward_at_goal if next_obs/achieved_goal is within the radius of the new goal,
// and reward_elsewhere if not. The env must reward its own goals by the same rule: Check() refuses
// rows with another reward. The rows in the buffer do not change, so that there is one copy of the
// data.
//
// Threads: as DrawKind.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_HINDSIGHT_SOURCE_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_HINDSIGHT_SOURCE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/replay_buffer/selection/draw_source.h"
#include "ding_worker/replay_buffer/storage/row_store.h"

namespace ding {

enum class HindsightGoal { kFuture, kFinal, kEpisode };

struct HindsightOptions {
  HindsightGoal goal = HindsightGoal::kFuture;
  double relabel_ratio = 0.8;  // in [0, 1]; 0.8 is 4 new goals for each own one
  double radius = 0;           // of a goal, above 0
  float reward_at_goal = 0;    // the env's reward within the radius
  float reward_elsewhere = -1;
};

// Whether `reward`, which the env gives for these goals, is the one that a relabelled row would
// get; kInvalidArgument says what to set. A distance that is the radius but for rounding is not
// judged.
absl::Status CheckHindsightReward(const HindsightOptions& options, absl::Span<const float> achieved,
                                  absl::Span<const float> desired, float reward);

class HindsightDraws : public DrawKind {
 public:
  HindsightDraws(const HindsightOptions& options, double gamma)
      : options_(options), gamma_(gamma) {}

  absl::string_view state_type() const override { return "hindsight"; }
  int64_t state_version() const override { return 1; }
  // Also kInvalidArgument if the rows have no goals.
  absl::StatusOr<std::unique_ptr<DrawSource>> MakeSource(std::shared_ptr<RowStore> store) override;

 private:
  const HindsightOptions options_;
  const double gamma_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_HINDSIGHT_SOURCE_H_
