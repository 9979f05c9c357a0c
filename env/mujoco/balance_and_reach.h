// Inverted pendulum, inverted double pendulum, reacher and pusher: balance a pole, or bring something to a place.
//
// Observations, rewards and ends by the formulas of Gymnasium's v4 envs.
//
//   inverted pendulum         obs: qpos, qvel: float32[4]. Reward 1; ends when the pole leans by more than 0.2 rad.
//     (1,000 steps)           2 physics steps of 0.02 s.
//   inverted double pendulum  obs: place of the cart, sines and cosines of both angles, qvel and forces of the
//     (1,000 steps)           joints' limits, both cut to [-10, 10]: float32[11]. Reward 10 - 0.01 x^2 - (y - 2)^2
//                             - 0.001 v1^2 - 0.005 v2^2 for the tip at (x, y); ends at y <= 1. 5 of 0.01 s.
//   reacher (50 steps)        obs: cosines and sines of both joints, the target, two joint speeds, fingertip minus
//                             target: float32[11]. Reward: -distance - |action|^2. 2 of 0.01 s.
//   pusher (100 steps)        obs: 7 angles, 7 speeds, places of fingertips, object and goal: float32[23]. Reward:
//                             -|object - goal| - 0.5 |object - fingertips| - 0.1 |action|^2. 5 of 0.01 s.
//
// Distances in the rewards of reacher and pusher are those before the step.
//
// Threads: thread-safe.
#ifndef DING_WORKER_ENV_MUJOCO_BALANCE_AND_REACH_H_
#define DING_WORKER_ENV_MUJOCO_BALANCE_AND_REACH_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"

namespace ding {

absl::StatusOr<std::unique_ptr<Env>> CreateInvertedDoublePendulum();
absl::StatusOr<std::unique_ptr<Env>> CreateInvertedPendulum();
absl::StatusOr<std::unique_ptr<Env>> CreatePusher();
absl::StatusOr<std::unique_ptr<Env>> CreateReacher();

}  // namespace ding

#endif  // DING_WORKER_ENV_MUJOCO_BALANCE_AND_REACH_H_
