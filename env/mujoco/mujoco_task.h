// What an env on MuJoCo is asked to do: how an episode begins, what is observed, and what a step is worth. The
// physics, saving and rendering are MujocoEnv's.
//
// Ownership: an env owns its task; a task shares the model.   Threads: thread-safe (a task keeps no state).
//
// Example:
//   class Stand : public MujocoTask {
//     int obs_size() const override { return 2; }
//     void Start(Rng* rng, mjData* data) const override { data->qpos[0] = rng->Uniform(-0.1, 0.1); }
//     double Measure(const mjData&) const override { return 0; }
//     ClassicOutcome Judge(double, absl::Span<const float>, const mjData& data) const override {
//       return {-std::abs(data.qpos[0]), false};
//     }
//     void Observe(const mjData& data, absl::Span<float> obs) const override { ... }
//   };
#ifndef DING_WORKER_ENV_MUJOCO_MUJOCO_TASK_H_
#define DING_WORKER_ENV_MUJOCO_MUJOCO_TASK_H_

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/env/classic_control/outcome.h"
#include "mujoco/mujoco.h"

namespace ding {

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

// The sum of the squares of an action, which many rewards are reduced by.
inline double ActionEffort(absl::Span<const float> action) {
  double sum = 0;
  for (const float number : action) sum += static_cast<double>(number) * number;
  return sum;
}

}  // namespace ding

#endif  // DING_WORKER_ENV_MUJOCO_MUJOCO_TASK_H_
