#include "ding_worker/env/classic_control/raster.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace ding {
namespace {

constexpr int kSamples = 4;  // per pixel and axis

// Sets `crossings` to where the outline crosses the height y, from left to right.
void FindCrossings(absl::Span<const Point> corners, double y, std::vector<double>* crossings) {
  crossings->clear();
  for (size_t i = 0, j = corners.size() - 1; i < corners.size(); j = i++) {
    const Point a = corners[i];
    const Point b = corners[j];
    if ((a.y > y) == (b.y > y)) continue;
    crossings->push_back(a.x + (b.x - a.x) * (y - a.y) / (b.y - a.y));
  }
  std::sort(crossings->begin(), crossings->end());
}

// The place of a sample in a row, in pixels.
double SampleAt(int sample) { return (sample + 0.5) / kSamples; }

// The first sample of a row, of `count`, that is not left of x.
int FirstSample(double x, int count) {
  int sample =
      static_cast<int>(std::clamp(std::floor(x * kSamples), 0.0, static_cast<double>(count)));
  while (sample < count && SampleAt(sample) < x) ++sample;
  return sample;
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

void Canvas::Cover(int x, int y, int hits, Color color) {
  uint8_t* const pixel =
      image_.rgb.data() + 3 * (static_cast<size_t>(image_.height - 1 - y) * image_.width + x);
  const uint8_t paint[3] = {color.red, color.green, color.blue};
  if (hits == kSamples * kSamples) {
    std::copy(paint, paint + 3, pixel);
    return;
  }
  const double coverage = hits / static_cast<double>(kSamples * kSamples);
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
      if (hits > 0) Cover(x, y, hits, color);
    }
  }
}

void Canvas::Polygon(absl::Span<const Point> corners, Color color) {
  if (corners.empty()) return;
  double low = corners[0].y;
  double high = corners[0].y;
  for (const Point& corner : corners) {
    low = std::min(low, corner.y);
    high = std::max(high, corner.y);
  }
  const int bottom = static_cast<int>(std::clamp<double>(std::floor(low), 0, image_.height));
  const int top = static_cast<int>(std::clamp<double>(std::ceil(high), 0, image_.height));
  std::vector<int> hits(static_cast<size_t>(image_.width));  // samples of each pixel in the row
  std::vector<double> crossings;
  for (int y = bottom; y < top; ++y) {
    std::fill(hits.begin(), hits.end(), 0);
    for (int sample = 0; sample < kSamples; ++sample) {
      FindCrossings(corners, y + SampleAt(sample), &crossings);
      // Even-odd rule: what lies between the first and the second crossing is inside, and so on.
      for (size_t i = 0; i + 1 < crossings.size(); i += 2) {
        const int end = FirstSample(crossings[i + 1], image_.width * kSamples);
        for (int s = FirstSample(crossings[i], end); s < end; ++s) {
          ++hits[static_cast<size_t>(s / kSamples)];
        }
      }
    }
    for (int x = 0; x < image_.width; ++x) {
      if (hits[static_cast<size_t>(x)] > 0) Cover(x, y, hits[static_cast<size_t>(x)], color);
    }
  }
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
