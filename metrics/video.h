// Encodes the pictures of an episode as the bytes of a video file. Formats are registered by the
// ending of their files: "gif" (metrics/gif.h) is in every program that needs videos, "mp4"
// (metrics/mp4.h) in programs that link it.
//
// Ownership: an encoder owns its bytes until Finish().   Threads: thread-compatible.
//
// Example:
//   DING_ASSIGN_OR_RETURN(const std::unique_ptr<VideoEncoder> video,
//                         MakeVideoEncoder("gif", /*frames_per_second=*/30));
//   for (const Image& picture : pictures) DING_RETURN_IF_ERROR(video->AddFrame(picture));
//   DING_ASSIGN_OR_RETURN(const std::string bytes, video->Finish());
#ifndef DING_WORKER_METRICS_VIDEO_H_
#define DING_WORKER_METRICS_VIDEO_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/data/image.h"

namespace ding {

class VideoEncoder {
 public:
  virtual ~VideoEncoder() = default;

  // kInvalidArgument if the picture is empty or too large for the format, has a wrong number of
  // bytes, or another size than the first picture.
  virtual absl::Status AddFrame(const Image& picture) = 0;

  virtual int64_t frames() const = 0;
  // The size of the first picture; 0 without one.
  virtual int width() const = 0;
  virtual int height() const = 0;

  // Returns the file. Afterwards the encoder must not be used. kFailedPrecondition without a
  // picture.
  virtual absl::StatusOr<std::string> Finish() = 0;
};

// Does the checks of AddFrame() for an encoder that takes sides of up to `max_side`. Messages begin
// with `format`.
absl::Status CheckVideoFrame(absl::string_view format, const VideoEncoder& video,
                             const Image& picture, int max_side);

using VideoEncoderFactory = std::function<std::unique_ptr<VideoEncoder>(int frames_per_second)>;
Registry<VideoEncoderFactory>& VideoFormatRegistry();

// Makes an encoder of the format that is registered by this name.
//   kNotFound  the format is not linked; lists the linked formats
//   kInternal  its factory threw an exception, or returned null
absl::StatusOr<std::unique_ptr<VideoEncoder>> MakeVideoEncoder(absl::string_view format,
                                                               int frames_per_second);

}  // namespace ding

#endif  // DING_WORKER_METRICS_VIDEO_H_
