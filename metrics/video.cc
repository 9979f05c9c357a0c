#include "ding_worker/metrics/video.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::Status CheckVideoFrame(absl::string_view format, const VideoEncoder& video,
                             const Image& picture, int max_side) {
  const std::string size = absl::StrCat("a picture of ", picture.width, " x ", picture.height);
  if (picture.width < 1 || picture.height < 1 || picture.width > max_side ||
      picture.height > max_side) {
    return absl::InvalidArgumentError(
        absl::StrCat(format, ": ", size, ", expected 1 to ", max_side));
  }
  const size_t bytes = 3 * static_cast<size_t>(picture.width) * static_cast<size_t>(picture.height);
  if (picture.rgb.size() != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(format, ": ", picture.rgb.size(), " bytes of ", size, ", expected ", bytes));
  }
  if (video.frames() > 0 && (picture.width != video.width() || picture.height != video.height())) {
    return absl::InvalidArgumentError(absl::StrCat(format, ": ", size, ", expected ", video.width(),
                                                   " x ", video.height(),
                                                   ", the size of the first"));
  }
  return absl::OkStatus();
}

Registry<VideoEncoderFactory>& VideoFormatRegistry() {
  static auto* const registry = new Registry<VideoEncoderFactory>("video format");
  return *registry;
}

absl::StatusOr<std::unique_ptr<VideoEncoder>> MakeVideoEncoder(absl::string_view format,
                                                               int frames_per_second) {
  DING_ASSIGN_OR_RETURN(const VideoEncoderFactory make, VideoFormatRegistry().Find(format));
  return CallFactory(
      VideoFormatRegistry().kind(), format,
      [&]() -> absl::StatusOr<std::unique_ptr<VideoEncoder>> { return make(frames_per_second); });
}

}  // namespace ding
