// Registers ReachGoal-v0 and PointMaze-v0.
#include "ding_worker/base/registry.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/goals/point_goal.h"

namespace ding {
namespace {

DING_REGISTER(EnvRegistry(), "ReachGoal-v0", WithoutParams(CreateReachGoal),
              "move a point to a goal, rewarded only there: 50 steps");
DING_REGISTER(EnvRegistry(), "PointMaze-v0", WithoutParams(CreatePointMaze),
              "move a point through a maze to a goal, rewarded only there: 150 steps");

}  // namespace
}  // namespace ding
