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
constexpr size_t kMaxColors = 256;

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

// Colours of a picture that have the same upper 5 bits of red, green and blue.
struct Bin {
  size_t key = 0;
  double pixels = 0;
  std::array<double, 3> color = {};  // their mean
};

// Bins [begin, end) that get one colour. `gain` is the sum of the squares of the errors of `axis`,
// the worst one.
struct Box {
  size_t begin = 0;
  size_t end = 0;
  std::array<double, 3> mean = {};
  size_t axis = 0;
  double gain = 0;
};

Box MeasureBox(const std::vector<Bin>& bins, size_t begin, size_t end) {
  Box box{begin, end};
  double pixels = 0;
  std::array<double, 3> squares = {};
  for (size_t i = begin; i < end; ++i) {
    pixels += bins[i].pixels;
    for (size_t c = 0; c < 3; ++c) box.mean[c] += bins[i].pixels * bins[i].color[c];
  }
  for (double& mean : box.mean) mean /= pixels;
  for (size_t i = begin; i < end; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      const double error = bins[i].color[c] - box.mean[c];
      squares[c] += bins[i].pixels * error * error;
    }
  }
  box.axis =
      static_cast<size_t>(std::max_element(squares.begin(), squares.end()) - squares.begin());
  box.gain = end - begin > 1 ? squares[box.axis] : 0;
  return box;
}

size_t KeyOf(const uint8_t* rgb) { return rgb[0] >> 3 << 10 | rgb[1] >> 3 << 5 | rgb[2] >> 3; }

std::vector<Bin> CountColors(const Image& picture, size_t pixels) {
  std::vector<Bin> all(size_t{1} << 15);
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t* const rgb = picture.rgb.data() + 3 * i;
    Bin& bin = all[KeyOf(rgb)];
    ++bin.pixels;
    for (size_t c = 0; c < 3; ++c) bin.color[c] += rgb[c];
  }
  std::vector<Bin> used;
  for (size_t key = 0; key < all.size(); ++key) {
    if (all[key].pixels == 0) continue;
    all[key].key = key;
    for (double& color : all[key].color) color /= all[key].pixels;
    used.push_back(all[key]);
  }
  return used;
}

// Makes a palette that fits the picture: divides its colours into boxes, always the one with the
// largest error at its mean.
void FittedPalette(const Image& picture, Palette* palette, std::vector<uint8_t>* pixels) {
  std::vector<Bin> bins = CountColors(picture, pixels->size());
  std::vector<Box> boxes = {MeasureBox(bins, 0, bins.size())};
  while (boxes.size() < kMaxColors) {
    const auto widest = std::max_element(
        boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.gain < b.gain; });
    const Box box = *widest;
    if (box.gain <= 0) break;
    const auto first = bins.begin() + static_cast<ptrdiff_t>(box.begin);
    const auto middle =
        std::partition(first, bins.begin() + static_cast<ptrdiff_t>(box.end),
                       [&](const Bin& bin) { return bin.color[box.axis] <= box.mean[box.axis]; });
    const size_t at = static_cast<size_t>(middle - bins.begin());
    if (at == box.begin || at == box.end) {  // Rounding: all colours are the same.
      widest->gain = 0;
      continue;
    }
    *widest = MeasureBox(bins, box.begin, at);
    boxes.push_back(MeasureBox(bins, at, box.end));
  }
  palette->clear();
  std::vector<uint8_t> places(size_t{1} << 15);
  for (const Box& box : boxes) {
    for (size_t i = box.begin; i < box.end; ++i) {
      places[bins[i].key] = static_cast<uint8_t>(palette->size());
    }
    const auto byte = [&box](size_t c) { return static_cast<GifByteType>(box.mean[c] + 0.5); };
    palette->push_back({byte(0), byte(1), byte(2)});
  }
  for (size_t i = 0; i < pixels->size(); ++i) {
    (*pixels)[i] = places[KeyOf(picture.rgb.data() + 3 * i)];
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
  DING_RETURN_IF_ERROR(CheckOpen());
  pixels_.resize(pixels);
  Palette palette;
  if (!ExactPalette(picture, &palette, &pixels_)) FittedPalette(picture, &palette, &pixels_);
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

absl::Status GifEncoder::CheckOpen() const {
  if (file_ != nullptr && file_->gif != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError("GIF: the file was finished already");
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
  DING_RETURN_IF_ERROR(CheckOpen());
  int error = 0;
  const bool closed = EGifCloseFile(std::exchange(file_->gif, nullptr), &error) == GIF_OK;
  if (!closed) return GifError(error);
  (*bytes_)[delay_at_] = kLastDelay;
  return std::move(*bytes_);
}

}  // namespace ding
