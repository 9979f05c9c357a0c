#include "ding_worker/metrics/gif.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/image.h"
#include "gif_lib.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

Image Picture(int width, int height) {
  Image picture;
  picture.width = width;
  picture.height = height;
  picture.rgb.resize(static_cast<size_t>(3 * width * height));
  return picture;
}

// A picture of stripes in `colors` colours, which begin at `first`.
Image Stripes(int width, int height, int colors, int first) {
  Image picture = Picture(width, height);
  for (int i = 0; i < width * height; ++i) {
    const int color = first + i % colors;
    picture.rgb[3 * i] = static_cast<uint8_t>(color);
    picture.rgb[3 * i + 1] = static_cast<uint8_t>(7 * color);
    picture.rgb[3 * i + 2] = static_cast<uint8_t>(color / 256);
  }
  return picture;
}

struct Source {
  const std::string* bytes;
  size_t position;
};

int ReadFrom(GifFileType* gif, GifByteType* to, int count) {
  auto* const source = static_cast<Source*>(gif->UserData);
  const size_t left = source->bytes->size() - source->position;
  const size_t read = std::min(left, static_cast<size_t>(count));
  std::memcpy(to, source->bytes->data() + source->position, read);
  source->position += read;
  return static_cast<int>(read);
}

struct Decoded {
  std::vector<Image> pictures;
  std::vector<int> delays;
};

Decoded Decode(const std::string& bytes) {
  Source source{&bytes, 0};
  int error = 0;
  GifFileType* const gif = DGifOpen(&source, ReadFrom, &error);
  EXPECT_NE(gif, nullptr) << error;
  Decoded decoded;
  if (gif == nullptr) return decoded;
  EXPECT_EQ(DGifSlurp(gif), GIF_OK) << gif->Error;
  EXPECT_EQ(source.position, bytes.size());
  for (int i = 0; i < gif->ImageCount; ++i) {
    const SavedImage& saved = gif->SavedImages[i];
    Image picture = Picture(saved.ImageDesc.Width, saved.ImageDesc.Height);
    for (int k = 0; k < picture.width * picture.height; ++k) {
      const GifColorType& color = saved.ImageDesc.ColorMap->Colors[saved.RasterBits[k]];
      picture.rgb[3 * k] = color.Red;
      picture.rgb[3 * k + 1] = color.Green;
      picture.rgb[3 * k + 2] = color.Blue;
    }
    decoded.pictures.push_back(std::move(picture));
    GraphicsControlBlock control;
    EXPECT_EQ(DGifSavedExtensionToGCB(gif, i, &control), GIF_OK);
    decoded.delays.push_back(control.DelayTime);
  }
  DGifCloseFile(gif, &error);
  return decoded;
}

TEST(GifTest, KeepsPicturesOfFewColoursExactly) {
  for (const int colors : {1, 2, 3, 17, 255, 256}) {
    GifEncoder gif(25);
    std::vector<Image> pictures;
    for (int i = 0; i < 3; ++i) pictures.push_back(Stripes(31, 17, colors, 40 * i));
    for (const Image& picture : pictures) ASSERT_THAT(gif.AddFrame(picture), IsOk());
    EXPECT_EQ(gif.frames(), 3);
    DING_ASSERT_OK_AND_ASSIGN(const std::string bytes, gif.Finish());
    const Decoded decoded = Decode(bytes);
    ASSERT_EQ(decoded.pictures.size(), 3u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(decoded.pictures[i].rgb, pictures[i].rgb) << colors;
    EXPECT_THAT(decoded.delays, testing::ElementsAre(4, 4, 100));
    EXPECT_THAT(bytes, HasSubstr("NETSCAPE2.0"));
  }
}

TEST(GifTest, ApproximatesPicturesOfManyColours) {
  GifEncoder gif(30);
  Image picture = Picture(64, 64);
  for (size_t i = 0; i < picture.rgb.size(); ++i) {
    picture.rgb[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
  }
  ASSERT_THAT(gif.AddFrame(picture), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string bytes, gif.Finish());
  const Decoded decoded = Decode(bytes);
  ASSERT_EQ(decoded.pictures.size(), 1u);
  int worst = 0;
  for (size_t i = 0; i < picture.rgb.size(); ++i) {
    worst = std::max(worst, std::abs(decoded.pictures[0].rgb[i] - picture.rgb[i]));
  }
  EXPECT_LE(worst, 51) << "of noise, whose colours are everywhere";
  EXPECT_GT(worst, 0);
}

// Tiles of two similar colours below a sky of many.
TEST(GifTest, KeepsSimilarColoursApartInPicturesOfMany) {
  Image picture = Picture(64, 64);
  const std::array<std::array<int, 3>, 2> tiles = {{{95, 122, 108}, {106, 133, 119}}};
  const auto expected = [&](size_t pixel, size_t channel) {
    const size_t row = pixel / 64;
    if (row < 32) return static_cast<int>(100 + row * 4 + channel * (pixel % 64 / 4));
    return tiles[(row / 8 + pixel % 64 / 8) % 2][channel];
  };
  for (size_t i = 0; i < picture.rgb.size(); ++i) {
    picture.rgb[i] = static_cast<uint8_t>(expected(i / 3, i % 3));
  }
  GifEncoder gif(30);
  ASSERT_THAT(gif.AddFrame(picture), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string bytes, gif.Finish());
  const Decoded decoded = Decode(bytes);
  for (size_t i = 0; i < picture.rgb.size(); ++i) {
    EXPECT_NEAR(decoded.pictures[0].rgb[i], expected(i / 3, i % 3), i / 3 / 64 < 32 ? 8 : 2) << i;
  }
}

TEST(GifTest, RefusesInvalidPictures) {
  GifEncoder gif(30);
  EXPECT_THAT(gif.Finish(), IsFailedPrecondition());
  EXPECT_THAT(gif.AddFrame(Image()), IsInvalid("0 x 0"));
  EXPECT_THAT(gif.AddFrame(Picture(70000, 1)), IsInvalid());
  Image torn = Picture(4, 4);
  torn.rgb.pop_back();
  EXPECT_THAT(gif.AddFrame(torn), IsInvalid("47 bytes"));
  ASSERT_THAT(gif.AddFrame(Picture(4, 4)), IsOk());
  EXPECT_THAT(gif.AddFrame(Picture(4, 5)), IsInvalid("expected 4 x 4"));
  DING_ASSERT_OK_AND_ASSIGN(const std::string bytes, gif.Finish());
  EXPECT_EQ(Decode(bytes).pictures.size(), 1u);
}

TEST(GifTest, CanBeMovedAndLeftUnfinished) {
  std::vector<GifEncoder> encoders;
  for (int i = 0; i < 5; ++i) {
    encoders.emplace_back(10);
    ASSERT_THAT(encoders.back().AddFrame(Stripes(8, 8, 4, i)), IsOk());
  }
  DING_ASSERT_OK_AND_ASSIGN(const std::string bytes, encoders[2].Finish());
  EXPECT_EQ(Decode(bytes).pictures[0].rgb, Stripes(8, 8, 4, 2).rgb);
}

}  // namespace
}  // namespace ding
