#include "ding_worker/env/box2d/walker_terrain.h"

#include <cstdint>
#include <utility>

namespace ding {
namespace {

enum class Kind { kGrass, kStump, kStairs, kPit };

// A rectangle from (x, y), `width` to the right and `height` up, or down if it is negative.
std::array<Point, 4> Block(double x, double y, double width, double height) {
  return {{{x, y}, {x + width, y}, {x + width, y + height}, {x, y + height}}};
}

// Walks along the ground and keeps what the next corner depends on.
class Builder {
 public:
  Builder(bool hardcore, Rng* rng) : hardcore_(hardcore), rng_(*rng) {}

  WalkerTerrain Build() {
    for (int i = 0; i < kTerrainLength; ++i) {
      if (begins_ && kind_ != Kind::kGrass) {
        Begin(i * kTerrainStep);
      } else if (!begins_) {
        GoOn(i);
      }
      begins_ = false;
      terrain_.heights.push_back(y_);
      if (--left_ == 0) Choose();
    }
    return std::move(terrain_);
  }

 private:
  // low <= result < high
  int Draw(int low, int high) {
    return low + static_cast<int>(rng_.UniformInt(static_cast<uint64_t>(high - low)));
  }
  void Add(double x, double y, double width, double height) {
    terrain_.obstacles.push_back(Block(x, y, width, height));
  }

  void Choose() {
    left_ = Draw(kTerrainGrass / 2, kTerrainGrass);
    kind_ = kind_ == Kind::kGrass && hardcore_ ? static_cast<Kind>(Draw(1, 4)) : Kind::kGrass;
    begins_ = true;
  }

  void Begin(double x) {
    switch (kind_) {
      case Kind::kGrass:
        break;
      case Kind::kStump:
        left_ = Draw(1, 3);
        Add(x, y_, left_ * kTerrainStep, left_ * kTerrainStep);
        break;
      case Kind::kStairs:
        rise_ = rng_.Uniform() > 0.5 ? 1 : -1;
        stairs_ = Draw(3, 5);
        before_ = y_;
        for (int s = 0; s < stairs_; ++s) {
          Add(x + s * kStairWidth * kTerrainStep, y_ + s * rise_ * kTerrainStep,
              kStairWidth * kTerrainStep, -kTerrainStep);
        }
        left_ = stairs_ * kStairWidth;
        break;
      case Kind::kPit:
        left_ = Draw(3, 5);
        Add(x, y_, kTerrainStep, -4 * kTerrainStep);
        Add(x + kTerrainStep * left_, y_, kTerrainStep, -4 * kTerrainStep);
        left_ += 2;
        before_ = y_;
        break;
    }
  }

  void GoOn(int corner) {
    switch (kind_) {
      case Kind::kGrass: {
        const double below = kTerrainHeight - y_;
        slope_ = 0.8 * slope_ + 0.01 * ((below > 0) - (below < 0));
        if (corner > kTerrainStartPad) slope_ += rng_.Uniform(-1, 1) / kBox2dScale;
        y_ += slope_;
        break;
      }
      case Kind::kStump:
        break;
      case Kind::kStairs: {
        const double done = stairs_ * kStairWidth - left_ - rise_;
        y_ = before_ + done / kStairWidth * rise_ * kTerrainStep;
        break;
      }
      case Kind::kPit:
        y_ = left_ > 1 ? before_ - 4 * kTerrainStep : before_;
        break;
    }
  }

  static constexpr int kStairWidth = 4;  // corners

  const bool hardcore_;
  Rng& rng_;
  WalkerTerrain terrain_;
  Kind kind_ = Kind::kGrass;
  bool begins_ = false;          // this corner is the first of its kind
  int left_ = kTerrainStartPad;  // corners of this kind
  double y_ = kTerrainHeight;
  double slope_ = 0;
  double before_ = 0;  // the height before the stairs or the pit
  int stairs_ = 0;
  int rise_ = 0;
};

}  // namespace

WalkerTerrain MakeWalkerTerrain(bool hardcore, Rng* rng) { return Builder(hardcore, rng).Build(); }

}  // namespace ding
