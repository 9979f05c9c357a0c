// Room: a walker in a square room of side 1 has to come to the goal.
//
// Observation: float32[4], place (x, y) and goal (x, y), from 0 to 1.   Action: float32[2], the
// step in each direction, from -1 to 1 tenths of the room.   Reward: minus the distance to the goal
// after the step, in sides of the room.   Terminated: nearer than 0.1.   Time limit: 20 steps.
// Info: "success" at the end of an episode.
//
// Threads: as ding::Env.
#ifndef ROOM_ROOM_H_
#define ROOM_ROOM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"

namespace room_env {

absl::StatusOr<std::unique_ptr<ding::Env>> CreateRoom();

}  // namespace room_env

#endif  // ROOM_ROOM_H_
