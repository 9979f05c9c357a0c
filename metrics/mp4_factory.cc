// Registers the video format "mp4".
#include <memory>

#include "ding_worker/base/registry.h"
#include "ding_worker/metrics/mp4.h"
#include "ding_worker/metrics/video.h"

namespace ding {
namespace {

DING_REGISTER(
    VideoFormatRegistry(), "mp4",
    [](int frames_per_second) -> std::unique_ptr<VideoEncoder> {
      return std::make_unique<Mp4Encoder>(frames_per_second);
    },
    "H.264 in MP4, by the libraries of FFmpeg");

}  // namespace
}  // namespace ding
