#include "ding_worker/env/classic_control/raster.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace ding {
namespace {

constexpr int kSamples = 4;  // per pixel and axis

// Even-odd rule: a ray from an inner point crosses the outline an odd number of times.
bool InsidePolygon(absl::Span<const Point> corners, Point p) {
  bool inside = false;
  for (size_t i = 0, j = corners.size() - 1; i < corners.size(); j = i++) {
    const Point a = corners[i];
    const Point b = corners[j];
    if ((a.y > p.y) == (b.y > p.y)) continue;
    if (p.x < a.x + (b.x - a.x) * (p.y - a.y) / (b.y - a.y)) inside = !inside;
  }
  return inside;
}

}  // namespace

std::vector<Point> Rectangle(Point origin, double left, double right, double bottom, double top,
                             double angle) {
  std::vector<Point> corners = {{left, bottom}, {left, top}, {right, top}, {right, bottom}};
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  for (Point& corner : corners) {
    corner = {origin.x + corner.x * cosine - corner.y * sine,
              origin.y + corner.x * sine + corner.y * cosine};
  }
  return corners;
}

Canvas::Canvas(int width, int height) {
  image_.width = width;
  image_.height = height;
  image_.rgb.assign(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, 255);
}

void Canvas::Blend(int column, int row_from_top, double coverage, Color color) {
  uint8_t* const pixel =
      image_.rgb.data() + 3 * (static_cast<size_t>(row_from_top) * image_.width + column);
  const uint8_t paint[3] = {color.red, color.green, color.blue};
  for (int i = 0; i < 3; ++i) {
    pixel[i] = static_cast<uint8_t>(std::lround(pixel[i] + coverage * (paint[i] - pixel[i])));
  }
}

template <typename Inside>
void Canvas::Fill(Point low, Point high, Color color, const Inside& inside) {
  const int left = static_cast<int>(std::clamp<double>(std::floor(low.x), 0, image_.width));
  const int right = static_cast<int>(std::clamp<double>(std::ceil(high.x), 0, image_.width));
  const int bottom = static_cast<int>(std::clamp<double>(std::floor(low.y), 0, image_.height));
  const int top = static_cast<int>(std::clamp<double>(std::ceil(high.y), 0, image_.height));
  for (int y = bottom; y < top; ++y) {
    for (int x = left; x < right; ++x) {
      int hits = 0;
      for (int sample = 0; sample < kSamples * kSamples; ++sample) {
        hits += inside(Point{x + (sample % kSamples + 0.5) / kSamples,
                             y + (sample / kSamples + 0.5) / kSamples});
      }
      if (hits == 0) continue;
      Blend(x, image_.height - 1 - y, hits / static_cast<double>(kSamples * kSamples), color);
    }
  }
}

void Canvas::Polygon(absl::Span<const Point> corners, Color color) {
  if (corners.empty()) return;
  Point low = corners[0];
  Point high = corners[0];
  for (const Point& corner : corners) {
    low = {std::min(low.x, corner.x), std::min(low.y, corner.y)};
    high = {std::max(high.x, corner.x), std::max(high.y, corner.y)};
  }
  Fill(low, high, color, [corners](Point p) { return InsidePolygon(corners, p); });
}

void Canvas::Circle(Point center, double radius, Color color) {
  Fill({center.x - radius, center.y - radius}, {center.x + radius, center.y + radius}, color,
       [center, radius](Point p) { return std::hypot(p.x - center.x, p.y - center.y) <= radius; });
}

void Canvas::Line(Point from, Point to, double width, Color color) {
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  const double angle = std::atan2(to.y - from.y, to.x - from.x);
  Polygon(Rectangle(from, 0, length, -width / 2, width / 2, angle), color);
}

}  // namespace ding
