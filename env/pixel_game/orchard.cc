#include "ding_worker/env/pixel_game/orchard.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {
namespace {

constexpr int kPieces = kOrchardRipe + kOrchardRotten;
constexpr int kPixels = kOrchardSize * kOrchardSize;
constexpr uint8_t kBasket = 170;
constexpr uint8_t kRipe = 255;
constexpr uint8_t kRotten = 85;

using Picture = std::array<uint8_t, kPixels>;

struct Piece {
  int column = 0;
  bool ripe = false;
};
using Pieces = std::array<Piece, kPieces>;

Pieces DrawPieces(uint64_t seed) {
  Rng rng(seed, "orchard/pieces");
  Pieces pieces;
  int ripe_left = kOrchardRipe;
  for (int i = 0; i < kPieces; ++i) {
    // This draws uniformly from all orders.
    pieces[i].ripe =
        rng.UniformInt(static_cast<uint64_t>(kPieces - i)) < static_cast<uint64_t>(ripe_left);
    ripe_left -= pieces[i].ripe;
    const int low = i == 0 ? 0 : std::max(0, pieces[i - 1].column - kOrchardMaxShift);
    const int high = i == 0 ? kOrchardSize - 1
                            : std::min(kOrchardSize - 1, pieces[i - 1].column + kOrchardMaxShift);
    pieces[i].column =
        low + static_cast<int>(rng.UniformInt(static_cast<uint64_t>(high - low + 1)));
  }
  return pieces;
}

// The row of piece `index` after `steps` steps; the piece is visible in rows 0 to kOrchardSize - 1.
int RowOf(int index, int steps) { return steps - kOrchardPeriod * index; }

Picture Draw(const Pieces& pieces, int steps, int basket) {
  Picture picture{};
  for (int i = 0; i < kPieces; ++i) {
    const int row = RowOf(i, steps);
    if (row < 0 || row >= kOrchardSize) continue;
    picture[static_cast<size_t>(kOrchardSize * row + pieces[i].column)] =
        pieces[i].ripe ? kRipe : kRotten;
  }
  picture[static_cast<size_t>(kOrchardSize * (kOrchardSize - 1) + basket)] = kBasket;
  return picture;
}

class Orchard final : public Env {
 public:
  Orchard(EnvSpec spec, int frames) : spec_(std::move(spec)), frames_(frames) {}

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    if (!start.params.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(spec_.name, " takes no parameters, got '",
                                                     start.params.begin()->first, "'"));
    }
    seed_ = start.seed;
    pieces_ = DrawPieces(seed_);
    steps_ = 0;
    baskets_.fill(static_cast<int>(Rng(seed_, "orchard/basket").UniformInt(kOrchardSize)));
    Show(obs);
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    if (steps_ == kOrchardLength) {
      return absl::FailedPreconditionError("Step() without a running episode; call Reset() first");
    }
    const int shift = static_cast<int>(action.scalar<int64_t>(0)) - 1;
    const int basket = std::clamp(baskets_[0] + shift, 0, kOrchardSize - 1);
    std::copy_backward(baskets_.begin(), baskets_.end() - 1, baskets_.end());
    baskets_[0] = basket;
    ++steps_;
    for (int i = 0; i < kPieces; ++i) {
      if (RowOf(i, steps_) != kOrchardSize - 1 || pieces_[i].column != basket) continue;
      result->reward = pieces_[i].ripe ? 1 : -1;
    }
    Show(obs);
    result->terminated = steps_ == kOrchardLength;
    return absl::OkStatus();
  }

  // Saves "seed" of the episode, "steps" so far, and "baskets", the columns of the basket, newest
  // first.
  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteInt("seed", static_cast<int64_t>(seed_)));
    DING_RETURN_IF_ERROR(writer->WriteInt("steps", steps_));
    return writer->WriteSpan<int32_t>("baskets", baskets_);
  }

  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(const int64_t seed, reader->ReadInt("seed"));
    DING_ASSIGN_OR_RETURN(const int64_t steps, reader->ReadInt("steps"));
    std::array<int32_t, kMaxFrames> baskets;
    DING_RETURN_IF_ERROR(reader->ReadSpan<int32_t>("baskets", absl::MakeSpan(baskets)));
    if (steps < 0 || steps > kOrchardLength) {
      return absl::InvalidArgumentError(
          absl::StrCat("saved 'steps' is ", steps, ", expected 0..", kOrchardLength));
    }
    for (const int32_t column : baskets) {
      if (column >= 0 && column < kOrchardSize) continue;
      return absl::InvalidArgumentError(absl::StrCat("saved 'baskets' contains column ", column,
                                                     ", expected 0..", kOrchardSize - 1));
    }
    seed_ = static_cast<uint64_t>(seed);
    pieces_ = DrawPieces(seed_);
    steps_ = static_cast<int>(steps);
    baskets_ = baskets;
    return absl::OkStatus();
  }

  // Draws the newest picture, enlarged.
  absl::StatusOr<Image> Render() override {
    constexpr int kScale = 20;
    const Picture picture = Draw(pieces_, steps_, baskets_[0]);
    Image image;
    image.width = image.height = kOrchardSize * kScale;
    image.rgb.reserve(static_cast<size_t>(image.width * image.height) * 3);
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        const auto pixel = static_cast<size_t>(y / kScale * kOrchardSize + x / kScale);
        image.rgb.insert(image.rgb.end(), 3, picture[pixel]);
      }
    }
    return image;
  }

 private:
  static constexpr int kMaxFrames = 4;

  // A picture is a function of the step and the basket's column, so no frames are kept.
  void Show(const RowRef& obs) const {
    const absl::Span<uint8_t> pixels = obs.field<uint8_t>(0);
    for (int age = 0; age < frames_; ++age) {
      const Picture picture =
          Draw(pieces_, std::max(0, steps_ - age), baskets_[static_cast<size_t>(age)]);
      const auto place = static_cast<size_t>(kPixels * (frames_ - 1 - age));
      std::copy(picture.begin(), picture.end(), pixels.begin() + static_cast<ptrdiff_t>(place));
    }
  }

  const EnvSpec spec_;
  const int frames_;
  uint64_t seed_ = 0;
  Pieces pieces_{};
  int steps_ = kOrchardLength;  // no episode
  std::array<int32_t, kMaxFrames> baskets_{};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Env>> CreateOrchard(absl::string_view name, int frames) {
  if (frames != 1 && frames != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("env '", name, "': ", frames, " frames, expected 1 or 4"));
  }
  FieldSpec image = Scalar("obs", DType::kUint8);
  image.shape = {frames, kOrchardSize, kOrchardSize};
  image.low = {0};
  image.high = {255};
  if (frames > 1) image.frame_stack_axis = 0;
  EnvSpec spec;
  spec.name = std::string(name);
  DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({image}));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", 3)}));
  spec.reward_low = -1;
  spec.reward_high = 1;
  spec.max_episode_steps = kOrchardLength;
  return std::make_unique<Orchard>(std::move(spec), frames);
}

}  // namespace ding
