// Registers the video format "gif".
#include <memory>

#include "ding_worker/base/registry.h"
#include "ding_worker/metrics/gif.h"
#include "ding_worker/metrics/video.h"

namespace ding {
namespace {

DING_REGISTER(
    VideoFormatRegistry(), "gif",
    [](int frames_per_second) -> std::unique_ptr<VideoEncoder> {
      return std::make_unique<GifEncoder>(frames_per_second);
    },
    "animated GIF: repeats without end, any browser shows it");

}  // namespace
}  // namespace ding
