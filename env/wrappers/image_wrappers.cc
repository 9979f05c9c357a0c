// Registers the wrappers of images: grayscale, resize, crop, channels_first and frame_stack. Only
// frame_stack has a state: the frames that it shows.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/env_wrapper.h"
#include "ding_worker/env/wrappers/wrapper_specs.h"
#include "ding_worker/env/wrappers/wrappers.pb.h"

namespace ding {
namespace {

// The extents of an image, and how far apart its rows, pixels and channels are.
struct Extents {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  bool channels_first = false;

  int64_t row_step() const { return channels_first ? width : width * channels; }
  int64_t pixel_step() const { return channels_first ? 1 : channels; }
  int64_t channel_step() const { return channels_first ? height * width : 1; }
  Shape shape() const {
    return channels_first ? Shape{channels, height, width} : Shape{height, width, channels};
  }
};

bool IsChannelCount(int64_t count) { return count == 1 || count == 3 || count == 4; }

absl::StatusOr<Extents> ExtentsOf(const FieldSpec& field) {
  const Shape& shape = field.shape;
  const bool known = field.dtype == DType::kUint8 || field.dtype == DType::kFloat32;
  if (field.frame_stack_axis >= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "field '", field.name, "' stacks frames already: put this wrapper before 'frame_stack'"));
  }
  if (known && shape.size() == 3 && !field.is_discrete()) {
    if (IsChannelCount(shape[2])) return Extents{shape[0], shape[1], shape[2], false};
    if (IsChannelCount(shape[0])) return Extents{shape[1], shape[2], shape[0], true};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "field '", field.name, "' is ", field.DebugString(),
      ", expected an image: uint8 or float32 [height, width, channels] or [channels, height, "
      "width] with 1, 3 or 4 channels"));
}

// A wrapper that makes one image field out of another one, whose bounds are those of all elements.
class ImageWrapper : public EnvWrapper {
 public:
  // Writes the image `to`, of the type of `from`.
  using Change = std::function<void(const std::byte* from, std::byte* to)>;

  ImageWrapper(EnvSpec spec, int field, Change change)
      : EnvWrapper(std::move(spec), {true, false}), field_(field), change_(std::move(change)) {}

 protected:
  void Observe(const RowView& inner, const RowRef& obs, bool /*first*/) override {
    CopyOtherFields(inner, field_, obs);
    change_(inner.raw_field(field_), obs.raw_field(field_));
  }

 private:
  const int field_;
  const Change change_;
};

// Makes a wrapper whose field has the extents `to`; `change` is called with pointers of the type of
// the values.
template <typename Change>
absl::StatusOr<std::unique_ptr<EnvWrapper>> MakeImageWrapper(const EnvSpec& inner, int index,
                                                             const Extents& to, Change change) {
  FieldSpec field = inner.observation->field(index);
  field.shape = to.shape();
  if (field.low.size() > 1) {
    field.low = {*std::min_element(field.low.begin(), field.low.end())};
    field.high = {*std::max_element(field.high.begin(), field.high.end())};
  }
  const bool is_float = field.dtype == DType::kFloat32;
  DING_ASSIGN_OR_RETURN(EnvSpec spec, WithObsField(inner, index, std::move(field)));
  return std::make_unique<ImageWrapper>(
      std::move(spec), index, [is_float, change](const std::byte* from, std::byte* to) {
        if (is_float) {
          change(reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
        } else {
          change(reinterpret_cast<const uint8_t*>(from), reinterpret_cast<uint8_t*>(to));
        }
      });
}

void Store(float value, float* to) { *to = value; }
void Store(float value, uint8_t* to) { *to = static_cast<uint8_t>(value + 0.5f); }

// The luma of ITU-R BT.601. Bytes are added up as integers of 1/65536, which is faster than in
// floats, and rounded.
float Luma(float red, float green, float blue) {
  return 0.299f * red + 0.587f * green + 0.114f * blue;
}
uint8_t Luma(uint8_t red, uint8_t green, uint8_t blue) {
  return static_cast<uint8_t>((19595u * red + 38470u * green + 7471u * blue + 32768u) >> 16);
}

// The steps are compile-time constants so that the loop can be unrolled.
template <typename T>
void MakeGray(int64_t pixels, int64_t step, int64_t pixel_step, const T* in, T* out) {
  const auto loop = [pixels, in, out](auto channel, auto pixel) {
    for (int64_t i = 0; i < pixels; ++i) {
      const T* const at = in + i * pixel;
      out[i] = Luma(at[0], at[channel], at[2 * channel]);
    }
  };
  if (pixel_step == 3) {
    loop(std::integral_constant<int64_t, 1>(), std::integral_constant<int64_t, 3>());
  } else {
    loop(step, std::integral_constant<int64_t, 1>());
  }
}

// From [pixels, channels] to [channels, pixels].
template <int64_t channels, typename T>
void MakePlanes(int64_t pixels, const T* in, T* out) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < pixels; ++i) out[c * pixels + i] = in[i * channels + c];
  }
}

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateGrayscale(const EnvWrapperConfig& /*config*/,
                                                            const GrayscaleConfig& params,
                                                            const EnvSpec& inner) {
  DING_ASSIGN_OR_RETURN(const int index, FindObsField(inner, params.field()));
  DING_ASSIGN_OR_RETURN(const Extents from, ExtentsOf(inner.observation->field(index)));
  if (from.channels != 3) {
    return absl::InvalidArgumentError(absl::StrCat("field '", inner.observation->field(index).name,
                                                   "' has ", from.channels,
                                                   " channels, expected 3: red, green and blue"));
  }
  Extents to = from;
  to.channels = 1;
  return MakeImageWrapper(inner, index, to, [from](const auto* in, auto* out) {
    MakeGray(from.height * from.width, from.channel_step(), from.pixel_step(), in, out);
  });
}

// The pixels that an output pixel covers along one axis, and how much of each: weights sum to 1.
struct Cover {
  int64_t begin = 0;
  std::vector<float> weights;
};

std::vector<Cover> CoversOf(int64_t from, int64_t to) {
  std::vector<Cover> covers;
  const double size = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const double low = static_cast<double>(i) * size;
    const double high = std::min(static_cast<double>(from), low + size);
    Cover cover;
    cover.begin = std::min(from - 1, static_cast<int64_t>(low));
    for (int64_t k = cover.begin; k == cover.begin || static_cast<double>(k) < high - 1e-9; ++k) {
      const auto pixel = static_cast<double>(k);
      const double part = std::min(high, pixel + 1) - std::max(low, pixel);
      cover.weights.push_back(static_cast<float>(std::max(part, 0.0) / (high - low)));
    }
    covers.push_back(std::move(cover));
  }
  return covers;
}

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateResize(const EnvWrapperConfig& /*config*/,
                                                         const ResizeConfig& params,
                                                         const EnvSpec& inner) {
  DING_ASSIGN_OR_RETURN(const int index, FindObsField(inner, params.field()));
  DING_ASSIGN_OR_RETURN(const Extents from, ExtentsOf(inner.observation->field(index)));
  Extents to = from;
  to.height = params.height();
  to.width = params.width();
  const std::vector<Cover> columns = CoversOf(from.width, to.width);
  const std::vector<Cover> rows = CoversOf(from.height, to.height);
  // First along the rows, then along the columns of what comes out of it.
  auto narrow =
      std::make_shared<std::vector<float>>(static_cast<size_t>((from.height + 1) * to.width));
  return MakeImageWrapper(inner, index, to,
                          [from, to, columns, rows, narrow](const auto* in, auto* out) {
                            for (int64_t channel = 0; channel < from.channels; ++channel) {
                              const auto* const plane = in + channel * from.channel_step();
                              float* const middle = narrow->data();
                              for (int64_t y = 0; y < from.height; ++y) {
                                const auto* const row = plane + y * from.row_step();
                                for (int64_t x = 0; x < to.width; ++x) {
                                  const Cover& cover = columns[static_cast<size_t>(x)];
                                  float sum = 0;
                                  int64_t at = cover.begin * from.pixel_step();
                                  for (const float weight : cover.weights) {
                                    sum += weight * static_cast<float>(row[at]);
                                    at += from.pixel_step();
                                  }
                                  middle[y * to.width + x] = sum;
                                }
                              }
                              auto* const result = out + channel * to.channel_step();
                              float* const sums = middle + from.height * to.width;
                              for (int64_t y = 0; y < to.height; ++y) {
                                const Cover& cover = rows[static_cast<size_t>(y)];
                                std::fill_n(sums, to.width, 0.0f);
                                const float* at = middle + cover.begin * to.width;
                                for (const float weight : cover.weights) {
                                  for (int64_t x = 0; x < to.width; ++x) sums[x] += weight * at[x];
                                  at += to.width;
                                }
                                for (int64_t x = 0; x < to.width; ++x) {
                                  Store(sums[x], result + y * to.row_step() + x * to.pixel_step());
                                }
                              }
                            }
                          });
}

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateCrop(const EnvWrapperConfig& /*config*/,
                                                       const CropConfig& params,
                                                       const EnvSpec& inner) {
  DING_ASSIGN_OR_RETURN(const int index, FindObsField(inner, params.field()));
  DING_ASSIGN_OR_RETURN(const Extents from, ExtentsOf(inner.observation->field(index)));
  const int64_t left = params.left();
  const int64_t top = params.top();
  Extents to = from;
  to.width = params.width();
  to.height = params.height();
  if (left + to.width > from.width || top + to.height > from.height) {
    return absl::InvalidArgumentError(
        absl::StrCat("the part of ", to.width, " x ", to.height, " pixels from (", left, ", ", top,
                     ") on is not inside of the image of ", from.width, " x ", from.height));
  }
  return MakeImageWrapper(inner, index, to, [from, to, left, top](const auto* in, auto* out) {
    const int64_t planes = from.channels_first ? from.channels : 1;
    const int64_t from_row = from.row_step();
    const int64_t row = to.row_step();
    for (int64_t plane = 0; plane < planes; ++plane) {
      const auto* begin =
          in + plane * from.channel_step() + top * from_row + left * from.pixel_step();
      for (int64_t y = 0; y < to.height; ++y) {
        std::memcpy(out, begin, static_cast<size_t>(row) * sizeof(*out));
        begin += from_row;
        out += row;
      }
    }
  });
}

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateChannelsFirst(const EnvWrapperConfig& /*config*/,
                                                                const ChannelsFirstConfig& params,
                                                                const EnvSpec& inner) {
  DING_ASSIGN_OR_RETURN(const int index, FindObsField(inner, params.field()));
  DING_ASSIGN_OR_RETURN(const Extents from, ExtentsOf(inner.observation->field(index)));
  if (from.channels_first) {
    return absl::InvalidArgumentError(absl::StrCat(
        "field '", inner.observation->field(index).name, "' is ",
        inner.observation->field(index).DebugString(), ", which has its channels first already"));
  }
  Extents to = from;
  to.channels_first = true;
  return MakeImageWrapper(inner, index, to, [from](const auto* in, auto* out) {
    const int64_t pixels = from.height * from.width;
    if (from.channels == 1) {
      MakePlanes<1>(pixels, in, out);
    } else if (from.channels == 3) {
      MakePlanes<3>(pixels, in, out);
    } else {
      MakePlanes<4>(pixels, in, out);
    }
  });
}

class FrameStack : public EnvWrapper {
 public:
  FrameStack(EnvSpec spec, int field, int count, int64_t frame_bytes)
      : EnvWrapper(std::move(spec), {true, false}),
        field_(field),
        count_(static_cast<size_t>(count)),
        frame_bytes_(static_cast<size_t>(frame_bytes)),
        frames_(count_ * frame_bytes_) {}

  // "frames": those of the last observation, the oldest first.
  absl::Status SaveState(StateWriter* writer) const override {
    std::string frames(frames_.size(), 0);
    CopyFrames(frames.data());
    return writer->WriteString("frames", frames);
  }
  absl::Status LoadState(StateReader* reader) override {
    oldest_ = 0;
    return reader->ReadSpan<uint8_t>(
        "frames", absl::MakeSpan(reinterpret_cast<uint8_t*>(frames_.data()), frames_.size()));
  }

 protected:
  void Observe(const RowView& inner, const RowRef& obs, bool first) override {
    CopyOtherFields(inner, field_, obs);
    const std::byte* const frame = inner.raw_field(field_);
    for (size_t i = 0; i < (first ? count_ : 1); ++i) {
      std::memcpy(frames_.data() + oldest_ * frame_bytes_, frame, frame_bytes_);
      oldest_ = (oldest_ + 1) % count_;
    }
    CopyFrames(reinterpret_cast<char*>(obs.raw_field(field_)));
  }

 private:
  // Copies all frames, the oldest first.
  void CopyFrames(char* to) const {
    const size_t begin = oldest_ * frame_bytes_;
    std::memcpy(to, frames_.data() + begin, frames_.size() - begin);
    std::memcpy(to + frames_.size() - begin, frames_.data(), begin);
  }

  const int field_;
  const size_t count_;
  const size_t frame_bytes_;
  std::vector<char> frames_;  // a ring
  size_t oldest_ = 0;
};

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateFrameStack(const EnvWrapperConfig& /*config*/,
                                                             const FrameStackConfig& params,
                                                             const EnvSpec& inner) {
  DING_ASSIGN_OR_RETURN(const int index, FindObsField(inner, params.field()));
  FieldSpec field = inner.observation->field(index);
  if (field.frame_stack_axis >= 0 || field.is_discrete() || field.shape.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("field '", field.name, "' is ", field.DebugString(),
                     field.frame_stack_axis >= 0 ? " and stacks frames already" : "",
                     ", expected numbers of at least one dimension"));
  }
  if (field.shape.size() == 3 && IsChannelCount(field.shape[2]) &&
      !IsChannelCount(field.shape[0])) {
    return absl::InvalidArgumentError(
        absl::StrCat("field '", field.name, "' is ", field.DebugString(),
                     ", expected [channels, height, width]: put 'channels_first' before"));
  }
  const int64_t frame_bytes = field.row_bytes();
  if (field.shape.size() == 2) field.shape.insert(field.shape.begin(), 1);  // one channel
  const auto repeat = [&](std::vector<double>* bounds) {
    const std::vector<double> once = *bounds;
    for (int i = 1; i < params.count() && once.size() > 1; ++i) {
      bounds->insert(bounds->end(), once.begin(), once.end());
    }
  };
  repeat(&field.low);
  repeat(&field.high);
  // A picture of one channel becomes a channel of the stack. Of others the first axis gets longer,
  // too, which a buffer takes for one frame only if it had the extent 1.
  if (field.shape[0] == 1) field.frame_stack_axis = 0;
  field.shape[0] *= params.count();
  DING_ASSIGN_OR_RETURN(EnvSpec spec, WithObsField(inner, index, std::move(field)));
  return std::make_unique<FrameStack>(std::move(spec), index, params.count(), frame_bytes);
}

DING_REGISTER(EnvWrapperRegistry(), "grayscale", CreateGrayscale,
              "makes one channel of red, green and blue");
DING_REGISTER(EnvWrapperRegistry(), "resize", CreateResize,
              "resizes an image: each pixel is the mean of its area");
DING_REGISTER(EnvWrapperRegistry(), "crop", CreateCrop, "cuts a rectangle out of an image");
DING_REGISTER(EnvWrapperRegistry(), "channels_first", CreateChannelsFirst,
              "turns [height, width, channels] into [channels, height, width]");
DING_REGISTER(EnvWrapperRegistry(), "frame_stack", CreateFrameStack,
              "shows the last `count` observations, which a buffer stores once each");

}  // namespace
}  // namespace ding
