#include "ding_worker/env/box2d/bipedal_walker.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/box2d/box2d_env.h"
#include "ding_worker/env/box2d/world.h"
#include "ding_worker/env/classic_control/raster.h"

namespace ding {
namespace {

constexpr double kTorque = 80;
constexpr double kHipSpeed = 4;
constexpr double kKneeSpeed = 6;
constexpr double kRayLength = 160 / kBox2dScale;
constexpr double kInitialForce = 5;
constexpr double kLegDown = -8 / kBox2dScale;
constexpr double kLegWidth = 8 / kBox2dScale;
constexpr double kLegHeight = 34 / kBox2dScale;
constexpr double kGroundFriction = 2.5;
constexpr uint16_t kWalkerBits = 0x20;
constexpr uint16_t kGroundBits = 0x01;
constexpr Color kUpperHull = {127, 51, 229};
constexpr Color kHullEdge = {76, 76, 127};

double RayAngle(int ray) { return 1.5 * ray / 10.0; }

// The nearest piece of ground along a ray.
class NearestGround final : public b2RayCastCallback {
 public:
  float ReportFixture(b2Fixture* fixture, const b2Vec2&, const b2Vec2&, float fraction) override {
    if ((fixture->GetFilterData().categoryBits & kGroundBits) == 0) return -1;
    fraction_ = fraction;
    return fraction;
  }
  double fraction() const { return fraction_; }

 private:
  float fraction_ = 1;
};

enum class TerrainKind { kGrass, kStump, kStairs, kPit };

// A rectangle from (x, y), `width` to the right and `height` up, or down if it is negative.
std::array<Point, 4> Block(double x, double y, double width, double height) {
  return {{{x, y}, {x + width, y}, {x + width, y + height}, {x, y + height}}};
}

// Walks along the ground and keeps what the next corner depends on.
class TerrainBuilder {
 public:
  TerrainBuilder(bool hardcore, Rng* rng) : hardcore_(hardcore), rng_(*rng) {}

  WalkerTerrain Build() {
    for (int i = 0; i < kTerrainLength; ++i) {
      if (begins_ && kind_ != TerrainKind::kGrass) {
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
    kind_ = kind_ == TerrainKind::kGrass && hardcore_ ? static_cast<TerrainKind>(Draw(1, 4))
                                                      : TerrainKind::kGrass;
    begins_ = true;
  }

  void Begin(double x) {
    switch (kind_) {
      case TerrainKind::kGrass:
        break;
      case TerrainKind::kStump:
        left_ = Draw(1, 3);
        Add(x, y_, left_ * kTerrainStep, left_ * kTerrainStep);
        break;
      case TerrainKind::kStairs:
        rise_ = rng_.Uniform() > 0.5 ? 1 : -1;
        stairs_ = Draw(3, 5);
        before_ = y_;
        for (int s = 0; s < stairs_; ++s) {
          Add(x + s * kStairWidth * kTerrainStep, y_ + s * rise_ * kTerrainStep,
              kStairWidth * kTerrainStep, -kTerrainStep);
        }
        left_ = stairs_ * kStairWidth;
        break;
      case TerrainKind::kPit:
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
      case TerrainKind::kGrass: {
        const double below = kTerrainHeight - y_;
        slope_ = 0.8 * slope_ + 0.01 * ((below > 0) - (below < 0));
        if (corner > kTerrainStartPad) slope_ += rng_.Uniform(-1, 1) / kBox2dScale;
        y_ += slope_;
        break;
      }
      case TerrainKind::kStump:
        break;
      case TerrainKind::kStairs: {
        const double done = stairs_ * kStairWidth - left_ - rise_;
        y_ = before_ + done / kStairWidth * rise_ * kTerrainStep;
        break;
      }
      case TerrainKind::kPit:
        y_ = left_ > 1 ? before_ - 4 * kTerrainStep : before_;
        break;
    }
  }

  static constexpr int kStairWidth = 4;  // corners

  const bool hardcore_;
  Rng& rng_;
  WalkerTerrain terrain_;
  TerrainKind kind_ = TerrainKind::kGrass;
  bool begins_ = false;          // this corner is the first of its kind
  int left_ = kTerrainStartPad;  // corners of this kind
  double y_ = kTerrainHeight;
  double slope_ = 0;
  double before_ = 0;  // the height before the stairs or the pit
  int stairs_ = 0;
  int rise_ = 0;
};

WalkerTerrain TerrainOf(bool hardcore, uint64_t seed) {
  Rng rng(seed, "bipedal_walker/terrain");
  return MakeWalkerTerrain(hardcore, &rng);
}

}  // namespace

WalkerTerrain MakeWalkerTerrain(bool hardcore, Rng* rng) {
  return TerrainBuilder(hardcore, rng).Build();
}

BipedalWalkerGame::BipedalWalkerGame(const Options& options, uint64_t seed)
    : seed_(seed), terrain_(TerrainOf(options.hardcore, seed)), world_(b2Vec2(0, -10)) {
  world_.SetContactListener(&contacts_);
  CreateGround();
  Rng rng(seed, "bipedal_walker/start");
  CreateWalker(&rng);
  contacts_.WatchFatal(hull_);
  contacts_.Watch(0, parts_[1]);
  contacts_.Watch(1, parts_[3]);
  // The first observation is that after one step without torques.
  Step({0, 0, 0, 0});
}

void BipedalWalkerGame::CreateGround() {
  const b2BodyDef still;
  b2FixtureDef part;
  part.friction = static_cast<float>(kGroundFriction);
  part.filter.categoryBits = kGroundBits;
  for (const std::array<Point, 4>& obstacle : terrain_.obstacles) {
    b2Vec2 corners[4];
    for (size_t i = 0; i < 4; ++i) corners[i] = ToVec(obstacle[i].x, obstacle[i].y);
    b2PolygonShape polygon;
    polygon.Set(corners, 4);
    part.shape = &polygon;
    world_.CreateBody(&still)->CreateFixture(&part);
  }
  b2EdgeShape edge;
  part.shape = &edge;
  for (int i = 0; i + 1 < kTerrainLength; ++i) {
    const auto k = static_cast<size_t>(i);
    edge.SetTwoSided(ToVec(i * kTerrainStep, terrain_.heights[k]),
                     ToVec((i + 1) * kTerrainStep, terrain_.heights[k + 1]));
    world_.CreateBody(&still)->CreateFixture(&part);
  }
}

b2RevoluteJoint* BipedalWalkerGame::Join(b2Body* upper, b2Body* lower, b2Vec2 at, double speed,
                                         double low, double high) {
  b2RevoluteJointDef joint;
  joint.bodyA = upper;
  joint.bodyB = lower;
  joint.localAnchorA = at;
  joint.localAnchorB = ToVec(0, kLegHeight / 2);
  joint.enableMotor = joint.enableLimit = true;
  joint.maxMotorTorque = static_cast<float>(kTorque);
  joint.motorSpeed = static_cast<float>(speed);
  joint.lowerAngle = static_cast<float>(low);
  joint.upperAngle = static_cast<float>(high);
  return static_cast<b2RevoluteJoint*>(world_.CreateJoint(&joint));
}

void BipedalWalkerGame::CreateWalker(Rng* rng) {
  const double x = kTerrainStep * kTerrainStartPad / 2;
  const double y = kTerrainHeight + 2 * kLegHeight;
  const std::array<Point, 5> outline = {{{-30, 9}, {6, 9}, {34, 1}, {34, -8}, {-30, -8}}};
  const b2PolygonShape polygon = ScaledPolygon(outline);
  hull_ = CreateMoving(&world_, x, y, 0, {&polygon, 5, 0.1, kWalkerBits, kGroundBits});
  hull_->ApplyForceToCenter(ToVec(rng->Uniform(-kInitialForce, kInitialForce), 0), true);
  for (int leg = 0; leg < 2; ++leg) {
    const int side = leg == 0 ? -1 : 1;
    const auto k = static_cast<size_t>(2 * leg);
    b2PolygonShape box;
    box.SetAsBox(static_cast<float>(kLegWidth / 2), static_cast<float>(kLegHeight / 2));
    parts_[k] = CreateMoving(&world_, x, y - kLegHeight / 2 - kLegDown, side * 0.05,
                             {&box, 1, kBox2dDefaultFriction, kWalkerBits, kGroundBits});
    joints_[k] = Join(hull_, parts_[k], ToVec(0, kLegDown), side, -0.8, 1.1);
    box.SetAsBox(static_cast<float>(0.8 * kLegWidth / 2), static_cast<float>(kLegHeight / 2));
    parts_[k + 1] = CreateMoving(&world_, x, y - kLegHeight * 3 / 2 - kLegDown, side * 0.05,
                                 {&box, 1, kBox2dDefaultFriction, kWalkerBits, kGroundBits});
    joints_[k + 1] = Join(parts_[k], parts_[k + 1], ToVec(0, -kLegHeight / 2), 1, -1.6, -0.1);
  }
}

BipedalWalkerGame::State BipedalWalkerGame::NewState() const {
  const b2Vec2 position = hull_->GetPosition();
  const b2Vec2 velocity = hull_->GetLinearVelocity();
  State s{};
  s[0] = hull_->GetAngle();
  s[1] = 2.0 * hull_->GetAngularVelocity() / kBox2dStepsPerSecond;
  s[2] = 0.3 * velocity.x * kBox2dWidth / kBox2dStepsPerSecond;
  s[3] = 0.3 * velocity.y * kBox2dHeight / kBox2dStepsPerSecond;
  for (size_t leg = 0; leg < 2; ++leg) {
    double* const of_leg = s.data() + 4 + 5 * leg;
    of_leg[0] = joints_[2 * leg]->GetJointAngle();
    of_leg[1] = joints_[2 * leg]->GetJointSpeed() / kHipSpeed;
    of_leg[2] = joints_[2 * leg + 1]->GetJointAngle() + 1.0;
    of_leg[3] = joints_[2 * leg + 1]->GetJointSpeed() / kKneeSpeed;
    of_leg[4] = contacts_.touches(static_cast<int>(leg)) ? 1 : 0;
  }
  for (int ray = 0; ray < kRays; ++ray) {
    NearestGround nearest;
    world_.RayCast(&nearest, position,
                   ToVec(position.x + std::sin(RayAngle(ray)) * kRayLength,
                         position.y - std::cos(RayAngle(ray)) * kRayLength));
    s[static_cast<size_t>(14 + ray)] = nearest.fraction();
  }
  return s;
}

ClassicOutcome BipedalWalkerGame::Step(absl::Span<const float> action) {
  double effort = 0;
  for (size_t i = 0; i < joints_.size(); ++i) {
    const double torque = std::min(std::abs(static_cast<double>(action[i])), 1.0);
    const double speed = i % 2 == 0 ? kHipSpeed : kKneeSpeed;
    joints_[i]->SetMotorSpeed(static_cast<float>(speed * ((action[i] > 0) - (action[i] < 0))));
    joints_[i]->SetMaxMotorTorque(static_cast<float>(kTorque * torque));
    effort += torque;
  }
  StepBox2d(&world_);
  state_ = NewState();
  const double x = hull_->GetPosition().x;
  const double shaping = 130 * x / kBox2dScale - 5.0 * std::abs(state_[0]);
  double reward = has_shaping_ ? shaping - shaping_ : 0;
  has_shaping_ = true;
  shaping_ = shaping;
  reward -= 0.00035 * kTorque * effort;
  const bool failed = contacts_.crashed() || x < 0;
  return {failed ? -100 : reward, failed || x > (kTerrainLength - kTerrainGrass) * kTerrainStep};
}

void BipedalWalkerGame::Observe(absl::Span<float> obs) const {
  std::transform(state_.begin(), state_.end(), obs.begin(),
                 [](double value) { return static_cast<float>(value); });
}

void BipedalWalkerGame::DrawScenery(double scroll, Canvas* canvas) const {
  constexpr Color kSky = {215, 215, 255};
  constexpr Color kCloud = {255, 255, 255};
  constexpr Color kEarth = {102, 153, 76};
  canvas->Polygon({{Pixels(0, 0), Pixels(kBox2dWidth, 0), Pixels(kBox2dWidth, kBox2dHeight),
                    Pixels(0, kBox2dHeight)}},
                  kSky);
  // Clouds are far away: they move at half the speed.
  Rng rng(seed_, "bipedal_walker/clouds");
  for (int cloud = 0; cloud < kTerrainLength / 20; ++cloud) {
    const double x = rng.Uniform(0, kTerrainLength) * kTerrainStep - scroll / 2;
    std::array<Point, 5> corners;
    for (int i = 0; i < 5; ++i) {
      const double angle = 3.14 * 2 * i / 5;
      const double dx = 15 * kTerrainStep * std::sin(angle) + rng.Uniform(0, 5 * kTerrainStep);
      const double dy = 5 * kTerrainStep * std::cos(angle) + rng.Uniform(0, 5 * kTerrainStep);
      corners[static_cast<size_t>(i)] = Pixels(x + dx, kBox2dHeight * 3 / 4 + dy);
    }
    canvas->Polygon(corners, kCloud);
  }
  for (int i = 0; i + 1 < kTerrainLength; ++i) {
    const auto k = static_cast<size_t>(i);
    const double left = i * kTerrainStep - scroll;
    // A pixel wider, so that no sky shows between two pieces.
    const double right = left + kTerrainStep + 1 / kBox2dScale;
    if (right < 0 || left > kBox2dWidth) continue;
    const Point from = Pixels(left, terrain_.heights[k]);
    const Point to = Pixels(right, terrain_.heights[k + 1]);
    canvas->Polygon({{from, to, Pixels(right, 0), Pixels(left, 0)}}, kEarth);
    canvas->Line(from, to, 2, {76, static_cast<uint8_t>(i % 2 == 0 ? 255 : 204), 76});
  }
  for (const std::array<Point, 4>& obstacle : terrain_.obstacles) {
    std::array<Point, 4> corners;
    for (size_t i = 0; i < 4; ++i) corners[i] = Pixels(obstacle[i].x - scroll, obstacle[i].y);
    canvas->Polygon(corners, {255, 255, 255});
    for (size_t i = 0; i < 4; ++i) {
      canvas->Line(corners[i], corners[(i + 1) % 4], 1, {153, 153, 153});
    }
  }
}

Image BipedalWalkerGame::Draw() const {
  const b2Vec2 position = hull_->GetPosition();
  const double scroll = position.x - kBox2dWidth / 5;
  Canvas canvas(kBox2dPictureWidth, kBox2dPictureHeight);
  DrawScenery(scroll, &canvas);
  for (int ray = 0; ray < kRays; ++ray) {
    const double length = kRayLength * state_[static_cast<size_t>(14 + ray)];
    canvas.Line(Pixels(position.x - scroll, position.y),
                Pixels(position.x - scroll + std::sin(RayAngle(ray)) * length,
                       position.y - std::cos(RayAngle(ray)) * length),
                0.5, {255, 0, 0});
  }
  for (int i = 0; i < 4; ++i) {
    const int darker = i < 2 ? -25 : 25;
    const auto shade = [darker](int value) { return static_cast<uint8_t>(value - darker); };
    DrawBody(*parts_[static_cast<size_t>(i)], scroll, {shade(153), shade(76), shade(127)},
             {shade(102), shade(51), shade(76)}, &canvas);
  }
  DrawBody(*hull_, scroll, kUpperHull, kHullEdge, &canvas);
  const Point foot = Pixels(kTerrainStep * 3 - scroll, kTerrainHeight);
  const Point top = {foot.x, foot.y + 50};
  canvas.Line(foot, top, 1, kBlack);
  canvas.Polygon({{top, {top.x, top.y - 10}, {top.x + 25, top.y - 5}}}, {230, 51, 0});
  return std::move(canvas).image();
}

absl::StatusOr<std::unique_ptr<Env>> CreateBipedalWalker(bool hardcore) {
  EnvSpec spec;
  spec.name = hardcore ? "BipedalWalkerHardcore-v3" : "BipedalWalker-v3";
  // Without bounds: Gymnasium declares some, but a joint that hits the ground leaves them.
  DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({Box("obs", {BipedalWalkerGame::kObsSize})}));
  DING_ASSIGN_OR_RETURN(spec.action,
                        MakeSpec({Box("action", {BipedalWalkerGame::kActionSize}, {-1}, {1})}));
  spec.max_episode_steps = hardcore ? 2000 : 1600;
  return std::make_unique<Box2dEnv<BipedalWalkerGame>>(std::move(spec),
                                                       BipedalWalkerGame::Options{hardcore});
}

}  // namespace ding
