#include "ding_worker/env/mujoco/locomotion.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Runner {
  int hidden_positions = 1;  // the first numbers of qpos, which are not shown
  double effort_weight = 0;
  double noise = 0;           // of the start
  bool normal_noise = false;  // qvel starts with normal noise instead of uniform
  double shown_speed = kInfinity;

  bool has_health = false;  // a reward of 1 per step, and an end
};

// What the five have in common.
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
absl::StatusOr<std::unique_ptr<Env>> Create(const std::string& name, const std::string& text,
                                            const Runner& runner, int frame_skip) {
  DING_ASSIGN_OR_RETURN(std::shared_ptr<const MujocoModel> model,
                        MujocoModel::FromText(name, text));
  MujocoEnvOptions options;
  options.name = name;
  options.frame_skip = frame_skip;
  options.camera = "side";
  auto task = std::make_unique<Task>(model, runner, frame_skip);
  return CreateMujocoEnv(std::move(model), std::move(task), options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Env>> CreateHalfCheetah() {
  Runner runner;
  runner.effort_weight = 0.1;
  runner.noise = 0.1;
  runner.normal_noise = true;
  return Create<RunTask>("HalfCheetah-v4", HalfCheetahModel(), runner, /*frame_skip=*/5);
}

absl::StatusOr<std::unique_ptr<Env>> CreateHopper() {
  Runner runner;
  runner.effort_weight = 1e-3;
  runner.noise = 5e-3;
  runner.shown_speed = 10;
  runner.has_health = true;
  return Create<HopperTask>("Hopper-v4", HopperModel(), runner, /*frame_skip=*/4);
}

absl::StatusOr<std::unique_ptr<Env>> CreateWalker2d() {
  Runner runner;
  runner.effort_weight = 1e-3;
  runner.noise = 5e-3;
  runner.shown_speed = 10;
  runner.has_health = true;
  return Create<Walker2dTask>("Walker2d-v4", Walker2dModel(), runner, /*frame_skip=*/4);
}

absl::StatusOr<std::unique_ptr<Env>> CreateAnt() {
  Runner runner;
  runner.hidden_positions = 2;
  runner.effort_weight = 0.5;
  runner.noise = 0.1;
  runner.normal_noise = true;
  runner.has_health = true;
  return Create<AntTask>("Ant-v4", AntModel(), runner, /*frame_skip=*/5);
}

absl::StatusOr<std::unique_ptr<Env>> CreateSwimmer() {
  Runner runner;
  runner.hidden_positions = 2;
  runner.effort_weight = 1e-4;
  runner.noise = 0.1;
  return Create<RunTask>("Swimmer-v4", SwimmerModel(), runner, /*frame_skip=*/4);
}

}  // namespace ding
