// A point must reach a goal, with a sparse reward: ReachGoal-v0 in an empty square, PointMaze-v0 in
// a maze. They are small tasks of this project for hindsight replay: a random walk hardly ever
// reaches the goal.
//
// The square is [-1, 1] x [-1, 1]; walls are cells of a grid in it. The point has a velocity, which
// the action accelerates: 10 times the action in 1/s^2, less twice the velocity, for steps of 0.05
// s (semi-implicit Euler). A wall stops it in the direction of the wall.
//
// Observation: as data/goal_fields.h says, with G = 2 (x, y), N = 4 (x, y, velocities). Action:
// float32[2] in [-1, 1].   Reward: 0 within the radius of the goal, else -1.   Never terminated.
// Time limit: ReachGoal-v0 50 steps, radius 0.05; PointMaze-v0 150 steps, radius 0.1. Info at the
// end: "is_success", 1 if the point is at the goal.
//
// Start and goal are drawn from the free places, at least two radii apart.
//
// Threads: as Env.
#ifndef DING_WORKER_ENV_GOALS_POINT_GOAL_H_
#define DING_WORKER_ENV_GOALS_POINT_GOAL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"

namespace ding {

inline constexpr double kReachGoalRadius = 0.05;
inline constexpr double kPointMazeRadius = 0.1;

absl::StatusOr<std::unique_ptr<Env>> CreateReachGoal();
absl::StatusOr<std::unique_ptr<Env>> CreatePointMaze();

}  // namespace ding

#endif  // DING_WORKER_ENV_GOALS_POINT_GOAL_H_
