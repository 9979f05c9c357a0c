// An env on MuJoCo: a model, a task, and the number of physics steps in one step of the env.
//
// Observation: float32[task.obs_size()], without bounds.   Action: float32[number of actuators] in the control
// ranges of the model.
//
// As in Gymnasium's v4 envs, positions of bodies, contacts and forces are those of the last physics step's
// beginning, while qpos and qvel are those of its end.
//
// Saved state: qpos, qvel, activations, time and the accelerations from which the solver starts. They decide about
// all that follows, bit for bit with the same version of MuJoCo.
//
// Threads: as Env.   Errors: a reset with parameters, a step after the end of an episode. A step in which MuJoCo
// finds NaN, infinite or huge numbers in the state is abnormal, and ends the episode.
#ifndef DING_WORKER_ENV_MUJOCO_MUJOCO_ENV_H_
#define DING_WORKER_ENV_MUJOCO_MUJOCO_ENV_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/mujoco/mujoco_model.h"
#include "ding_worker/env/mujoco/mujoco_task.h"

namespace ding {

struct MujocoEnvOptions {
  std::string name;
  int frame_skip = 1;  // physics steps in a step
  int64_t max_episode_steps = 1000;
  // A camera of the model that films it; "": from the side.
  std::string camera;
};

// kInvalidArgument for a model without actuators, with one without a control range, or without the camera.
absl::StatusOr<std::unique_ptr<Env>> CreateMujocoEnv(std::shared_ptr<const MujocoModel> model,
                                                     std::unique_ptr<MujocoTask> task,
                                                     const MujocoEnvOptions& options);

}  // namespace ding

#endif  // DING_WORKER_ENV_MUJOCO_MUJOCO_ENV_H_
