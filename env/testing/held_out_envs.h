// Small tasks on which no default was tuned, and controllers written by hand, which say what a
// trained policy is worth there. They are registered as env types by their names:
//
//   HeldOutDrone      a drone in a plane has to come to a point and hover: 6 observations, 2 actions
//   HeldOutReacher    the hand of an arm with two links has to come to a target: 10 and 2
//   HeldOutMaze       a maze of 5 x 5 cells, where masks forbid steps into walls
//   HeldOutSparse     a walker in a square, rewarded at its goal only: 2 continuous actions ...
//   HeldOutSparseGrid ... or 4 directions
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_ENV_TESTING_HELD_OUT_ENVS_H_
#define DING_WORKER_ENV_TESTING_HELD_OUT_ENVS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ding {

// The mean returns of `episodes` episodes, whose seeds are 0, 1, ...
struct HeldOutReturns {
  double random = 0;      // of random legal actions
  double controller = 0;  // of the controller
};
// kNotFound: there is no such task.
absl::StatusOr<HeldOutReturns> MeasureHeldOutTask(const std::string& name, int episodes);

}  // namespace ding

#endif  // DING_WORKER_ENV_TESTING_HELD_OUT_ENVS_H_
