// Tasks with a goal: the names of their observation fields, and the reward at the goal. Envs write
// these fields, and hindsight replay reads them: it replaces the desired goal by a goal that was
// reached, and computes the reward anew.
//
//     obs/observation     float32[N]  what the agent sees without the goal
//     obs/achieved_goal   float32[G]  the goal that the agent has reached now
//     obs/desired_goal    float32[G]  the goal that it should reach; the same in a whole episode
//
// The goal that a step achieved is in the observation after the step. The reward of the step is
// SparseGoalReward(achieved, desired, radius).
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_DATA_GOAL_FIELDS_H_
#define DING_WORKER_DATA_GOAL_FIELDS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/spec.h"

namespace ding {

inline constexpr absl::string_view kGoalObservationField = "obs/observation";
inline constexpr absl::string_view kAchievedGoalField = "obs/achieved_goal";
inline constexpr absl::string_view kDesiredGoalField = "obs/desired_goal";

// The reward that an env gives for a step that leads to `achieved` if `desired` is the goal.
struct GoalReward {
  std::vector<float> achieved;
  std::vector<float> desired;
  float reward = 0;
};

// The Euclidean distance between two goals of the same size.
double GoalDistance(absl::Span<const float> achieved, absl::Span<const float> desired);

// 0 within `radius` of the desired goal, else -1.
inline float SparseGoalReward(absl::Span<const float> achieved, absl::Span<const float> desired,
                              double radius) {
  return GoalDistance(achieved, desired) <= radius ? 0.0f : -1.0f;
}

// Checks that `fields` has both goals, as float32 of the same shape. kInvalidArgument names the
// field that is missing or wrong.
absl::Status CheckGoalFields(const Spec& fields);

}  // namespace ding

#endif  // DING_WORKER_DATA_GOAL_FIELDS_H_
