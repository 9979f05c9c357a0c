#include "ding_worker/metrics/mp4.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/image.h"
#include "ding_worker/metrics/video.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

extern "C" {
#include "libavcodec/avcodec.h"
#include "libavformat/avformat.h"
}

namespace ding {
namespace {

// A grey picture whose right half is darker by `step`, the number of the picture.
Image Picture(int width, int height, int step) {
  Image picture;
  picture.width = width;
  picture.height = height;
  for (int i = 0; i < width * height; ++i) {
    const int value = i % width < width / 2 ? 200 : 200 - 10 * step;
    for (int channel = 0; channel < 3; ++channel) {
      picture.rgb.push_back(static_cast<uint8_t>(value));
    }
  }
  return picture;
}

std::string Encode(int width, int height, int frames) {
  Mp4Encoder video(/*frames_per_second=*/25);
  for (int i = 0; i < frames; ++i) {
    EXPECT_THAT(video.AddFrame(Picture(width, height, i)), IsOk());
  }
  EXPECT_EQ(video.frames(), frames);
  EXPECT_EQ(video.width(), width);
  EXPECT_EQ(video.height(), height);
  return video.Finish().value();
}

// The luma of the picture's left and right half in each frame of the file.
struct Decoded {
  int width = 0;
  int height = 0;
  double seconds = 0;
  std::vector<int> left;
  std::vector<int> right;
  // The farthest of a colour difference from that of grey, 128.
  int most_colour = 0;
};

Decoded Decode(const std::string& bytes) {
  const std::string path = JoinPath(testing::TempDir(), "mp4_test.mp4");
  EXPECT_THAT(WriteFileAtomically(path, bytes), IsOk());
  Decoded decoded;
  AVFormatContext* format = nullptr;
  EXPECT_EQ(avformat_open_input(&format, path.c_str(), nullptr, nullptr), 0);
  EXPECT_GE(avformat_find_stream_info(format, nullptr), 0);
  EXPECT_EQ(format->nb_streams, 1u);
  decoded.seconds = static_cast<double>(format->duration) / AV_TIME_BASE;
  const AVCodecParameters& parameters = *format->streams[0]->codecpar;
  AVCodecContext* codec = avcodec_alloc_context3(avcodec_find_decoder(parameters.codec_id));
  EXPECT_GE(avcodec_parameters_to_context(codec, &parameters), 0);
  EXPECT_EQ(avcodec_open2(codec, nullptr, nullptr), 0);
  AVPacket* packet = av_packet_alloc();
  AVFrame* frame = av_frame_alloc();
  const auto receive = [&] {
    while (avcodec_receive_frame(codec, frame) == 0) {
      decoded.width = frame->width;
      decoded.height = frame->height;
      const uint8_t* const row = frame->data[0] + frame->linesize[0] * (frame->height / 2);
      decoded.left.push_back(row[1]);
      decoded.right.push_back(row[frame->width - 1]);
      for (const int plane : {1, 2}) {
        for (int i = 0; i < frame->height / 2 * frame->linesize[plane]; ++i) {
          if (i % frame->linesize[plane] >= frame->width / 2) continue;
          const int colour = std::abs(frame->data[plane][i] - 128);
          decoded.most_colour = std::max(decoded.most_colour, colour);
        }
      }
    }
  };
  while (av_read_frame(format, packet) == 0) {
    EXPECT_EQ(avcodec_send_packet(codec, packet), 0);
    av_packet_unref(packet);
    receive();
  }
  avcodec_send_packet(codec, nullptr);
  receive();
  av_frame_free(&frame);
  av_packet_free(&packet);
  avcodec_free_context(&codec);
  avformat_close_input(&format);
  return decoded;
}

TEST(Mp4Test, APlayerSeesThePictures) {
  const Decoded decoded = Decode(Encode(64, 48, 15));
  EXPECT_EQ(decoded.width, 64);
  EXPECT_EQ(decoded.height, 48);
  EXPECT_NEAR(decoded.seconds, 15 / 25.0, 0.001);
  ASSERT_EQ(decoded.left.size(), 15u);
  for (int i = 0; i < 15; ++i) {
    // Grey v is luma 16 + 219 v / 255.
    EXPECT_NEAR(decoded.left[i], 16 + 219 * 200 / 255, 4) << i;
    EXPECT_NEAR(decoded.right[i], 16 + 219 * (200 - 10 * i) / 255, 4) << i;
  }
}

TEST(Mp4Test, OddSidesBecomeEven) {
  for (const int width : {33, 45, 59, 500}) {
    const Decoded decoded = Decode(Encode(width, 21, 3));
    EXPECT_EQ(decoded.width, width + width % 2);
    EXPECT_EQ(decoded.height, 22);
    ASSERT_EQ(decoded.right.size(), 3u);
    // To the edge: conversions of colours work in blocks.
    EXPECT_NEAR(decoded.right[0], 16 + 219 * 200 / 255, 4) << width;
    EXPECT_LE(decoded.most_colour, 4) << width;
  }
}

TEST(Mp4Test, EqualPicturesGiveEqualBytes) { EXPECT_EQ(Encode(64, 48, 9), Encode(64, 48, 9)); }

TEST(Mp4Test, RefusesInvalidPictures) {
  Mp4Encoder video(25);
  EXPECT_THAT(video.Finish(), IsFailedPrecondition());
  EXPECT_THAT(video.AddFrame(Image()), IsInvalid("MP4: a picture of 0 x 0"));
  ASSERT_THAT(video.AddFrame(Picture(16, 16, 0)), IsOk());
  EXPECT_THAT(video.AddFrame(Picture(16, 18, 0)), IsInvalid("expected 16 x 16"));
  EXPECT_THAT(video.Finish(), IsOk());
}

TEST(Mp4Test, CanBeLeftUnfinished) {
  Mp4Encoder video(25);
  ASSERT_THAT(video.AddFrame(Picture(16, 16, 0)), IsOk());
}

TEST(Mp4Test, IsRegisteredByTheEndingOfItsFiles) {
  DING_ASSERT_OK_AND_ASSIGN(const VideoEncoderFactory make, VideoFormatRegistry().Find("mp4"));
  const std::unique_ptr<VideoEncoder> video = make(30);
  EXPECT_THAT(video->AddFrame(Picture(16, 16, 0)), IsOk());
}

}  // namespace
}  // namespace ding
