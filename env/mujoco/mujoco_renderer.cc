#include "ding_worker/env/mujoco/mujoco_renderer.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "GL/osmesa.h"
#include "absl/status/status.h"
#include "mujoco/mujoco.h"

namespace ding {

struct MujocoRenderer::Screen {
  std::shared_ptr<const MujocoModel> model;
  OSMesaContext context = nullptr;
  std::vector<unsigned char> pixels;  // of the context
  bool has_scene = false;
  mjvScene scene;
  mjvCamera camera;
  mjvOption options;
  mjrContext gl;

  bool MakeCurrent() {
    return OSMesaMakeCurrent(context, pixels.data(), GL_UNSIGNED_BYTE, kWidth, kHeight) == GL_TRUE;
  }
  static void Release() { OSMesaMakeCurrent(nullptr, nullptr, GL_UNSIGNED_BYTE, 0, 0); }

  ~Screen() {
    if (has_scene && MakeCurrent()) {
      mjr_freeContext(&gl);
      mjv_freeScene(&scene);
      Release();
    }
    if (context != nullptr) OSMesaDestroyContext(context);
  }
};

MujocoRenderer::MujocoRenderer(std::unique_ptr<Screen> screen) : screen_(std::move(screen)) {}
MujocoRenderer::~MujocoRenderer() = default;

absl::StatusOr<std::unique_ptr<MujocoRenderer>> MujocoRenderer::Create(
    std::shared_ptr<const MujocoModel> model, int camera) {
  constexpr int kDepthBits = 24;
  auto screen = std::make_unique<Screen>();
  screen->model = std::move(model);
  screen->pixels.resize(static_cast<size_t>(4 * kWidth * kHeight));
  screen->context = OSMesaCreateContextExt(OSMESA_RGBA, kDepthBits, 8, 8, nullptr);
  if (screen->context == nullptr || !screen->MakeCurrent()) {
    return absl::UnavailableError("OSMesa gives no context of OpenGL to draw a MuJoCo model");
  }
  const mjModel& m = screen->model->get();
  mjv_defaultScene(&screen->scene);
  mjv_makeScene(&m, &screen->scene, /*maxgeom=*/1000);
  mjv_defaultOption(&screen->options);
  mjr_defaultContext(&screen->gl);
  mjr_makeContext(&m, &screen->gl, mjFONTSCALE_100);
  mjr_setBuffer(mjFB_OFFSCREEN, &screen->gl);
  screen->has_scene = true;
  mjv_defaultFreeCamera(&m, &screen->camera);
  if (camera >= 0) {
    screen->camera.type = mjCAMERA_FIXED;
    screen->camera.fixedcamid = camera;
  }
  Screen::Release();
  return std::unique_ptr<MujocoRenderer>(new MujocoRenderer(std::move(screen)));
}

absl::StatusOr<Image> MujocoRenderer::Draw(mjData* data) {
  if (!screen_->MakeCurrent()) {
    return absl::UnavailableError("OSMesa does not take its context of OpenGL in this thread");
  }
  const mjModel& m = screen_->model->get();
  const mjrRect view = {0, 0, kWidth, kHeight};
  mjv_updateScene(&m, data, &screen_->options, nullptr, &screen_->camera, mjCAT_ALL,
                  &screen_->scene);
  mjr_render(view, &screen_->scene, &screen_->gl);
  Image image;
  image.width = kWidth;
  image.height = kHeight;
  constexpr size_t kRow = size_t{3} * kWidth;
  std::vector<unsigned char> upside_down(kRow * kHeight);
  mjr_readPixels(upside_down.data(), nullptr, view, &screen_->gl);
  Screen::Release();
  image.rgb.reserve(upside_down.size());
  for (size_t y = kHeight; y-- > 0;) {
    const auto row = upside_down.begin() + static_cast<std::ptrdiff_t>(y * kRow);
    image.rgb.insert(image.rgb.end(), row, row + kRow);
  }
  return image;
}

}  // namespace ding
