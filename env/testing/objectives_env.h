// An env for tests whose reward has several components, or is one number.
//
// Episode with seed s: x and a length of 1 to 7 steps are drawn from s; the last step terminates
// the episode if the length is odd, else truncates it. A step with action 1 adds 0.5 to x, with
// action 0 it takes 0.25 away. After step t the observation is {x, t}, and component c of the
// reward is (c + 1) * x + t. A reward of one number is component 0.
//
// Threads: as Env.
#ifndef DING_WORKER_ENV_TESTING_OBJECTIVES_ENV_H_
#define DING_WORKER_ENV_TESTING_OBJECTIVES_ENV_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"

namespace ding {

class ObjectivesEnv : public Env {
 public:
  // Called at the end of each step, which it may change.
  using Alter = std::function<void(int64_t step, StepResult* result)>;

  explicit ObjectivesEnv(Shape reward_shape, Alter alter = nullptr) : alter_(std::move(alter)) {
    spec_.name = "Objectives";
    spec_.observation = *MakeSpec({Box("obs", {2})});
    spec_.action = *MakeSpec({Discrete("action", 2)});
    spec_.reward_shape = std::move(reward_shape);
    spec_.reward_low = -20;
    spec_.reward_high = 40;
    spec_.max_episode_steps = 7;
  }

  static EnvFactory Factory(const Shape& reward_shape, const Alter& alter = nullptr) {
    return [=]() -> absl::StatusOr<std::unique_ptr<Env>> {
      return std::make_unique<ObjectivesEnv>(reward_shape, alter);
    };
  }

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    Rng rng(start.seed, "objectives");
    x_ = static_cast<float>(rng.Uniform(-1, 1));
    length_ = 1 + static_cast<int64_t>(rng.UniformInt(7));
    step_ = 0;
    Show(obs);
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    ++step_;
    x_ += action.scalar<int64_t>(0) == 1 ? 0.5f : -0.25f;
    Show(obs);
    for (size_t c = 0; c < result->reward_components.size(); ++c) {
      result->reward_components[c] = Component(c);
    }
    if (result->reward_components.empty()) result->reward = Component(0);
    (length_ % 2 == 1 ? result->terminated : result->truncated) = step_ == length_;
    if (alter_) alter_(step_, result);
    return absl::OkStatus();
  }

  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteDouble("x", x_));
    DING_RETURN_IF_ERROR(writer->WriteInt("step", step_));
    return writer->WriteInt("length", length_);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(const double x, reader->ReadDouble("x"));
    x_ = static_cast<float>(x);
    DING_ASSIGN_OR_RETURN(step_, reader->ReadInt("step"));
    DING_ASSIGN_OR_RETURN(length_, reader->ReadInt("length"));
    return absl::OkStatus();
  }

 private:
  float Component(size_t c) const {
    return static_cast<float>(c + 1) * x_ + static_cast<float>(step_);
  }
  void Show(const RowRef& obs) const {
    obs.field<float>(0)[0] = x_;
    obs.field<float>(0)[1] = static_cast<float>(step_);
  }

  EnvSpec spec_;
  const Alter alter_;
  float x_ = 0;
  int64_t step_ = 0;
  int64_t length_ = 1;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_TESTING_OBJECTIVES_ENV_H_
