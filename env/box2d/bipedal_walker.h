// BipedalWalker: walk to the far end on two legs with motors at hips and knees.
//
// Dynamics, observations and rewards as in Gymnasium's BipedalWalker-v3, on Box2D 2.4 (Gymnasium
// has 2.3). Lengths in m (30 pixels per m); 50 steps per second.
//
// Observation: float32[24]: angle of the hull (rad), angular velocity (rad in 0.04 s), velocities
// (scaled); for each leg: angle of the hip, its speed (of 4 rad/s), angle of the knee plus 1, its
// speed (of 6 rad/s), whether the lower leg touches the ground (0 or 1); 10 distances to the
// ground, down to forwards (0 to 1, of 16/3 m).
// Action: float32[4] in [-1, 1]: torques of hip and knee of leg 0, then of leg 1. The sign says
// which way the motor turns, the size how much of 80 N m it has.
// Reward: the change of 13/3 x - 5 |angle|, less 0.028 per full torque and step; instead -100 when
// the hull touches the ground or the walker leaves the left end. Both terminate the episode.
// Reaching the right end terminates it, too.   Time limit: 1,600 steps, hardcore 2,000.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_ENV_BOX2D_BIPEDAL_WALKER_H_
#define DING_WORKER_ENV_BOX2D_BIPEDAL_WALKER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "box2d/box2d.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/image.h"
#include "ding_worker/env/box2d/world.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/classic_control/raster.h"
#include "ding_worker/env/env.h"

namespace ding {

inline constexpr double kTerrainStep = 14 / kBox2dScale;  // m between corners
inline constexpr int kTerrainLength = 200;                // corners
inline constexpr double kTerrainHeight = kBox2dHeight / 4;
inline constexpr int kTerrainGrass = 10;     // corners, the longest stretch of one kind
inline constexpr int kTerrainStartPad = 20;  // corners, even

// The ground: a line of 200 corners, and for the hardcore task pits, stumps and stairs, laid out as
// in Gymnasium from random numbers of this project.
struct WalkerTerrain {
  std::vector<double> heights;                  // m, of the corners
  std::vector<std::array<Point, 4>> obstacles;  // corners in m, in the order in which they are met
};

WalkerTerrain MakeWalkerTerrain(bool hardcore, Rng* rng);

// One episode: the physics, apart from the interface of an env.
class BipedalWalkerGame {
 public:
  struct Options {
    bool hardcore = false;
  };
  using Action = float;
  static constexpr int kActionSize = 4;
  static constexpr int kRays = 10;
  static constexpr int kObsSize = 14 + kRays;

  BipedalWalkerGame(const Options& options, uint64_t seed);

  ClassicOutcome Step(absl::Span<const float> action);
  void Observe(absl::Span<float> obs) const;
  Image Draw() const;

  // For tests.
  const b2Body& hull() const { return *hull_; }
  // Upper and lower part of leg 0, then of leg 1.
  const b2Body& part(int number) const { return *parts_.at(static_cast<size_t>(number)); }
  const ContactFlags& contacts() const { return contacts_; }
  const WalkerTerrain& terrain() const { return terrain_; }

 private:
  using State = std::array<double, kObsSize>;

  void CreateGround();
  void CreateWalker(Rng* rng);
  b2RevoluteJoint* Join(b2Body* upper, b2Body* lower, b2Vec2 at, double speed, double low,
                        double high);
  State NewState() const;
  void DrawScenery(double scroll, Canvas* canvas) const;

  const uint64_t seed_;
  const WalkerTerrain terrain_;
  ContactFlags contacts_;  // before the world, which tells it about contacts until its end
  b2World world_;
  b2Body* hull_ = nullptr;
  std::array<b2Body*, 4> parts_{};
  std::array<b2RevoluteJoint*, 4> joints_{};
  State state_{};
  bool has_shaping_ = false;
  double shaping_ = 0;
};

// "BipedalWalker-v3", or "BipedalWalkerHardcore-v3".
absl::StatusOr<std::unique_ptr<Env>> CreateBipedalWalker(bool hardcore);

}  // namespace ding

#endif  // DING_WORKER_ENV_BOX2D_BIPEDAL_WALKER_H_
