// Draws a state of a MuJoCo model into an Image, by OpenGL without a display (EGL on Mesa's surfaceless platform): in
// software where there is no GPU.
//
// Ownership: owns its context of OpenGL; shares the model, and the process's connection to EGL, which stays open.
// Threads:   thread-compatible; the context is made current in the thread of each call and released at its end.
#ifndef DING_WORKER_ENV_MUJOCO_MUJOCO_RENDERER_H_
#define DING_WORKER_ENV_MUJOCO_MUJOCO_RENDERER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/image.h"
#include "ding_worker/env/mujoco/mujoco_model.h"

namespace ding {

class MujocoRenderer {
 public:
  static constexpr int kWidth = 480;
  static constexpr int kHeight = 360;

  // `camera`: number of a camera of the model, or -1 for a free one. kUnavailable if EGL gives no context.
  static absl::StatusOr<std::unique_ptr<MujocoRenderer>> Create(
      std::shared_ptr<const MujocoModel> model, int camera);
  ~MujocoRenderer();

  // The positions of bodies and geoms in `data` must be those of its qpos.
  absl::StatusOr<Image> Draw(mjData* data);

 private:
  struct Screen;
  explicit MujocoRenderer(std::unique_ptr<Screen> screen);

  const std::unique_ptr<Screen> screen_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_MUJOCO_MUJOCO_RENDERER_H_
