// Makes an animated GIF of pictures, one after the other, in memory.
//
// Pictures with up to 256 colours (all of ours that are drawn) are kept exactly; of others each
// colour becomes the nearest of 6 x 7 x 6. Each picture has a colour table of its own.
//
// Ownership: a GifEncoder owns what it has written until Finish().   Threads: thread-compatible.
//
// Example:
//   GifEncoder gif(/*frames_per_second=*/30);
//   for (const Image& picture : pictures) DING_RETURN_IF_ERROR(gif.AddFrame(picture));
//   DING_ASSIGN_OR_RETURN(const std::string bytes, gif.Finish());
#ifndef DING_WORKER_METRICS_GIF_H_
#define DING_WORKER_METRICS_GIF_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/image.h"

namespace ding {

class GifEncoder {
 public:
  // Shown at this rate, from 1 to 100 (the format counts in hundredths of a second).
  explicit GifEncoder(int frames_per_second);
  GifEncoder(GifEncoder&&) noexcept;
  ~GifEncoder();

  // kInvalidArgument for a picture without pixels, of more than 65535 a side, whose bytes are not
  // those of its size, or of another size than the first.
  absl::Status AddFrame(const Image& picture);

  int64_t frames() const { return frames_; }
  int width() const { return width_; }
  int height() const { return height_; }
  // Bytes so far.
  int64_t size_bytes() const { return static_cast<int64_t>(bytes_->size()); }

  // The file. kFailedPrecondition without a picture. The encoder is used up.
  absl::StatusOr<std::string> Finish();

 private:
  struct File;

  absl::Status Open(const Image& picture);

  int frames_per_second_;
  int64_t frames_ = 0;
  int width_ = 0;
  int height_ = 0;
  std::unique_ptr<std::string> bytes_;  // in a place that does not move: the file writes there
  std::unique_ptr<File> file_;
  std::vector<uint8_t> pixels_;  // of the picture being added: places in its colour table
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_GIF_H_
