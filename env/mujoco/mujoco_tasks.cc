#include "ding_worker/env/mujoco/mujoco_tasks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/mujoco/models.h"
#include "ding_worker/env/mujoco/mujoco_env.h"
#include "ding_worker/env/mujoco/mujoco_model.h"
#include "mujoco/mujoco.h"

namespace ding {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

MujocoEnvOptions Options(const std::string& name, int frame_skip, int64_t max_episode_steps) {
  MujocoEnvOptions options;
  options.name = name;
  options.frame_skip = frame_skip;
  options.max_episode_steps = max_episode_steps;
  options.camera = "side";
  return options;
}

// A task of running forwards.
struct Runner {
  int hidden_positions = 1;  // the first numbers of qpos, which are not shown
  double effort_weight = 0;
  double noise = 0;           // of the start
  bool normal_noise = false;  // qvel starts with normal noise instead of uniform
  double shown_speed = kInfinity;
  bool has_health = false;  // a reward of 1 per step, and an end
};

// What the five tasks of running have in common.
class RunTask : public MujocoTask {
 public:
  RunTask(std::shared_ptr<const MujocoModel> model, const Runner& runner, int frame_skip)
      : model_(std::move(model)), runner_(runner), seconds_(m().opt.timestep * frame_skip) {}

  int obs_size() const override { return m().nq - runner_.hidden_positions + m().nv; }

  void Start(Rng* rng, mjData* data) const override {
    for (int i = 0; i < m().nq; ++i) data->qpos[i] += rng->Uniform(-runner_.noise, runner_.noise);
    for (int i = 0; i < m().nv; ++i) {
      data->qvel[i] += runner_.normal_noise ? runner_.noise * rng->Normal()
                                            : rng->Uniform(-runner_.noise, runner_.noise);
    }
  }

  double Measure(const mjData& data) const override { return data.qpos[0]; }

  ClassicOutcome Judge(double before, absl::Span<const float> action,
                       const mjData& data) const override {
    const double speed = (Measure(data) - before) / seconds_;
    const double healthy_reward = runner_.has_health ? 1 : 0;
    return {speed + healthy_reward - runner_.effort_weight * ActionEffort(action),
            runner_.has_health && !IsHealthy(data)};
  }

  void Observe(const mjData& data, absl::Span<float> obs) const override {
    const auto narrow = [](mjtNum number) { return static_cast<float>(number); };
    float* const velocities = std::transform(data.qpos + runner_.hidden_positions,
                                             data.qpos + m().nq, obs.data(), narrow);
    std::transform(data.qvel, data.qvel + m().nv, velocities, [this, narrow](mjtNum speed) {
      return narrow(std::clamp<double>(speed, -runner_.shown_speed, runner_.shown_speed));
    });
  }

 protected:
  virtual bool IsHealthy(const mjData&) const { return true; }
  const mjModel& m() const { return model_->get(); }

 private:
  const std::shared_ptr<const MujocoModel> model_;
  const Runner runner_;
  const double seconds_;  // in a step
};

class HopperTask : public RunTask {
  using RunTask::RunTask;
  bool IsHealthy(const mjData& data) const override {
    const auto moderate = [](mjtNum number) { return std::abs(number) < 100; };
    return std::all_of(data.qpos + 2, data.qpos + m().nq, moderate) &&
           std::all_of(data.qvel, data.qvel + m().nv, moderate) && data.qpos[1] > 0.7 &&
           std::abs(data.qpos[2]) < 0.2;
  }
};

class Walker2dTask : public RunTask {
  using RunTask::RunTask;
  bool IsHealthy(const mjData& data) const override {
    return data.qpos[1] > 0.8 && data.qpos[1] < 2 && std::abs(data.qpos[2]) < 1;
  }
};

class AntTask : public RunTask {
  using RunTask::RunTask;
  // The place of the torso as a body, which is that of the last physics step's beginning.
  double Measure(const mjData& data) const override { return data.xpos[3 * 1]; }
  bool IsHealthy(const mjData& data) const override {
    return data.qpos[2] >= 0.2 && data.qpos[2] <= 1;
  }
};

template <typename Task>
absl::StatusOr<std::unique_ptr<Env>> CreateRunner(const std::string& name, const std::string& text,
                                                  const Runner& runner, int frame_skip) {
  DING_ASSIGN_OR_RETURN(std::shared_ptr<const MujocoModel> model,
                        MujocoModel::FromText(name, text));
  auto task = std::make_unique<Task>(model, runner, frame_skip);
  return CreateMujocoEnv(std::move(model), std::move(task), Options(name, frame_skip, 1000));
}

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

}  // namespace

absl::StatusOr<std::unique_ptr<Env>> CreateHalfCheetah() {
  Runner runner;
  runner.effort_weight = 0.1;
  runner.noise = 0.1;
  runner.normal_noise = true;
  return CreateRunner<RunTask>("HalfCheetah-v4", HalfCheetahModel(), runner, /*frame_skip=*/5);
}

absl::StatusOr<std::unique_ptr<Env>> CreateHopper() {
  Runner runner;
  runner.effort_weight = 1e-3;
  runner.noise = 5e-3;
  runner.shown_speed = 10;
  runner.has_health = true;
  return CreateRunner<HopperTask>("Hopper-v4", HopperModel(), runner, /*frame_skip=*/4);
}

absl::StatusOr<std::unique_ptr<Env>> CreateWalker2d() {
  Runner runner;
  runner.effort_weight = 1e-3;
  runner.noise = 5e-3;
  runner.shown_speed = 10;
  runner.has_health = true;
  return CreateRunner<Walker2dTask>("Walker2d-v4", Walker2dModel(), runner, /*frame_skip=*/4);
}

absl::StatusOr<std::unique_ptr<Env>> CreateAnt() {
  Runner runner;
  runner.hidden_positions = 2;
  runner.effort_weight = 0.5;
  runner.noise = 0.1;
  runner.normal_noise = true;
  runner.has_health = true;
  return CreateRunner<AntTask>("Ant-v4", AntModel(), runner, /*frame_skip=*/5);
}

absl::StatusOr<std::unique_ptr<Env>> CreateSwimmer() {
  Runner runner;
  runner.hidden_positions = 2;
  runner.effort_weight = 1e-4;
  runner.noise = 0.1;
  return CreateRunner<RunTask>("Swimmer-v4", SwimmerModel(), runner, /*frame_skip=*/4);
}

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
