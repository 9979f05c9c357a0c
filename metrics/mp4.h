// Encodes an MP4 in memory, picture by picture, with the libraries of FFmpeg: H.264 where they have
// an encoder for it, else MPEG-4 part 2. Equal pictures give equal bytes.
//
// The colours are BT.601 with half the resolution (yuv420p), which every player reads. This needs
// even sides: a picture with an odd side gets a copy of its last column or row.
//
// Ownership: an Mp4Encoder owns its bytes until Finish().   Threads: thread-compatible.
//
// Example: as VideoEncoder (metrics/video.h).
#ifndef DING_WORKER_METRICS_MP4_H_
#define DING_WORKER_METRICS_MP4_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/image.h"
#include "ding_worker/metrics/video.h"

namespace ding {

class Mp4Encoder : public VideoEncoder {
 public:
  // `frames_per_second` is 1 to 1000.
  explicit Mp4Encoder(int frames_per_second);
  ~Mp4Encoder() override;

  // Sides may be up to 16384, the limit of H.264. kUnimplemented: the libraries have no encoder for
  // such a picture.
  absl::Status AddFrame(const Image& picture) override;
  int64_t frames() const override { return frames_; }
  int width() const override { return width_; }
  int height() const override { return height_; }
  absl::StatusOr<std::string> Finish() override;

 private:
  struct File;

  absl::Status Open(const Image& picture);
  absl::Status OpenCodec();
  absl::Status OpenFile();
  // Encodes the current frame, or with `flush` the encoder's remaining frames, and writes it.
  absl::Status Encode(bool flush);

  const int frames_per_second_;
  int64_t frames_ = 0;
  int width_ = 0;
  int height_ = 0;
  std::unique_ptr<File> file_;
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_MP4_H_
