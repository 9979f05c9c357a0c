#include "ding_worker/env/box2d/world.h"

#include <cstddef>
#include <vector>

namespace ding {

b2PolygonShape ScaledPolygon(absl::Span<const Point> pixels) {
  std::vector<b2Vec2> corners;
  corners.reserve(pixels.size());
  for (const Point& pixel : pixels) {
    corners.push_back(ToVec(pixel.x / kBox2dScale, pixel.y / kBox2dScale));
  }
  b2PolygonShape polygon;
  polygon.Set(corners.data(), static_cast<int32_t>(corners.size()));
  return polygon;
}

b2Body* CreateMoving(b2World* world, double x, double y, double angle, const MovingShape& shape) {
  b2BodyDef place;
  place.type = b2_dynamicBody;
  place.position = ToVec(x, y);
  place.angle = static_cast<float>(angle);
  b2FixtureDef fixture;
  fixture.shape = shape.shape;
  fixture.density = static_cast<float>(shape.density);
  fixture.friction = static_cast<float>(shape.friction);
  fixture.filter.categoryBits = shape.category;
  fixture.filter.maskBits = shape.collides_with;
  b2Body* const body = world->CreateBody(&place);
  body->CreateFixture(&fixture);
  return body;
}

void DrawBody(const b2Body& body, double left, Color fill, Color edge, Canvas* canvas) {
  for (const b2Fixture* fixture = body.GetFixtureList(); fixture != nullptr;
       fixture = fixture->GetNext()) {
    if (fixture->GetType() != b2Shape::e_polygon) continue;
    const auto& polygon = static_cast<const b2PolygonShape&>(*fixture->GetShape());
    std::vector<Point> corners;
    for (int32_t i = 0; i < polygon.m_count; ++i) {
      const b2Vec2 corner = body.GetWorldPoint(polygon.m_vertices[i]);
      corners.push_back(Pixels(corner.x - left, corner.y));
    }
    canvas->Polygon(corners, fill);
    for (size_t i = 0; i < corners.size(); ++i) {
      canvas->Line(corners[i], corners[(i + 1) % corners.size()], 1, edge);
    }
  }
}

}  // namespace ding
