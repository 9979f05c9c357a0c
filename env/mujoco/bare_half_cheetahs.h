// Half-cheetahs in bare MuJoCo, as the floor of benchmarks: what an env step of HalfCheetah-v4
// costs without an env.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_ENV_MUJOCO_BARE_HALF_CHEETAHS_H_
#define DING_WORKER_ENV_MUJOCO_BARE_HALF_CHEETAHS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/env/mujoco/mujoco_model.h"
#include "mujoco/mujoco.h"

namespace ding {

class BareHalfCheetahs {
 public:
  explicit BareHalfCheetahs(size_t count);

  // Moves one half-cheetah by an env step, with normally distributed actions that are clipped to
  // their range, like the actions of a policy at the beginning of a run. It starts again after
  // 1,000 steps.
  void Step(size_t which);

 private:
  struct FreeData {
    void operator()(mjData* data) const { mj_deleteData(data); }
  };
  struct Episode {
    std::unique_ptr<mjData, FreeData> data;
    int64_t steps = 0;
  };
  void Start(Episode* episode);

  const std::shared_ptr<const MujocoModel> model_;
  Rng rng_;
  std::vector<Episode> episodes_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_MUJOCO_BARE_HALF_CHEETAHS_H_
