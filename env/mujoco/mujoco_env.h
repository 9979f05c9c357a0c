// An env on MuJoCo: a model, a task (MujocoTask), and the number of physics steps in one step of
// the env.
//
// Observation: float32[task.obs_size()], without bounds.   Action: float32[number of actuators] in
// the control ranges of the model.
//
// As in Gymnasium's v4 envs, positions of bodies, contacts and forces are those at the beginning of
// the last physics step, while qpos and qvel are those at its end.
//
// Saved state: qpos, qvel, activations, time and the accelerations from which the solver starts.
// With the same version of MuJoCo a restored episode continues bit for bit.
//
// Threads: as Env; a task is thread-safe.
// Errors:  a reset with parameters, a step after the end of an episode. A step in which MuJoCo
//          finds NaN, infinite or huge numbers in the state is abnormal, and ends the episode.
#ifndef DING_WORKER_ENV_MUJOCO_MUJOCO_ENV_H_
#define DING_WORKER_ENV_MUJOCO_MUJOCO_ENV_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/mujoco/mujoco_model.h"
#include "mujoco/mujoco.h"

namespace ding {

// The task of an env on MuJoCo: start, observation, reward and end of episodes. The env, which owns
// its task, does the physics, saving and rendering. A task shares the model, and keeps no state.
//
// Example:
//   class Stand : public MujocoTask {
//     int obs_size() const override { return 2; }
//     void Start(Rng* rng, mjData* data) const override {
//       data->qpos[0] = rng->Uniform(-0.1, 0.1);
//     }
//     double Measure(const mjData&) const override { return 0; }
//     ClassicOutcome Judge(double, absl::Span<const float>, const mjData& data) const override {
//       return {-std::abs(data.qpos[0]), false};
//     }
//     void Observe(const mjData& data, absl::Span<float> obs) const override { ... }
//   };
class MujocoTask {
 public:
  virtual ~MujocoTask() = default;

  virtual int obs_size() const = 0;

  // Begins an episode: changes qpos and qvel of `data`, which is in the initial state of the model.
  virtual void Start(Rng* rng, mjData* data) const = 0;

  // The number that Judge() compares with, taken before each step: a position, or a distance.
  virtual double Measure(const mjData& data) const = 0;

  // Reward and end of a step. `before`: what Measure() returned before it.
  virtual ClassicOutcome Judge(double before, absl::Span<const float> action,
                               const mjData& data) const = 0;

  // Writes obs_size() numbers.
  virtual void Observe(const mjData& data, absl::Span<float> obs) const = 0;
};

// The sum of the squares of an action, a cost in many rewards.
inline double ActionEffort(absl::Span<const float> action) {
  double sum = 0;
  for (const float number : action) sum += static_cast<double>(number) * number;
  return sum;
}

struct MujocoEnvOptions {
  std::string name;
  int frame_skip = 1;  // physics steps in a step
  int64_t max_episode_steps = 1000;
  // A camera of the model that films it; "": from the side.
  std::string camera;
};

// kInvalidArgument for a model without actuators, with an actuator without a control range, or
// without the camera.
absl::StatusOr<std::unique_ptr<Env>> CreateMujocoEnv(std::shared_ptr<const MujocoModel> model,
                                                     std::unique_ptr<MujocoTask> task,
                                                     const MujocoEnvOptions& options);

}  // namespace ding

#endif  // DING_WORKER_ENV_MUJOCO_MUJOCO_ENV_H_
