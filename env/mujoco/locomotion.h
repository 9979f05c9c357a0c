// Half-cheetah, hopper, walker2d, ant and swimmer: run forwards as fast as possible, at little effort.
//
// Observations, rewards and ends by the formulas of Gymnasium's v4 envs with their defaults. In all of them the
// observation is qpos without the place on the ground, then qvel, and the reward is
//
//     speed along x (m/s, over the whole step) + reward for being healthy - weight * |action|^2
//
// and an episode has at most 1,000 steps.
//
//     task          obs  actions  weight  healthy                                       physics steps
//     half-cheetah  17   6        0.1     -                                             5 of 0.01 s
//     hopper        11   3        0.001   1; height > 0.7, |angle| < 0.2, all others    4 of 0.002 s
//                                         below 100
//     walker2d      17   6        0.001   1; 0.8 < height < 2, |angle| < 1              4 of 0.002 s
//     ant           27   8        0.5     1; 0.2 <= height <= 1                         5 of 0.01 s
//     swimmer       8    2        0.0001  -                                             4 of 0.01 s
//
// A task that is not healthy terminates. Hopper and walker2d show velocities cut to [-10, 10].
//
// Threads: thread-safe.
#ifndef DING_WORKER_ENV_MUJOCO_LOCOMOTION_H_
#define DING_WORKER_ENV_MUJOCO_LOCOMOTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"

namespace ding {

absl::StatusOr<std::unique_ptr<Env>> CreateAnt();
absl::StatusOr<std::unique_ptr<Env>> CreateHalfCheetah();
absl::StatusOr<std::unique_ptr<Env>> CreateHopper();
absl::StatusOr<std::unique_ptr<Env>> CreateSwimmer();
absl::StatusOr<std::unique_ptr<Env>> CreateWalker2d();

}  // namespace ding

#endif  // DING_WORKER_ENV_MUJOCO_LOCOMOTION_H_
