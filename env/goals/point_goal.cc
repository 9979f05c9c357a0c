#include "ding_worker/env/goals/point_goal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/goal_fields.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/classic_control/raster.h"

namespace ding {
namespace {

constexpr double kSeconds = 0.05;
constexpr double kForce = 10;
constexpr double kDrag = 2;

// Rows from top to bottom; '#' is a wall. Without rows everything is free.
using Maze = std::vector<std::string>;

// A U: from one end of the corridor to the other the point goes around a wall.
const Maze& UMaze() {
  static const auto* const maze = new Maze{"###.", "....", ".###", "...."};
  return *maze;
}

struct Task {
  std::string name;
  Maze maze;
  double radius = 0;
  int64_t max_episode_steps = 0;
};

bool IsFree(const Maze& maze, double x, double y) {
  if (std::abs(x) > 1 || std::abs(y) > 1) return false;
  if (maze.empty()) return true;
  const auto cells = static_cast<double>(maze.size());
  const auto index = [cells](double along) {
    return static_cast<size_t>(std::clamp(std::floor((along + 1) / 2 * cells), 0.0, cells - 1));
  };
  return maze[index(-y)][index(x)] != '#';
}

// x, y, their velocities, and the goal.
using State = std::array<double, 6>;

class PointGoal final : public Env {
 public:
  PointGoal(EnvSpec spec, Task task) : spec_(std::move(spec)), task_(std::move(task)) {}

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    if (!start.params.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          spec_.name, " takes no parameters at a reset, got '", start.params.begin()->first, "'"));
    }
    static constexpr Rng::Purpose kStart("env/start");
    Rng rng(start.seed, kStart);
    const Point from = DrawFree(&rng);
    Point goal;
    do {
      goal = DrawFree(&rng);
    } while (std::hypot(goal.x - from.x, goal.y - from.y) < 2 * task_.radius);
    state_ = {from.x, from.y, 0, 0, goal.x, goal.y};
    steps_ = 0;
    over_ = false;
    Show(obs);
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    if (over_) {
      return absl::FailedPreconditionError("Step() without a running episode; call Reset() first");
    }
    const absl::Span<const float> force = action.field<float>(0);
    for (size_t axis = 0; axis < 2; ++axis) Move(axis, force[axis]);
    ++steps_;
    Show(obs);
    result->reward = SparseGoalReward(obs.field<float>(1), obs.field<float>(2), task_.radius);
    result->truncated = over_ = steps_ == spec_.max_episode_steps;
    if (over_) result->info.Set("is_success", result->reward == 0 ? 1 : 0);
    return absl::OkStatus();
  }

  // "state": place, velocity and goal; "steps" of the episode so far; "over": 0 or 1.
  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteSpan<double>("state", state_));
    DING_RETURN_IF_ERROR(writer->WriteInt("steps", steps_));
    return writer->WriteInt("over", over_ ? 1 : 0);
  }

  absl::Status LoadState(StateReader* reader) override {
    State state;
    DING_RETURN_IF_ERROR(reader->ReadSpan<double>("state", absl::MakeSpan(state)));
    DING_ASSIGN_OR_RETURN(const int64_t steps, reader->ReadInt("steps"));
    DING_ASSIGN_OR_RETURN(const int64_t over, reader->ReadInt("over"));
    if (!std::all_of(state.begin(), state.end(), [](double x) { return std::isfinite(x); })) {
      return absl::InvalidArgumentError("saved 'state' contains numbers that are not finite");
    }
    if (steps < 0 || steps > spec_.max_episode_steps) {
      return absl::InvalidArgumentError(
          absl::StrCat("saved 'steps' is ", steps, ", expected 0..", spec_.max_episode_steps));
    }
    state_ = state;
    steps_ = steps;
    over_ = over != 0;
    return absl::OkStatus();
  }

  absl::StatusOr<Image> Render() override {
    constexpr int kSide = 400;
    const auto pixels = [](double x, double y) {
      return Point{(x + 1) / 2 * kSide, (y + 1) / 2 * kSide};
    };
    Canvas canvas(kSide, kSide);
    const double cell = task_.maze.empty() ? 0 : kSide / static_cast<double>(task_.maze.size());
    for (size_t row = 0; row < task_.maze.size(); ++row) {
      for (size_t column = 0; column < task_.maze.size(); ++column) {
        if (task_.maze[row][column] != '#') continue;
        const Point corner = {static_cast<double>(column) * cell,
                              kSide - static_cast<double>(row + 1) * cell};
        canvas.Polygon(Rectangle(corner, 0, cell, 0, cell, 0), {120, 120, 130});
      }
    }
    canvas.Circle(pixels(state_[4], state_[5]), task_.radius / 2 * kSide, {90, 190, 110});
    canvas.Circle(pixels(state_[0], state_[1]), 5, {60, 90, 190});
    return std::move(canvas).image();
  }

 private:
  Point DrawFree(Rng* rng) const {
    Point place;
    do {
      place.x = rng->Uniform(-1, 1);
      place.y = rng->Uniform(-1, 1);
    } while (!IsFree(task_.maze, place.x, place.y));
    return place;
  }

  void Move(size_t axis, double force) {
    double& speed = state_[2 + axis];
    speed += kSeconds * (kForce * force - kDrag * speed);
    std::array<double, 2> next = {state_[0], state_[1]};
    next[axis] += kSeconds * speed;
    if (IsFree(task_.maze, next[0], next[1])) {
      state_[axis] = next[axis];
    } else {
      speed = 0;
    }
  }

  // Fields: observation, achieved goal, desired goal.
  void Show(const RowRef& obs) const {
    const auto narrow = [](double number) { return static_cast<float>(number); };
    std::transform(state_.begin(), state_.begin() + 4, obs.field<float>(0).begin(), narrow);
    std::transform(state_.begin(), state_.begin() + 2, obs.field<float>(1).begin(), narrow);
    std::transform(state_.begin() + 4, state_.end(), obs.field<float>(2).begin(), narrow);
  }

  const EnvSpec spec_;
  const Task task_;
  State state_{};
  int64_t steps_ = 0;
  bool over_ = true;
};

absl::StatusOr<std::unique_ptr<Env>> Create(Task task) {
  // The speed at which drag and the largest force are equal.
  constexpr double kFastest = kForce / kDrag;
  EnvSpec spec;
  spec.name = task.name;
  DING_ASSIGN_OR_RETURN(
      spec.observation,
      MakeSpec({Box(kGoalObservationField, {4}, {-1, -1, -kFastest, -kFastest},
                    {1, 1, kFastest, kFastest}),
                Box(kAchievedGoalField, {2}, {-1}, {1}), Box(kDesiredGoalField, {2}, {-1}, {1})}));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Box("action", {2}, {-1}, {1})}));
  spec.reward_low = -1;
  spec.reward_high = 0;
  spec.max_episode_steps = task.max_episode_steps;
  return std::make_unique<PointGoal>(std::move(spec), std::move(task));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Env>> CreateReachGoal() {
  return Create({"ReachGoal-v0", {}, kReachGoalRadius, 50});
}

absl::StatusOr<std::unique_ptr<Env>> CreatePointMaze() {
  return Create({"PointMaze-v0", UMaze(), kPointMazeRadius, 150});
}

}  // namespace ding
