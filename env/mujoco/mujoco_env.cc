#include "ding_worker/env/mujoco/mujoco_env.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "EGL/egl.h"
#include "EGL/eglext.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/mujoco/mujoco_model.h"
#include "mujoco/mujoco.h"

namespace ding {
namespace {

// Draws a state of a MuJoCo model into an Image, by OpenGL without a display (EGL on Mesa's
// surfaceless platform): in software where there is no GPU.
//
// Ownership: owns its context of OpenGL; shares the model, and the process's connection to EGL,
//            which stays open.
// Threads:   thread-compatible; the context is made current in the thread of each call and released
//            at its end.
class MujocoRenderer {
 public:
  static constexpr int kWidth = 480;
  static constexpr int kHeight = 360;

  // `camera`: number of a camera of the model, or -1 for a free one. kUnavailable if EGL gives no
  // context.
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

absl::Status EglError(absl::string_view what) {
  return absl::UnavailableError(
      absl::StrFormat("cannot draw a MuJoCo model: %s (EGL error 0x%x); Mesa's drivers come with "
                      "Debian's libgl1-mesa-dri",
                      what, eglGetError()));
}

// The process's connection to EGL. It is never closed: that would end the contexts of all
// renderers.
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

// The numbers of mjData that decide about what follows, under the names in a saved state.
struct Part {
  const char* name;
  mjtNum* mjData::*numbers;
  int mjModel::*count;
};
constexpr std::array<Part, 4> kParts = {{{"qpos", &mjData::qpos, &mjModel::nq},
                                         {"qvel", &mjData::qvel, &mjModel::nv},
                                         {"act", &mjData::act, &mjModel::na},
                                         {"warmstart", &mjData::qacc_warmstart, &mjModel::nv}}};

struct DeleteData {
  void operator()(mjData* data) const { mj_deleteData(data); }
};
using DataPtr = std::unique_ptr<mjData, DeleteData>;

bool Unstable(const mjData& data) {
  return data.warning[mjWARN_BADQPOS].number + data.warning[mjWARN_BADQVEL].number +
             data.warning[mjWARN_BADQACC].number >
         0;
}

class MujocoEnv final : public Env {
 public:
  MujocoEnv(std::shared_ptr<const MujocoModel> model, std::unique_ptr<MujocoTask> task,
            EnvSpec spec, int frame_skip, int camera, DataPtr data)
      : model_(std::move(model)),
        task_(std::move(task)),
        spec_(std::move(spec)),
        frame_skip_(frame_skip),
        camera_(camera),
        data_(std::move(data)) {}

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    if (!start.params.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          spec_.name, " takes no parameters at a reset, got '", start.params.begin()->first, "'"));
    }
    static constexpr Rng::Purpose kStart("env/start");
    Rng rng(start.seed, kStart);
    mj_resetData(&m(), data_.get());
    task_->Start(&rng, data_.get());
    mj_forward(&m(), data_.get());
    steps_ = 0;
    over_ = false;
    measured_ = task_->Measure(*data_);
    task_->Observe(*data_, obs.field<float>(0));
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    if (over_) {
      return absl::FailedPreconditionError("Step() without a running episode; call Reset() first");
    }
    const absl::Span<const float> control = action.field<float>(0);
    std::copy(control.begin(), control.end(), data_->ctrl);
    for (int i = 0; i < frame_skip_; ++i) mj_step(&m(), data_.get());
    ++steps_;
    const ClassicOutcome outcome = task_->Judge(measured_, control, *data_);
    measured_ = task_->Measure(*data_);
    task_->Observe(*data_, obs.field<float>(0));
    result->reward = static_cast<float>(outcome.reward);
    result->abnormal = Unstable(*data_) || !std::isfinite(result->reward);
    result->terminated = outcome.terminated;
    result->truncated = !outcome.terminated && steps_ == spec_.max_episode_steps;
    over_ = result->terminated || result->truncated || result->abnormal;
    return absl::OkStatus();
  }

  // The parts of kParts; "time" of the physics (s); "measured": what the next reward is compared
  // with; "steps" of the episode so far; "over": 0 or 1.
  absl::Status SaveState(StateWriter* writer) const override {
    for (const Part& part : kParts) {
      const absl::Span<const mjtNum> numbers(data_.get()->*part.numbers, Size(part));
      DING_RETURN_IF_ERROR(writer->WriteSpan<double>(part.name, numbers));
    }
    DING_RETURN_IF_ERROR(writer->WriteDouble("time", data_->time));
    DING_RETURN_IF_ERROR(writer->WriteDouble("measured", measured_));
    DING_RETURN_IF_ERROR(writer->WriteInt("steps", steps_));
    return writer->WriteInt("over", over_ ? 1 : 0);
  }

  absl::Status LoadState(StateReader* reader) override {
    std::array<std::vector<double>, kParts.size()> loaded;
    for (size_t i = 0; i < kParts.size(); ++i) {
      loaded[i].resize(Size(kParts[i]));
      DING_RETURN_IF_ERROR(reader->ReadSpan<double>(kParts[i].name, absl::MakeSpan(loaded[i])));
      for (const double number : loaded[i]) {
        if (!std::isfinite(number)) {
          return absl::InvalidArgumentError(
              absl::StrCat("saved '", kParts[i].name, "' contains ", number));
        }
      }
    }
    DING_ASSIGN_OR_RETURN(const double time, reader->ReadDouble("time"));
    DING_ASSIGN_OR_RETURN(const double measured, reader->ReadDouble("measured"));
    DING_ASSIGN_OR_RETURN(const int64_t steps, reader->ReadInt("steps"));
    DING_ASSIGN_OR_RETURN(const int64_t over, reader->ReadInt("over"));
    if (steps < 0 || steps > spec_.max_episode_steps) {
      return absl::InvalidArgumentError(
          absl::StrCat("saved 'steps' is ", steps, ", expected 0..", spec_.max_episode_steps));
    }
    mj_resetData(&m(), data_.get());
    for (size_t i = 0; i < kParts.size(); ++i) {
      std::copy(loaded[i].begin(), loaded[i].end(), data_.get()->*kParts[i].numbers);
    }
    data_->time = time;
    measured_ = measured;
    steps_ = steps;
    over_ = over != 0;
    return absl::OkStatus();
  }

  absl::StatusOr<Image> Render() override {
    if (renderer_ == nullptr) {
      DING_ASSIGN_OR_RETURN(renderer_, MujocoRenderer::Create(model_, camera_));
    }
    // Nothing of this is an input of the next step.
    mj_kinematics(&m(), data_.get());
    mj_comPos(&m(), data_.get());
    mj_camlight(&m(), data_.get());
    return renderer_->Draw(data_.get());
  }

 private:
  const mjModel& m() const { return model_->get(); }
  size_t Size(const Part& part) const { return static_cast<size_t>(m().*part.count); }

  const std::shared_ptr<const MujocoModel> model_;
  const std::unique_ptr<MujocoTask> task_;
  const EnvSpec spec_;
  const int frame_skip_;
  const int camera_;
  const DataPtr data_;
  std::unique_ptr<MujocoRenderer> renderer_;  // made by the first picture
  double measured_ = 0;
  int64_t steps_ = 0;
  bool over_ = true;
};

absl::StatusOr<FieldSpec> ActionField(const MujocoModel& model) {
  const mjModel& m = model.get();
  if (m.nu == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model '", model.name(), "' has no actuators, so there is no action"));
  }
  std::vector<double> low;
  std::vector<double> high;
  for (int i = 0; i < m.nu; ++i) {
    if (!m.actuator_ctrllimited[i]) {
      const char* const name = mj_id2name(&m, mjOBJ_ACTUATOR, i);
      return absl::InvalidArgumentError(absl::StrCat(
          "actuator ", i, name == nullptr ? "" : absl::StrCat(" ('", name, "')"), " of the model '",
          model.name(), "' has no ctrlrange, which the bounds of the action are taken from"));
    }
    low.push_back(m.actuator_ctrlrange[2 * i]);
    high.push_back(m.actuator_ctrlrange[2 * i + 1]);
  }
  return Box("action", {m.nu}, std::move(low), std::move(high));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Env>> CreateMujocoEnv(std::shared_ptr<const MujocoModel> model,
                                                     std::unique_ptr<MujocoTask> task,
                                                     const MujocoEnvOptions& options) {
  if (options.frame_skip < 1 || options.max_episode_steps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("env '", options.name, "': frame_skip is ", options.frame_skip,
                     " and max_episode_steps ", options.max_episode_steps, ", expected 1 or more"));
  }
  int camera = -1;
  if (!options.camera.empty()) {
    DING_ASSIGN_OR_RETURN(camera, model->Find(mjOBJ_CAMERA, options.camera));
  }
  EnvSpec spec;
  spec.name = options.name;
  DING_ASSIGN_OR_RETURN(FieldSpec action, ActionField(*model));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({std::move(action)}));
  DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({Box("obs", {task->obs_size()})}));
  spec.max_episode_steps = options.max_episode_steps;
  DataPtr data(mj_makeData(&model->get()));
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the state of the model '", model->name(), "'"));
  }
  return std::make_unique<MujocoEnv>(std::move(model), std::move(task), std::move(spec),
                                     options.frame_skip, camera, std::move(data));
}

}  // namespace ding
