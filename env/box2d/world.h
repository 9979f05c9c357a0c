// What the tasks on Box2D share: the scale of their worlds, bodies of one shape, the step, and drawing.
//
// Numbers are computed in double and become float where Box2D takes them, as in Gymnasium.
//
// Threads: thread-compatible, as a b2World is.
#ifndef DING_WORKER_ENV_BOX2D_WORLD_H_
#define DING_WORKER_ENV_BOX2D_WORLD_H_

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

}  // namespace ding

#endif  // DING_WORKER_ENV_BOX2D_WORLD_H_
