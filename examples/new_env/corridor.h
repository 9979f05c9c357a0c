// Corridor: a walker in a corridor of 11 places has to come to the goal.
//
// Observation: float32[2], place and goal, from 0 (left end) to 1.   Action: 0 left, 1 stay, 2
// right.   Reward: -0.01 per step, 1 at the goal.   Terminated: at the goal.   Time limit: 50
// steps.   Info: "success" at the end of an episode.
//
// Threads: as ding::Env.
#ifndef CORRIDOR_H_
#define CORRIDOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"

namespace corridor_env {

absl::StatusOr<std::unique_ptr<ding::Env>> CreateCorridor();

}  // namespace corridor_env

#endif  // CORRIDOR_H_
