// Common code of the tasks on Box2D: the scale of their worlds, bodies of one shape, the step,
// drawing, and flags for bodies that touch something (ContactFlags).
//
// Numbers are computed in double and become float where Box2D takes them, as in Gymnasium.
//
// Threads: thread-compatible, as a b2World is.
#ifndef DING_WORKER_ENV_BOX2D_WORLD_H_
#define DING_WORKER_ENV_BOX2D_WORLD_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "box2d/box2d.h"
#include "ding_worker/env/classic_control/raster.h"

namespace ding {

inline constexpr double kBox2dScale = 30;  // pixels per m
inline constexpr double kBox2dStepsPerSecond = 50;
inline constexpr int kBox2dPictureWidth = 600;
inline constexpr int kBox2dPictureHeight = 400;
inline constexpr double kBox2dWidth = kBox2dPictureWidth / kBox2dScale;    // m
inline constexpr double kBox2dHeight = kBox2dPictureHeight / kBox2dScale;  // m
// Where Gymnasium names no friction, Box2D's own counts.
inline constexpr double kBox2dDefaultFriction = 0.2;

inline b2Vec2 ToVec(double x, double y) {
  return b2Vec2(static_cast<float>(x), static_cast<float>(y));
}

// The polygon with these corners, in pixels around the origin of its body.
b2PolygonShape ScaledPolygon(absl::Span<const Point> pixels);

struct MovingShape {
  const b2Shape* shape;
  double density;
  double friction;
  uint16_t category;
  uint16_t collides_with;
};
// Creates a dynamic body of one shape, which the world owns.
b2Body* CreateMoving(b2World* world, double x, double y, double angle, const MovingShape& shape);

// 1/50 s, with the iterations of Gymnasium.
inline void StepBox2d(b2World* world) {
  world->Step(static_cast<float>(1 / kBox2dStepsPerSecond), 6 * 30, 2 * 30);
}

inline Point Pixels(double x, double y) { return {x * kBox2dScale, y * kBox2dScale}; }
// Draws the polygons of a body, `left` m further to the left.
void DrawBody(const b2Body& body, double left, Color fill, Color edge, Canvas* canvas);

// Flags the bodies of a Box2D world that touch something, for the rewards of LunarLander and
// BipedalWalker. Owns nothing; the world must not outlive it.
//
// A body is watched under a number. Its flag is set when it begins to touch another body, and
// cleared when any of its contacts ends, even if it still touches something else, as in Gymnasium.
// A body that is watched as fatal sets crashed() for the rest of the episode instead.
class ContactFlags final : public b2ContactListener {
 public:
  // Numbers 0 and 1.
  void Watch(int number, const b2Body* body) { feet_[static_cast<size_t>(number)] = body; }
  void WatchFatal(const b2Body* body) { fatal_ = body; }

  bool touches(int number) const { return touches_[static_cast<size_t>(number)]; }
  bool crashed() const { return crashed_; }

  void BeginContact(b2Contact* contact) override {
    crashed_ = crashed_ || Has(contact, fatal_);
    Set(contact, true);
  }
  void EndContact(b2Contact* contact) override { Set(contact, false); }

 private:
  static bool Has(b2Contact* contact, const b2Body* body) {
    return contact->GetFixtureA()->GetBody() == body || contact->GetFixtureB()->GetBody() == body;
  }
  void Set(b2Contact* contact, bool value) {
    for (size_t i = 0; i < feet_.size(); ++i) {
      if (Has(contact, feet_[i])) touches_[i] = value;
    }
  }

  std::array<const b2Body*, 2> feet_{};
  const b2Body* fatal_ = nullptr;
  std::array<bool, 2> touches_{};
  bool crashed_ = false;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BOX2D_WORLD_H_
