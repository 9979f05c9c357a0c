#include "corridor.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/classic_control/raster.h"

namespace corridor_env {
namespace {

class CorridorEnv final : public ding::Env {
 public:
  CorridorEnv(ding::EnvSpec spec, int64_t places) : spec_(std::move(spec)), places_(places) {}

  const ding::EnvSpec& spec() const override { return spec_; }

  // Everything random comes from the seed, so that an episode can be repeated.
  absl::Status Reset(const ding::EpisodeStart& start, const ding::RowRef& obs) override {
    ding::Rng rng(start.seed, "corridor/start");
    goal_ = static_cast<int64_t>(rng.UniformInt(places_));
    // Not at the goal.
    place_ = (goal_ + 1 + static_cast<int64_t>(rng.UniformInt(places_ - 1))) % places_;
    steps_ = 0;
    Show(obs);
    return absl::OkStatus();
  }

  absl::Status Step(const ding::RowView& action, const ding::RowRef& obs,
                    ding::StepResult* result) override {
    place_ = std::clamp<int64_t>(place_ + action.scalar<int64_t>(0) - 1, 0, places_ - 1);
    ++steps_;
    Show(obs);
    result->terminated = place_ == goal_;
    result->truncated = !result->terminated && steps_ == spec_.max_episode_steps;
    result->reward = result->terminated ? 1.0f : -0.01f;
    if (result->terminated || result->truncated) result->info.Set("success", result->terminated);
    return absl::OkStatus();
  }

  // The middle of an episode, so that a run can be resumed exactly.
  absl::Status SaveState(ding::StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteInt("place", place_));
    DING_RETURN_IF_ERROR(writer->WriteInt("goal", goal_));
    return writer->WriteInt("steps", steps_);
  }

  absl::Status LoadState(ding::StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(const int64_t place, reader->ReadInt("place"));
    DING_ASSIGN_OR_RETURN(const int64_t goal, reader->ReadInt("goal"));
    DING_ASSIGN_OR_RETURN(const int64_t steps, reader->ReadCount("steps"));
    place_ = place;
    goal_ = goal;
    steps_ = steps;
    return absl::OkStatus();
  }

  // A picture for videos: the goal in green, the walker in blue.
  absl::StatusOr<ding::Image> Render() override {
    constexpr int kSide = 16;
    ding::Canvas canvas(kSide * static_cast<int>(places_), kSide);
    const auto center = [](int64_t place) {
      return ding::Point{kSide * (static_cast<double>(place) + 0.5), kSide / 2.0};
    };
    canvas.Circle(center(goal_), 7, {120, 200, 120});
    canvas.Circle(center(place_), 4, {40, 40, 160});
    return std::move(canvas).image();
  }

 private:
  // Every element of the row, at every reset and step.
  void Show(const ding::RowRef& obs) const {
    const auto last = static_cast<float>(places_ - 1);
    obs.field<float>(0)[0] = static_cast<float>(place_) / last;
    obs.field<float>(0)[1] = static_cast<float>(goal_) / last;
    // Which actions make sense: there is no way on at the ends. Leave the mask out where all do.
    const absl::Span<uint8_t> mask = obs.field<uint8_t>(1);
    mask[0] = place_ > 0 ? 1 : 0;
    mask[1] = 1;
    mask[2] = place_ < places_ - 1 ? 1 : 0;
  }

  const ding::EnvSpec spec_;
  const int64_t places_;
  int64_t place_ = 0;
  int64_t goal_ = 0;
  int64_t steps_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ding::Env>> CreateCorridor(const CorridorParams& params) {
  if (params.places() < 2) {
    return absl::InvalidArgumentError("places is below 2: there is no way to a goal");
  }
  ding::EnvSpec spec;
  spec.name = "Corridor";
  ding::FieldSpec mask = ding::Scalar("obs/action_mask", ding::DType::kBool);
  mask.shape = {3};
  DING_ASSIGN_OR_RETURN(spec.observation,
                        ding::MakeSpec({ding::Box("obs/places", {2}, {0}, {1}), mask}));
  DING_ASSIGN_OR_RETURN(spec.action, ding::MakeSpec({ding::Discrete("action", 3)}));
  spec.reward_low = -0.01;
  spec.reward_high = 1;
  spec.max_episode_steps = 50;
  return std::make_unique<CorridorEnv>(std::move(spec), params.places());
}

}  // namespace corridor_env
