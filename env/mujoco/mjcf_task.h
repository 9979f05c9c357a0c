// An env for any MJCF file: it moves with the model's actuators, observes qpos and qvel, and is
// rewarded for the speed of a joint, for each step, and for little effort, as MjcfParams says. For
// other rewards write a MujocoTask.
//
// Threads: thread-safe.
#ifndef DING_WORKER_ENV_MUJOCO_MJCF_TASK_H_
#define DING_WORKER_ENV_MUJOCO_MJCF_TASK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/mujoco/mujoco.pb.h"

namespace ding {

// `name`: of the env. kNotFound without the file; kInvalidArgument for a model that MuJoCo refuses,
// for one without a joint or camera that the params name, and for params out of their ranges.
absl::StatusOr<std::unique_ptr<Env>> CreateMjcfEnv(const std::string& name,
                                                   const MjcfParams& params);

}  // namespace ding

#endif  // DING_WORKER_ENV_MUJOCO_MJCF_TASK_H_
