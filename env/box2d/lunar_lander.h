// LunarLander: land between two flags with a main engine and two side engines.
//
// Dynamics, observations and rewards as in Gymnasium's LunarLander-v3 and LunarLanderContinuous-v3,
// on Box2D 2.4 (Gymnasium has 2.3). Lengths in m (30 pixels per m); 50 steps per second.
//
// Observation: float32[8]: x and y of the lander relative to the pad (in half widths of the picture
// and half heights), velocities (scaled likewise), angle (rad), angular velocity (rad in 0.4 s),
// and whether legs 0 and 1 touch the ground (0 or 1). Action: discrete: 0 nothing, 1 left engine, 2
// main engine, 3 right engine. Continuous: float32[2] in [-1, 1]: main engine (above 0: 50 % to 100
// % of its power), side engines (below -0.5 left, above 0.5 right). Reward: the change of -100
// distance - 100 speed - 100 |angle| + 10 per leg on the ground, less 0.3 per step of the main
// engine and 0.03 per step of a side engine; instead -100 for a crash or for leaving the picture
// sideways, and 100 for coming to rest. All three terminate the episode.   Time limit: 1,000 steps.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_ENV_BOX2D_LUNAR_LANDER_H_
#define DING_WORKER_ENV_BOX2D_LUNAR_LANDER_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "box2d/box2d.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/image.h"
#include "ding_worker/env/box2d/world.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/env.h"

namespace ding {

struct LunarLanderOptions {
  double gravity = -10;
  bool enable_wind = false;
  double wind_power = 15;
  double turbulence_power = 1.5;
};

// One episode: the physics, apart from the interface of an env.
class LunarLanderGame {
 public:
  using Options = LunarLanderOptions;

  static constexpr int kChunks = 11;  // corners of the ground
  static constexpr int kObsSize = 8;

  // The power of the engines in a step, 0 or 0.5 to 1. The side engines also have a direction, -1
  // or 1.
  struct Engines {
    double main = 0;
    double side = 0;
    double direction = 0;
  };

  LunarLanderGame(const Options& options, uint64_t seed);

  ClassicOutcome Step(const Engines& engines);
  void Observe(absl::Span<float> obs) const;
  Image Draw() const;

  // For tests and pictures.
  const b2Body& lander() const { return *lander_; }
  const b2Body& leg(int number) const { return *legs_.at(static_cast<size_t>(number)); }
  const ContactFlags& contacts() const { return contacts_; }
  double pad_y() const { return kPadY; }
  // The two random numbers that moved the engines' thrust in the last step, in m.
  std::array<double, 2> dispersion() const { return dispersion_; }

 private:
  static constexpr double kPadY = 400 / 30.0 / 4;
  using State = std::array<double, kObsSize>;

  void CreateGround();
  void CreateLander();
  void BlowWind();
  void Fire(const Engines& engines);
  State NewState() const;

  const Options options_;
  Rng rng_;
  ContactFlags contacts_;  // before the world, which tells it about contacts until its end
  b2World world_;
  b2Body* lander_ = nullptr;
  std::array<b2Body*, 2> legs_{};
  std::array<double, kChunks> ground_{};
  int64_t wind_index_ = 0;
  int64_t torque_index_ = 0;
  std::array<double, 2> dispersion_{};
  Engines engines_;  // of the last step
  bool has_shaping_ = false;
  double shaping_ = 0;
};

// The same with the actions of LunarLander-v3.
class DiscreteLunarLander : public LunarLanderGame {
 public:
  using Action = int64_t;
  static constexpr int kActionSize = 1;
  using LunarLanderGame::LunarLanderGame;
  static Engines EnginesOf(int64_t action);
  ClassicOutcome Step(absl::Span<const int64_t> action) {
    return LunarLanderGame::Step(EnginesOf(action[0]));
  }
};

// The same with the actions of LunarLanderContinuous-v3.
class ContinuousLunarLander : public LunarLanderGame {
 public:
  using Action = float;
  static constexpr int kActionSize = 2;
  using LunarLanderGame::LunarLanderGame;
  static Engines EnginesOf(float main, float side);
  ClassicOutcome Step(absl::Span<const float> action) {
    return LunarLanderGame::Step(EnginesOf(action[0], action[1]));
  }
};

// kInvalidArgument, with the field and its range, for options outside of their ranges.
absl::StatusOr<std::unique_ptr<Env>> CreateLunarLander(const LunarLanderOptions& options);
absl::StatusOr<std::unique_ptr<Env>> CreateLunarLanderContinuous(const LunarLanderOptions& options);

}  // namespace ding

#endif  // DING_WORKER_ENV_BOX2D_LUNAR_LANDER_H_
