// The nine tasks of Gymnasium on MuJoCo: run forwards; balance a pole, or bring something to a
// place. Observations, rewards and ends by the formulas of Gymnasium's v4 envs with their defaults.
//
// Threads: thread-safe.
#ifndef DING_WORKER_ENV_MUJOCO_MUJOCO_TASKS_H_
#define DING_WORKER_ENV_MUJOCO_MUJOCO_TASKS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"

namespace ding {

// Half-cheetah, hopper, walker2d, ant and swimmer: run forwards as fast as possible, at little
// effort. In all these tasks the observation is qpos without the place on the ground, then qvel,
// and the reward is
//
//     speed along x (m/s, over the whole step) + reward for being healthy - weight * |action|^2
//
// and an episode has at most 1,000 steps.
//
//     task          obs  actions  weight  healthy                                     steps of s
//     half-cheetah  17   6        0.1     -                                           5 of 0.01
//     hopper        11   3        0.001   1; height > 0.7, |angle| < 0.2, all others  4 of 0.002
//                                         below 100
//     walker2d      17   6        0.001   1; 0.8 < height < 2, |angle| < 1            4 of 0.002
//     ant           27   8        0.5     1; 0.2 <= height <= 1                       5 of 0.01
//     swimmer       8    2        0.0001  -                                           4 of 0.01
//
// The last column has the physics steps in a step. A task that is not healthy terminates. Hopper
// and walker2d show velocities cut to [-10, 10].
absl::StatusOr<std::unique_ptr<Env>> CreateAnt();
absl::StatusOr<std::unique_ptr<Env>> CreateHalfCheetah();
absl::StatusOr<std::unique_ptr<Env>> CreateHopper();
absl::StatusOr<std::unique_ptr<Env>> CreateSwimmer();
absl::StatusOr<std::unique_ptr<Env>> CreateWalker2d();

// Inverted pendulum, inverted double pendulum, reacher and pusher: balance a pole, or bring
// something to a place.
//
//   inverted pendulum         obs: qpos, qvel: float32[4]. Reward 1; ends when the pole leans by
//     (1,000 steps)           more than 0.2 rad. 2 physics steps of 0.02 s.
//   inverted double pendulum  obs: place of the cart, sines and cosines of both angles, qvel and
//     (1,000 steps)           forces of the joints' limits, both cut to [-10, 10]: float32[11].
//                             Reward 10 - 0.01 x^2 - (y - 2)^2 - 0.001 v1^2 - 0.005 v2^2 for the
//                             tip at (x, y); ends at y <= 1. 5 of 0.01 s.
//   reacher (50 steps)        obs: cosines and sines of both joints, the target, two joint speeds,
//                             fingertip minus target: float32[11]. Reward: -distance - |action|^2.
//                             2 of 0.01 s.
//   pusher (100 steps)        obs: 7 angles, 7 speeds, places of fingertips, object and goal:
//                             float32[23]. Reward: -|object - goal| - 0.1 |action|^2
//                             - 0.5 |object - fingertips|. 5 of 0.01 s.
//
// The rewards of reacher and pusher use the distances before the step.
absl::StatusOr<std::unique_ptr<Env>> CreateInvertedDoublePendulum();
absl::StatusOr<std::unique_ptr<Env>> CreateInvertedPendulum();
absl::StatusOr<std::unique_ptr<Env>> CreatePusher();
absl::StatusOr<std::unique_ptr<Env>> CreateReacher();

}  // namespace ding

#endif  // DING_WORKER_ENV_MUJOCO_MUJOCO_TASKS_H_
