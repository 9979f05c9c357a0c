// An environment of one's own: a point on a line, pushed to the left or to the right, that should
// rest at the origin.

#include <cmath>
#include <memory>

#include "ding_worker/base/rng.h"
#include "ding_worker/env/env_registry.h"

namespace {

class PointEnv : public ding::Env {
 public:
  PointEnv() {
    spec_.name = "Point";
    spec_.observation = *ding::MakeSpec({ding::Box("obs", {2})});   // position, velocity
    spec_.action = *ding::MakeSpec({ding::Discrete("action", 3)});  // left, none, right
    spec_.max_episode_steps = 100;
  }

  const ding::EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const ding::EpisodeStart& start, const ding::RowRef& obs) override {
    ding::Rng rng(start.seed, "point");
    position_ = rng.Uniform(-1, 1);
    velocity_ = 0;
    steps_ = 0;
    Observe(obs);
    return absl::OkStatus();
  }

  absl::Status Step(const ding::RowView& action, const ding::RowRef& obs,
                    ding::StepResult* result) override {
    const double push = static_cast<double>(action.scalar<int64_t>(0) - 1);
    velocity_ = 0.95 * velocity_ + 0.02 * push;
    position_ += velocity_;
    Observe(obs);
    result->terminated = std::abs(position_) > 2;
    result->truncated = ++steps_ == spec_.max_episode_steps;
    result->reward = result->terminated ? 0 : static_cast<float>(1 - std::abs(position_) / 2);
    return absl::OkStatus();
  }

 private:
  void Observe(const ding::RowRef& obs) const {
    obs.field<float>(0)[0] = static_cast<float>(position_);
    obs.field<float>(0)[1] = static_cast<float>(velocity_);
  }

  ding::EnvSpec spec_;
  double position_ = 0;
  double velocity_ = 0;
  int64_t steps_ = 0;
};

DING_REGISTER(
    ding::EnvRegistry(), "Point",
    [](const ding::EnvConfig&) { return std::make_unique<PointEnv>(); },
    "push a point to rest at the origin: 3 actions, up to 100 steps");

}  // namespace
