// Draws polygons, circles and lines into an Image, without a graphics library: enough for the
// Render() of a simple env. Edges are antialiased (4 x 4 samples per pixel).
//
// Coordinates are pixels; the origin is the lower left corner and y points up. Shapes are clipped
// to the image.
//
// Ownership: a Canvas owns its image until it is moved out.   Threads: thread-compatible.
//
// Example:
//   Canvas canvas(600, 400);
//   canvas.Line({0, 100}, {600, 100}, 1, kBlack);
//   return std::move(canvas).image();
#ifndef DING_WORKER_ENV_CLASSIC_CONTROL_RASTER_H_
#define DING_WORKER_ENV_CLASSIC_CONTROL_RASTER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/data/image.h"

namespace ding {

struct Point {
  double x = 0;
  double y = 0;
};

struct Color {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;
};

inline constexpr Color kBlack = {0, 0, 0};

// The corners of a rectangle that extends from `origin` to left and right (x) and to bottom and top
// (y), turned about `origin` by `angle` (rad, counter-clockwise).
std::vector<Point> Rectangle(Point origin, double left, double right, double bottom, double top,
                             double angle);

class Canvas {
 public:
  // Creates a white image.
  Canvas(int width, int height);

  void Polygon(absl::Span<const Point> corners, Color color);
  void Circle(Point center, double radius, Color color);
  void Line(Point from, Point to, double width, Color color);

  Image image() && { return std::move(image_); }

 private:
  // Paints the points of the box from `low` to `high` for which inside(point) is true.
  template <typename Inside>
  void Fill(Point low, Point high, Color color, const Inside& inside);
  // Paints a pixel. `hits` of its samples are covered; y counts from below.
  void Cover(int x, int y, int hits, Color color);

  Image image_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_CLASSIC_CONTROL_RASTER_H_
