#include "ding_worker/env/mujoco/mujoco_renderer.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "EGL/egl.h"
#include "EGL/eglext.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"
#include "mujoco/mujoco.h"

namespace ding {
namespace {

absl::Status EglError(absl::string_view what) {
  return absl::UnavailableError(
      absl::StrFormat("cannot draw a MuJoCo model: %s (EGL error 0x%x); Mesa's drivers come with "
                      "Debian's libgl1-mesa-dri",
                      what, eglGetError()));
}

// The process's connection to EGL. It is never closed: that would end the contexts of all renderers.
absl::StatusOr<EGLDisplay> Display() {
  static const EGLDisplay display = [] {
    const EGLDisplay found =
        eglGetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
    return eglInitialize(found, nullptr, nullptr) == EGL_TRUE ? found : EGL_NO_DISPLAY;
  }();
  if (display == EGL_NO_DISPLAY) {
    return EglError("EGL has no display of Mesa's surfaceless platform");
  }
  return display;
}

}  // namespace

struct MujocoRenderer::Screen {
  std::shared_ptr<const MujocoModel> model;
  EGLDisplay display = EGL_NO_DISPLAY;
  EGLContext context = EGL_NO_CONTEXT;
  bool has_scene = false;
  mjvScene scene;
  mjvCamera camera;
  mjvOption options;
  mjrContext gl;

  // Without a surface: MuJoCo draws into a buffer of its own.
  bool MakeCurrent() const {
    return eglBindAPI(EGL_OPENGL_API) == EGL_TRUE &&
           eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context) == EGL_TRUE;
  }
  void Release() const { eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT); }

  ~Screen() {
    if (has_scene && MakeCurrent()) {
      mjr_freeContext(&gl);
      mjv_freeScene(&scene);
      Release();
    }
    if (context != EGL_NO_CONTEXT) eglDestroyContext(display, context);
  }
};

MujocoRenderer::MujocoRenderer(std::unique_ptr<Screen> screen) : screen_(std::move(screen)) {}
MujocoRenderer::~MujocoRenderer() = default;

absl::StatusOr<std::unique_ptr<MujocoRenderer>> MujocoRenderer::Create(
    std::shared_ptr<const MujocoModel> model, int camera) {
  auto screen = std::make_unique<Screen>();
  screen->model = std::move(model);
  DING_ASSIGN_OR_RETURN(screen->display, Display());
  eglBindAPI(EGL_OPENGL_API);
  screen->context =
      eglCreateContext(screen->display, EGL_NO_CONFIG_KHR, EGL_NO_CONTEXT, /*attrib_list=*/nullptr);
  if (screen->context == EGL_NO_CONTEXT || !screen->MakeCurrent()) {
    return EglError("EGL gives no context of OpenGL");
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
  screen->Release();
  return std::unique_ptr<MujocoRenderer>(new MujocoRenderer(std::move(screen)));
}

absl::StatusOr<Image> MujocoRenderer::Draw(mjData* data) {
  if (!screen_->MakeCurrent()) {
    return EglError("EGL does not take the context of OpenGL in this thread");
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
  screen_->Release();
  image.rgb.reserve(upside_down.size());
  for (size_t y = kHeight; y-- > 0;) {
    const auto row = upside_down.begin() + static_cast<std::ptrdiff_t>(y * kRow);
    image.rgb.insert(image.rgb.end(), row, row + kRow);
  }
  return image;
}

}  // namespace ding
