// Envs with a goal: what their observations are called, and the reward of being there. Hindsight replay reads
// both: it puts a goal that was reached into the place of the one that was asked for, and computes the reward anew.
//
//     obs/observation     float32[N]  what the agent sees without the goal
//     obs/achieved_goal   float32[G]  where it is, in the terms of a goal
//     obs/desired_goal    float32[G]  where it should be; the same in a whole episode
//
// The goal that a step achieved is in the observation after the step, and its reward is
// SparseGoalReward(achieved, desired, radius): 0 within the radius, else -1.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_ENV_GOALS_GOAL_FIELDS_H_
#define DING_WORKER_ENV_GOALS_GOAL_FIELDS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/env/env.h"

namespace ding {

inline constexpr absl::string_view kObservationField = "obs/observation";
inline constexpr absl::string_view kAchievedGoalField = "obs/achieved_goal";
inline constexpr absl::string_view kDesiredGoalField = "obs/desired_goal";

// The distance between two goals of the same size.
double GoalDistance(absl::Span<const float> achieved, absl::Span<const float> desired);
inline float SparseGoalReward(absl::Span<const float> achieved, absl::Span<const float> desired,
                              double radius) {
  return GoalDistance(achieved, desired) <= radius ? 0.0f : -1.0f;
}

// kInvalidArgument, naming the env and what it lacks, unless it is a single-player env whose two goals are float32
// of the same shape.
absl::Status CheckHasGoals(const EnvSpec& spec);

}  // namespace ding

#endif  // DING_WORKER_ENV_GOALS_GOAL_FIELDS_H_
