// Corridor: a walker in a corridor has to come to the goal. Configs may say how long it is.
//
// Observation: float32[2], place and goal, from 0 (left end) to 1; bool[3], which actions make
// sense.   Action: 0 left, 1 stay, 2 right.   Reward: -0.01 per step, 1 at the goal.   Terminated:
// at the goal.   Time limit: 50 steps.   Info: "success" at the end of an episode.
//
// Threads: as ding::Env.
#ifndef CORRIDOR_H_
#define CORRIDOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "corridor.pb.h"
#include "ding_worker/env/env.h"

namespace corridor_env {

// kInvalidArgument: params are out of their ranges.
absl::StatusOr<std::unique_ptr<ding::Env>> CreateCorridor(const CorridorParams& params);

}  // namespace corridor_env

#endif  // CORRIDOR_H_
