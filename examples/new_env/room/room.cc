#include "room/room.h"

#include <algorithm>
#include <cmath>
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

namespace room_env {
namespace {

constexpr double kStep = 0.1;  // of action 1
constexpr double kNear = 0.1;

class RoomEnv final : public ding::Env {
 public:
  explicit RoomEnv(ding::EnvSpec spec) : spec_(std::move(spec)) {}

  const ding::EnvSpec& spec() const override { return spec_; }

  // Everything random comes from the seed, so that an episode can be repeated.
  absl::Status Reset(const ding::EpisodeStart& start, const ding::RowRef& obs) override {
    ding::Rng rng(start.seed, "room/start");
    goal_ = {rng.Uniform(0, 1), rng.Uniform(0, 1)};
    do {
      place_ = {rng.Uniform(0, 1), rng.Uniform(0, 1)};
    } while (Distance() < 2 * kNear);
    steps_ = 0;
    Show(obs);
    return absl::OkStatus();
  }

  // The actions are in the bounds of the spec.
  absl::Status Step(const ding::RowView& action, const ding::RowRef& obs,
                    ding::StepResult* result) override {
    const absl::Span<const float> step = action.field<float>(0);
    place_.x = std::clamp(place_.x + kStep * step[0], 0.0, 1.0);
    place_.y = std::clamp(place_.y + kStep * step[1], 0.0, 1.0);
    ++steps_;
    Show(obs);
    result->terminated = Distance() < kNear;
    result->truncated = !result->terminated && steps_ == spec_.max_episode_steps;
    result->reward = static_cast<float>(-Distance());
    if (result->terminated || result->truncated) result->info.Set("success", result->terminated);
    return absl::OkStatus();
  }

  // The middle of an episode, so that a run can be resumed exactly.
  absl::Status SaveState(ding::StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteDouble("place_x", place_.x));
    DING_RETURN_IF_ERROR(writer->WriteDouble("place_y", place_.y));
    DING_RETURN_IF_ERROR(writer->WriteDouble("goal_x", goal_.x));
    DING_RETURN_IF_ERROR(writer->WriteDouble("goal_y", goal_.y));
    return writer->WriteInt("steps", steps_);
  }

  absl::Status LoadState(ding::StateReader* reader) override {
    ding::Point place;
    ding::Point goal;
    DING_ASSIGN_OR_RETURN(place.x, reader->ReadDouble("place_x"));
    DING_ASSIGN_OR_RETURN(place.y, reader->ReadDouble("place_y"));
    DING_ASSIGN_OR_RETURN(goal.x, reader->ReadDouble("goal_x"));
    DING_ASSIGN_OR_RETURN(goal.y, reader->ReadDouble("goal_y"));
    DING_ASSIGN_OR_RETURN(steps_, reader->ReadCount("steps"));
    place_ = place;
    goal_ = goal;
    return absl::OkStatus();
  }

  // A picture for videos: the goal in green, the walker in blue.
  absl::StatusOr<ding::Image> Render() override {
    constexpr int kSide = 128;
    ding::Canvas canvas(kSide, kSide);
    canvas.Circle({kSide * goal_.x, kSide * goal_.y}, kSide * kNear, {120, 200, 120});
    canvas.Circle({kSide * place_.x, kSide * place_.y}, 4, {40, 40, 160});
    return std::move(canvas).image();
  }

 private:
  double Distance() const { return std::hypot(place_.x - goal_.x, place_.y - goal_.y); }

  // Every element of the row, at every reset and step.
  void Show(const ding::RowRef& obs) const {
    const absl::Span<float> shown = obs.field<float>(0);
    shown[0] = static_cast<float>(place_.x);
    shown[1] = static_cast<float>(place_.y);
    shown[2] = static_cast<float>(goal_.x);
    shown[3] = static_cast<float>(goal_.y);
  }

  const ding::EnvSpec spec_;
  ding::Point place_;
  ding::Point goal_;
  int64_t steps_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ding::Env>> CreateRoom() {
  ding::EnvSpec spec;
  spec.name = "Room";
  DING_ASSIGN_OR_RETURN(spec.observation, ding::MakeSpec({ding::Box("obs", {4}, {0}, {1})}));
  DING_ASSIGN_OR_RETURN(spec.action, ding::MakeSpec({ding::Box("action", {2}, {-1}, {1})}));
  spec.reward_low = -std::sqrt(2.0);
  spec.reward_high = 0;
  spec.max_episode_steps = 20;
  return std::make_unique<RoomEnv>(std::move(spec));
}

}  // namespace room_env
