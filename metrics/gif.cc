#include "ding_worker/metrics/gif.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "gif_lib.h"

namespace ding {
namespace {

constexpr int kMaxSide = 65535;
constexpr int kMaxColors = 256;
// The levels of red, green and blue in the palette of pictures with too many colours.
constexpr std::array<int, 3> kLevels = {6, 7, 6};

// The colour table of a picture.
using Palette = std::vector<GifColorType>;

// Makes a palette of the picture's colours; returns false if there are too many.
bool ExactPalette(const Image& picture, Palette* palette, std::vector<uint8_t>* pixels) {
  absl::flat_hash_map<uint32_t, uint8_t> places;
  uint32_t last = ~0u;  // neighbours mostly have equal colours
  uint8_t place = 0;
  for (size_t i = 0; i < pixels->size(); ++i) {
    const uint8_t* const rgb = picture.rgb.data() + 3 * i;
    const uint32_t color = rgb[0] << 16 | rgb[1] << 8 | rgb[2];
    if (color != last) {
      const auto [it, is_new] = places.try_emplace(color, static_cast<uint8_t>(places.size()));
      if (is_new) {
        if (palette->size() == kMaxColors) return false;
        palette->push_back({rgb[0], rgb[1], rgb[2]});
      }
      last = color;
      place = it->second;
    }
    (*pixels)[i] = place;
  }
  return true;
}

int NearestLevel(uint8_t value, int levels) { return (value * (levels - 1) + 127) / 255; }

void CubePalette(const Image& picture, Palette* palette, std::vector<uint8_t>* pixels) {
  palette->clear();
  const auto value = [](int level, int levels) {
    return static_cast<GifByteType>(255 * level / (levels - 1));
  };
  for (int red = 0; red < kLevels[0]; ++red) {
    for (int green = 0; green < kLevels[1]; ++green) {
      for (int blue = 0; blue < kLevels[2]; ++blue) {
        palette->push_back(
            {value(red, kLevels[0]), value(green, kLevels[1]), value(blue, kLevels[2])});
      }
    }
  }
  for (size_t i = 0; i < pixels->size(); ++i) {
    const uint8_t* const rgb = picture.rgb.data() + 3 * i;
    const int red = NearestLevel(rgb[0], kLevels[0]);
    const int green = NearestLevel(rgb[1], kLevels[1]);
    const int blue = NearestLevel(rgb[2], kLevels[2]);
    (*pixels)[i] = static_cast<uint8_t>((red * kLevels[1] + green) * kLevels[2] + blue);
  }
}

constexpr char kLastDelay = 100;  // hundredths of a second; no picture stays longer
// The extension before a picture ends with its time, of 2 bytes, the transparent color, and a 0.
constexpr size_t kDelayFromEnd = 4;

int AppendTo(GifFileType* gif, const GifByteType* bytes, int count) {
  static_cast<std::string*>(gif->UserData)
      ->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
  return count;
}

absl::Status GifError(int error) {
  const char* const text = GifErrorString(error);
  return absl::InternalError(
      absl::StrCat("GIF: ", text == nullptr ? absl::StrCat("error ", error) : std::string(text)));
}

}  // namespace

struct GifEncoder::File {
  explicit File(GifFileType* opened) : gif(opened) {}
  ~File() {
    int error = 0;
    if (gif != nullptr) EGifCloseFile(gif, &error);
  }
  GifFileType* gif;
};

GifEncoder::GifEncoder(int frames_per_second)
    : frames_per_second_(std::min(std::max(frames_per_second, 1), 100)),
      bytes_(std::make_unique<std::string>()) {}
GifEncoder::GifEncoder(GifEncoder&&) noexcept = default;
// Closes the file first, because it writes its end to the bytes.
GifEncoder::~GifEncoder() { file_.reset(); }

absl::Status GifEncoder::AddFrame(const Image& picture) {
  DING_RETURN_IF_ERROR(CheckVideoFrame("GIF", *this, picture, kMaxSide));
  const size_t pixels = static_cast<size_t>(picture.width) * static_cast<size_t>(picture.height);
  if (frames_ == 0) DING_RETURN_IF_ERROR(Open(picture));
  pixels_.resize(pixels);
  Palette palette;
  if (!ExactPalette(picture, &palette, &pixels_)) CubePalette(picture, &palette, &pixels_);
  // The format requires a power of two, at least 2.
  size_t size = 2;
  while (size < palette.size()) size *= 2;
  palette.resize(size);

  GifFileType* const gif = file_->gif;
  GraphicsControlBlock control = {};
  control.DisposalMode = DISPOSE_DO_NOT;
  control.DelayTime = 100 / frames_per_second_;
  control.TransparentColor = NO_TRANSPARENT_COLOR;
  GifByteType extension[4];
  EGifGCBToExtension(&control, extension);
  ColorMapObject* const map = GifMakeMapObject(static_cast<int>(size), palette.data());
  if (map == nullptr) return absl::ResourceExhaustedError("GIF: no memory for a colour table");
  bool written =
      EGifPutExtension(gif, GRAPHICS_EXT_FUNC_CODE, sizeof(extension), extension) == GIF_OK;
  delay_at_ = bytes_->size() - kDelayFromEnd;
  written = written && EGifPutImageDesc(gif, 0, 0, width_, height_, false, map) == GIF_OK;
  GifFreeMapObject(map);
  for (int row = 0; written && row < height_; ++row) {
    written =
        EGifPutLine(gif, pixels_.data() + static_cast<ptrdiff_t>(row) * width_, width_) == GIF_OK;
  }
  if (!written) return GifError(gif->Error);
  ++frames_;
  return absl::OkStatus();
}

absl::Status GifEncoder::Open(const Image& picture) {
  int error = 0;
  file_.reset();
  bytes_->clear();
  file_ = std::make_unique<File>(EGifOpen(bytes_.get(), AppendTo, &error));
  GifFileType* const gif = file_->gif;
  if (gif == nullptr) return GifError(error);
  EGifSetGifVersion(gif, true);
  width_ = picture.width;
  height_ = picture.height;
  // Repeats without end.
  GifByteType loop[3] = {1, 0, 0};
  const bool written = EGifPutScreenDesc(gif, width_, height_, 8, 0, nullptr) == GIF_OK &&
                       EGifPutExtensionLeader(gif, APPLICATION_EXT_FUNC_CODE) == GIF_OK &&
                       EGifPutExtensionBlock(gif, 11, "NETSCAPE2.0") == GIF_OK &&
                       EGifPutExtensionBlock(gif, sizeof(loop), loop) == GIF_OK &&
                       EGifPutExtensionTrailer(gif) == GIF_OK;
  return written ? absl::OkStatus() : GifError(gif->Error);
}

absl::StatusOr<std::string> GifEncoder::Finish() {
  if (frames_ == 0) return absl::FailedPreconditionError("GIF: no picture was added");
  int error = 0;
  const bool closed = EGifCloseFile(std::exchange(file_->gif, nullptr), &error) == GIF_OK;
  if (!closed) return GifError(error);
  (*bytes_)[delay_at_] = kLastDelay;
  return std::move(*bytes_);
}

}  // namespace ding
