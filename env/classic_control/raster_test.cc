#include "ding_worker/env/classic_control/raster.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::Each;

// The amount of black paint in one channel, in pixels.
double Painted(const Image& image) {
  double sum = 0;
  for (size_t i = 0; i < image.rgb.size(); i += 3) sum += (255 - image.rgb[i]) / 255.0;
  return sum;
}

TEST(CanvasTest, BeginsWhite) {
  const Image image = Canvas(3, 2).image();
  EXPECT_EQ(image.width, 3);
  EXPECT_EQ(image.height, 2);
  EXPECT_EQ(image.rgb.size(), 18);
  EXPECT_THAT(image.rgb, Each(255));
}

TEST(CanvasTest, DrawsThePixelsOfASquare) {
  Canvas canvas(4, 4);
  canvas.Polygon({{1, 0}, {1, 1}, {3, 1}, {3, 0}}, {10, 20, 30});
  const Image image = std::move(canvas).image();
  for (int x = 0; x < 4; ++x) {
    const bool inside = x == 1 || x == 2;
    // y points up: the lowest row is the last one.
    EXPECT_EQ(image.rgb[(3 * 4 + x) * 3 + 1], inside ? 20 : 255) << x;
    EXPECT_EQ(image.rgb[(2 * 4 + x) * 3 + 1], 255) << x;
  }
}

TEST(CanvasTest, DrawsShapesOfTheRightArea) {
  Canvas turned(100, 100);
  turned.Polygon(Rectangle({50, 50}, -20, 20, -5, 5, 0.7), kBlack);
  EXPECT_NEAR(Painted(std::move(turned).image()), 400, 4);
  Canvas circle(100, 100);
  circle.Circle({50, 50}, 20, kBlack);
  EXPECT_NEAR(Painted(std::move(circle).image()), 1256.6, 6);
  Canvas line(100, 100);
  line.Line({10, 10}, {90, 70}, 2, kBlack);
  EXPECT_NEAR(Painted(std::move(line).image()), 200, 4);
}

TEST(CanvasTest, ClipsShapesToTheImage) {
  Canvas canvas(10, 10);
  canvas.Circle({0, 0}, 5, kBlack);
  canvas.Polygon(Rectangle({1000, -1000}, -3, 3, -3, 3, 1), kBlack);
  canvas.Line({-50, 5}, {-20, 5}, 3, kBlack);
  EXPECT_NEAR(Painted(std::move(canvas).image()), 19.6, 0.5);  // a quarter of the circle
}

}  // namespace
}  // namespace ding
