#include "ding_worker/env/mujoco/balance_and_reach.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/classic_control/outcome.h"
#include "ding_worker/env/mujoco/models.h"
#include "ding_worker/env/mujoco/mujoco_env.h"
#include "ding_worker/env/mujoco/mujoco_model.h"
#include "ding_worker/env/mujoco/mujoco_task.h"
#include "mujoco/mujoco.h"

namespace ding {
namespace {

// Writes numbers one after another.
class Writer {
 public:
  explicit Writer(absl::Span<float> to) : next_(to.data()) {}
  void Add(double number) { *next_++ = static_cast<float>(number); }
  void Add(const mjtNum* numbers, int count) {
    next_ = std::transform(numbers, numbers + count, next_,
                           [](mjtNum number) { return static_cast<float>(number); });
  }
  void AddCut(const mjtNum* numbers, int count) {
    for (int i = 0; i < count; ++i) Add(std::clamp<double>(numbers[i], -10, 10));
  }

 private:
  float* next_;
};

double Distance(const mjtNum* a, const mjtNum* b) {
  mjtNum difference[3];
  mju_sub3(difference, a, b);
  return mju_norm3(difference);
}

class InvertedPendulumTask final : public MujocoTask {
 public:
  int obs_size() const override { return 4; }
  void Start(Rng* rng, mjData* data) const override {
    for (int i = 0; i < 2; ++i) data->qpos[i] += rng->Uniform(-0.01, 0.01);
    for (int i = 0; i < 2; ++i) data->qvel[i] += rng->Uniform(-0.01, 0.01);
  }
  double Measure(const mjData&) const override { return 0; }
  ClassicOutcome Judge(double, absl::Span<const float>, const mjData& data) const override {
    return {1, std::abs(data.qpos[1]) > 0.2};
  }
  void Observe(const mjData& data, absl::Span<float> obs) const override {
    Writer writer(obs);
    writer.Add(data.qpos, 2);
    writer.Add(data.qvel, 2);
  }
};

class InvertedDoublePendulumTask final : public MujocoTask {
 public:
  int obs_size() const override { return 11; }
  void Start(Rng* rng, mjData* data) const override {
    for (int i = 0; i < 3; ++i) data->qpos[i] += rng->Uniform(-0.1, 0.1);
    for (int i = 0; i < 3; ++i) data->qvel[i] += 0.1 * rng->Normal();
  }
  double Measure(const mjData&) const override { return 0; }
  ClassicOutcome Judge(double, absl::Span<const float>, const mjData& data) const override {
    const double x = data.site_xpos[0];  // of the tip, the only site
    const double y = data.site_xpos[2];
    const double v1 = data.qvel[1];
    const double v2 = data.qvel[2];
    return {10 - (0.01 * x * x + (y - 2) * (y - 2)) - (1e-3 * v1 * v1 + 5e-3 * v2 * v2), y <= 1};
  }
  void Observe(const mjData& data, absl::Span<float> obs) const override {
    Writer writer(obs);
    writer.Add(data.qpos[0]);
    for (int i = 1; i < 3; ++i) writer.Add(std::sin(data.qpos[i]));
    for (int i = 1; i < 3; ++i) writer.Add(std::cos(data.qpos[i]));
    writer.AddCut(data.qvel, 3);
    writer.AddCut(data.qfrc_constraint, 3);
  }
};

class ReacherTask final : public MujocoTask {
 public:
  ReacherTask(int fingertip, int target) : fingertip_(fingertip), target_(target) {}
  int obs_size() const override { return 11; }
  void Start(Rng* rng, mjData* data) const override {
    for (int i = 0; i < 4; ++i) data->qpos[i] += rng->Uniform(-0.1, 0.1);
    do {
      data->qpos[2] = rng->Uniform(-0.2, 0.2);
      data->qpos[3] = rng->Uniform(-0.2, 0.2);
    } while (std::hypot(data->qpos[2], data->qpos[3]) >= 0.2);
    for (int i = 0; i < 2; ++i) data->qvel[i] += rng->Uniform(-0.005, 0.005);
  }
  double Measure(const mjData& data) const override {
    return Distance(data.xpos + 3 * fingertip_, data.xpos + 3 * target_);
  }
  ClassicOutcome Judge(double before, absl::Span<const float> action,
                       const mjData&) const override {
    return {-before - ActionEffort(action), false};
  }
  void Observe(const mjData& data, absl::Span<float> obs) const override {
    Writer writer(obs);
    for (int i = 0; i < 2; ++i) writer.Add(std::cos(data.qpos[i]));
    for (int i = 0; i < 2; ++i) writer.Add(std::sin(data.qpos[i]));
    writer.Add(data.qpos + 2, 2);
    writer.Add(data.qvel, 2);
    mjtNum difference[3];
    mju_sub3(difference, data.xpos + 3 * fingertip_, data.xpos + 3 * target_);
    writer.Add(difference, 3);
  }

 private:
  const int fingertip_;  // bodies
  const int target_;
};

class PusherTask final : public MujocoTask {
 public:
  PusherTask(int tips, int object, int goal) : tips_(tips), object_(object), goal_(goal) {}
  int obs_size() const override { return 23; }
  void Start(Rng* rng, mjData* data) const override {
    do {
      data->qpos[7] = rng->Uniform(-0.3, 0);
      data->qpos[8] = rng->Uniform(-0.2, 0.2);
    } while (std::hypot(data->qpos[7], data->qpos[8]) <= 0.17);
    data->qpos[9] = data->qpos[10] = 0;
    for (int i = 0; i < 7; ++i) data->qvel[i] += rng->Uniform(-0.005, 0.005);
  }
  double Measure(const mjData& data) const override {
    const mjtNum* const object = data.xpos + 3 * object_;
    return Distance(object, data.xpos + 3 * goal_) + 0.5 * Distance(object, data.xpos + 3 * tips_);
  }
  ClassicOutcome Judge(double before, absl::Span<const float> action,
                       const mjData&) const override {
    return {-before - 0.1 * ActionEffort(action), false};
  }
  void Observe(const mjData& data, absl::Span<float> obs) const override {
    Writer writer(obs);
    writer.Add(data.qpos, 7);
    writer.Add(data.qvel, 7);
    for (const int body : {tips_, object_, goal_}) writer.Add(data.xpos + 3 * body, 3);
  }

 private:
  const int tips_;  // bodies
  const int object_;
  const int goal_;
};

MujocoEnvOptions Options(const std::string& name, int frame_skip, int64_t max_episode_steps) {
  MujocoEnvOptions options;
  options.name = name;
  options.frame_skip = frame_skip;
  options.max_episode_steps = max_episode_steps;
  options.camera = "side";
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Env>> CreateInvertedPendulum() {
  const MujocoEnvOptions options = Options("InvertedPendulum-v4", 2, 1000);
  DING_ASSIGN_OR_RETURN(std::shared_ptr<const MujocoModel> model,
                        MujocoModel::FromText(options.name, InvertedPendulumModel()));
  return CreateMujocoEnv(std::move(model), std::make_unique<InvertedPendulumTask>(), options);
}

absl::StatusOr<std::unique_ptr<Env>> CreateInvertedDoublePendulum() {
  const MujocoEnvOptions options = Options("InvertedDoublePendulum-v4", 5, 1000);
  DING_ASSIGN_OR_RETURN(std::shared_ptr<const MujocoModel> model,
                        MujocoModel::FromText(options.name, InvertedDoublePendulumModel()));
  return CreateMujocoEnv(std::move(model), std::make_unique<InvertedDoublePendulumTask>(), options);
}

absl::StatusOr<std::unique_ptr<Env>> CreateReacher() {
  const MujocoEnvOptions options = Options("Reacher-v4", 2, 50);
  DING_ASSIGN_OR_RETURN(std::shared_ptr<const MujocoModel> model,
                        MujocoModel::FromText(options.name, ReacherModel()));
  DING_ASSIGN_OR_RETURN(const int fingertip, model->Find(mjOBJ_BODY, "fingertip"));
  DING_ASSIGN_OR_RETURN(const int target, model->Find(mjOBJ_BODY, "target"));
  return CreateMujocoEnv(std::move(model), std::make_unique<ReacherTask>(fingertip, target),
                         options);
}

absl::StatusOr<std::unique_ptr<Env>> CreatePusher() {
  const MujocoEnvOptions options = Options("Pusher-v4", 5, 100);
  DING_ASSIGN_OR_RETURN(std::shared_ptr<const MujocoModel> model,
                        MujocoModel::FromText(options.name, PusherModel()));
  DING_ASSIGN_OR_RETURN(const int tips, model->Find(mjOBJ_BODY, "tips_arm"));
  DING_ASSIGN_OR_RETURN(const int object, model->Find(mjOBJ_BODY, "object"));
  DING_ASSIGN_OR_RETURN(const int goal, model->Find(mjOBJ_BODY, "goal"));
  return CreateMujocoEnv(std::move(model), std::make_unique<PusherTask>(tips, object, goal),
                         options);
}

}  // namespace ding
