#include "ding_worker/env/classic_control/mountain_car.h"

#include <string>
#include <utility>

#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/classic_control/raster.h"

namespace ding {
namespace {

// What the two tasks have in common.
struct AnyMountainCarModel {
  using State = MountainCarState;
  using Derived = MountainCarSlope;

  static State Start(Rng* rng) { return {rng->Uniform(-0.6, -0.4), 0}; }

  static Derived Derive(const State& state) { return SlopeUnder(state); }

  static void Observe(const State& state, float* obs) {
    obs[0] = static_cast<float>(state.position);
    obs[1] = static_cast<float>(state.velocity);
  }
};

struct MountainCarModel : AnyMountainCarModel {
  using Action = int64_t;

  static ClassicOutcome Step(Action action, const Derived& slope, State* state) {
    return MountainCarStep(action, slope, state);
  }

  static Image Draw(const State& state) { return DrawMountainCar(state, kMountainCarGoal); }
};

struct MountainCarContinuousModel : AnyMountainCarModel {
  using Action = float;

  static ClassicOutcome Step(Action action, const Derived& slope, State* state) {
    return MountainCarContinuousStep(action, slope, state);
  }

  static Image Draw(const State& state) {
    return DrawMountainCar(state, kMountainCarContinuousGoal);
  }
};

absl::StatusOr<EnvSpec> SpecOf(std::string name, FieldSpec action) {
  EnvSpec spec;
  spec.name = std::move(name);
  DING_ASSIGN_OR_RETURN(spec.observation,
                        MakeSpec({Box("obs", {2}, {kMountainCarMinPosition, -kMountainCarMaxSpeed},
                                      {kMountainCarMaxPosition, kMountainCarMaxSpeed})}));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({std::move(action)}));
  return spec;
}

// The pixel of a position of the car.
Point OnHill(double position) {
  constexpr double kScale = 600 / (kMountainCarMaxPosition - kMountainCarMinPosition);
  return {(position - kMountainCarMinPosition) * kScale,
          (std::sin(3 * position) * 0.45 + 0.55) * kScale};
}

void DrawHill(Canvas* canvas) {
  constexpr int kPieces = 100;
  const auto point = [](int i) {
    return OnHill(kMountainCarMinPosition +
                  (kMountainCarMaxPosition - kMountainCarMinPosition) * i / kPieces);
  };
  for (int i = 0; i < kPieces; ++i) canvas->Line(point(i), point(i + 1), 1, kBlack);
}

}  // namespace

Image DrawMountainCar(const MountainCarState& state, double goal) {
  Canvas canvas(600, 400);
  DrawHill(&canvas);
  const Point flag = OnHill(goal);
  canvas.Line(flag, {flag.x, flag.y + 50}, 1, kBlack);
  canvas.Polygon({{flag.x, flag.y + 50}, {flag.x, flag.y + 40}, {flag.x + 25, flag.y + 45}},
                 {204, 204, 0});
  Point car = OnHill(state.position);
  car.y += 10;  // clearance
  const double tilt = std::cos(3 * state.position);
  canvas.Polygon(Rectangle(car, -20, 20, 0, 20, tilt), kBlack);
  for (const double wheel : {-10, 10}) {
    canvas.Circle({car.x + wheel * std::cos(tilt), car.y + wheel * std::sin(tilt)}, 8,
                  {128, 128, 128});
  }
  return std::move(canvas).image();
}

absl::StatusOr<std::unique_ptr<Env>> CreateMountainCar() {
  DING_ASSIGN_OR_RETURN(EnvSpec spec, SpecOf("MountainCar-v0", Discrete("action", 3)));
  spec.reward_low = -1;
  spec.reward_high = -1;
  spec.max_episode_steps = 200;
  return std::make_unique<ClassicEnv<MountainCarModel>>(std::move(spec));
}

absl::StatusOr<std::unique_ptr<Env>> CreateMountainCarContinuous() {
  DING_ASSIGN_OR_RETURN(EnvSpec spec,
                        SpecOf("MountainCarContinuous-v0", Box("action", {1}, {-1}, {1})));
  spec.reward_low = -0.1;
  spec.reward_high = 100;
  spec.max_episode_steps = 999;
  return std::make_unique<ClassicEnv<MountainCarContinuousModel>>(std::move(spec));
}

}  // namespace ding
