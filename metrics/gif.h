// Encodes an animated GIF in memory, picture by picture.
//
// Pictures with up to 256 colours, as most envs of this project draw them, are kept exactly. In
// other pictures, such as those of MuJoCo, similar colours are merged. Each picture has its own
// colour table. The last picture stays for a second, so that the viewer sees the film restart.
//
// Ownership: a GifEncoder owns its bytes until Finish().   Threads: thread-compatible.
//
// Example:
//   GifEncoder gif(/*frames_per_second=*/30);
//   for (const Image& picture : pictures) DING_RETURN_IF_ERROR(gif.AddFrame(picture));
//   DING_ASSIGN_OR_RETURN(const std::string bytes, gif.Finish());
#ifndef DING_WORKER_METRICS_GIF_H_
#define DING_WORKER_METRICS_GIF_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/image.h"
#include "ding_worker/metrics/video.h"

namespace ding {

class GifEncoder : public VideoEncoder {
 public:
  // `frames_per_second` is 1 to 100, since the format counts in hundredths of a second.
  explicit GifEncoder(int frames_per_second);
  GifEncoder(GifEncoder&&) noexcept;
  ~GifEncoder() override;

  // Sides may be up to 65535.
  absl::Status AddFrame(const Image& picture) override;

  int64_t frames() const override { return frames_; }
  int width() const override { return width_; }
  int height() const override { return height_; }
  // Returns the number of bytes so far.
  int64_t size_bytes() const { return static_cast<int64_t>(bytes_->size()); }

  absl::StatusOr<std::string> Finish() override;

 private:
  struct File;

  // An error after Finish().
  absl::Status CheckOpen() const;
  absl::Status Open(const Image& picture);

  int frames_per_second_;
  int64_t frames_ = 0;
  int width_ = 0;
  int height_ = 0;
  std::unique_ptr<std::string> bytes_;  // on the heap, because the file keeps its address
  std::unique_ptr<File> file_;
  size_t delay_at_ = 0;          // where the time of the last picture is in bytes_
  std::vector<uint8_t> pixels_;  // the current picture, as indices of its colour table
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_GIF_H_
