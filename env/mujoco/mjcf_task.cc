#include "ding_worker/env/mujoco/mjcf_task.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/mujoco/mujoco_env.h"
#include "ding_worker/env/mujoco/mujoco_model.h"
#include "mujoco/mujoco.h"

namespace ding {
namespace {

struct Range {
  int qpos;
  double low;
  double high;
};

class MjcfTask final : public MujocoTask {
 public:
  MjcfTask(std::shared_ptr<const MujocoModel> model, const MjcfParams& params,
           std::optional<int> forward, std::vector<Range> healthy)
      : model_(std::move(model)),
        params_(params),
        forward_(forward),
        healthy_(std::move(healthy)),
        seconds_(m().opt.timestep * params.frame_skip()) {}

  int obs_size() const override { return m().nq - params_.first_shown_position() + m().nv; }

  void Start(Rng* rng, mjData* data) const override {
    const double noise = params_.reset_noise();
    for (int i = 0; i < m().nq; ++i) data->qpos[i] += rng->Uniform(-noise, noise);
    for (int i = 0; i < m().nv; ++i) data->qvel[i] += rng->Uniform(-noise, noise);
  }

  double Measure(const mjData& data) const override {
    return forward_.has_value() ? data.qpos[*forward_] : 0;
  }

  ClassicOutcome Judge(double before, absl::Span<const float> action,
                       const mjData& data) const override {
    const double speed = (Measure(data) - before) / seconds_;
    const bool healthy = std::all_of(healthy_.begin(), healthy_.end(), [&data](const Range& range) {
      return data.qpos[range.qpos] >= range.low && data.qpos[range.qpos] <= range.high;
    });
    return {params_.forward_weight() * speed + params_.alive_reward() -
                params_.action_cost() * ActionEffort(action),
            !healthy};
  }

  void Observe(const mjData& data, absl::Span<float> obs) const override {
    const auto narrow = [](mjtNum number) { return static_cast<float>(number); };
    float* const velocities = std::transform(data.qpos + params_.first_shown_position(),
                                             data.qpos + m().nq, obs.data(), narrow);
    std::transform(data.qvel, data.qvel + m().nv, velocities, narrow);
  }

 private:
  const mjModel& m() const { return model_->get(); }

  const std::shared_ptr<const MujocoModel> model_;
  const MjcfParams params_;
  const std::optional<int> forward_;  // place in qpos
  const std::vector<Range> healthy_;
  const double seconds_;  // in a step
};

absl::StatusOr<std::vector<Range>> HealthyRanges(const MujocoModel& model,
                                                 const MjcfParams& params) {
  std::vector<Range> ranges;
  for (const JointRange& range : params.healthy()) {
    DING_ASSIGN_OR_RETURN(const MujocoModel::JointPlace place, model.FindJoint(range.joint()));
    if (!range.has_low() || !range.has_high() || !(range.low() < range.high())) {
      return absl::InvalidArgumentError(
          absl::StrCat("healthy: joint '", range.joint(), "' needs low and high, low below high"));
    }
    ranges.push_back({place.qpos, range.low(), range.high()});
  }
  return ranges;
}

absl::Status CheckParams(const MjcfParams& params) {
  if (params.model_file().empty()) {
    return absl::InvalidArgumentError("model_file is not set, expected the path of an MJCF file");
  }
  // A program fills defaults in, so that the default may be a weight that is not set.
  if (params.forward_weight() != MjcfParams().forward_weight() && params.forward_joint().empty()) {
    return absl::InvalidArgumentError(
        "forward_weight is set, but no joint's speed is rewarded: set forward_joint");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Env>> Create(const std::string& name, const MjcfParams& params) {
  DING_RETURN_IF_ERROR(CheckParams(params));
  DING_ASSIGN_OR_RETURN(std::shared_ptr<const MujocoModel> model,
                        MujocoModel::FromFile(params.model_file()));
  const int hidden = params.first_shown_position();
  if (hidden > model->get().nq) {
    return absl::InvalidArgumentError(absl::StrCat("first_shown_position is ", hidden,
                                                   ", expected 0..", model->get().nq, " in '",
                                                   model->name(), "'"));
  }
  std::optional<int> forward;
  if (!params.forward_joint().empty()) {
    DING_ASSIGN_OR_RETURN(const MujocoModel::JointPlace place,
                          model->FindJoint(params.forward_joint()));
    forward = place.qpos;
  }
  DING_ASSIGN_OR_RETURN(std::vector<Range> healthy, HealthyRanges(*model, params));
  MujocoEnvOptions options;
  options.name = name;
  options.frame_skip = params.frame_skip();
  options.max_episode_steps = params.max_episode_steps();
  options.camera = params.camera();
  auto task = std::make_unique<MjcfTask>(model, params, forward, std::move(healthy));
  return CreateMujocoEnv(std::move(model), std::move(task), options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Env>> CreateMjcfEnv(const std::string& name,
                                                   const MjcfParams& params) {
  absl::StatusOr<std::unique_ptr<Env>> env = Create(name, params);
  if (env.ok()) return env;
  return absl::Status(env.status().code(),
                      absl::StrCat("env '", name, "': ", env.status().message()));
}

}  // namespace ding
