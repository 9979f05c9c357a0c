#include "ding_worker/env/box2d/lunar_lander.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/box2d/box2d_env.h"
#include "ding_worker/env/box2d/world.h"
#include "ding_worker/env/classic_control/raster.h"

namespace ding {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kMainPower = 13;
constexpr double kSidePower = 0.6;
constexpr double kInitialForce = 1000;
constexpr double kLegAway = 20 / kBox2dScale;
constexpr double kLegDown = 18 / kBox2dScale;
constexpr double kSpringTorque = 40;
constexpr double kMainEngineY = 4 / kBox2dScale;
constexpr double kSideEngineAway = 12 / kBox2dScale;
constexpr double kSideEngineHeight = 14 / kBox2dScale;
// Gymnasium has 17 here and the height of the engine, 14, in the other coordinate.
constexpr double kSideEngineX = 17 / kBox2dScale;
constexpr double kFlagHeight = 50;  // pixels

// Blows for ever without a period. Wind and turbulence have an index each.
double Gust(int64_t index) {
  const auto k = static_cast<double>(index);
  return std::tanh(std::sin(0.02 * k) + std::sin(kPi * 0.01 * k));
}

double Corner(int chunk) { return kBox2dWidth / (LunarLanderGame::kChunks - 1) * chunk; }

constexpr uint16_t kLanderBits = 0x10;
constexpr uint16_t kLegBits = 0x20;
constexpr uint16_t kGroundBits = 0x01;

absl::StatusOr<EnvSpec> LanderSpec(absl::string_view name, const LunarLanderOptions& options,
                                   FieldSpec action) {
  const auto refuse = [name](absl::string_view field, double found, absl::string_view expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("env '", name, "': ", field, " is ", found, ", expected ", expected));
  };
  if (!(options.gravity > -12 && options.gravity < 0)) {
    return refuse("gravity", options.gravity, "a value above -12 and below 0");
  }
  if (!(options.wind_power >= 0 && options.wind_power <= 20)) {
    return refuse("wind_power", options.wind_power, "0 to 20");
  }
  if (!(options.turbulence_power >= 0 && options.turbulence_power <= 2)) {
    return refuse("turbulence_power", options.turbulence_power, "0 to 2");
  }
  EnvSpec spec;
  spec.name = std::string(name);
  // Without bounds: Gymnasium declares some, but a fast lander leaves them.
  DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({Box("obs", {LunarLanderGame::kObsSize})}));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({std::move(action)}));
  spec.max_episode_steps = 1000;
  return spec;
}

}  // namespace

LunarLanderGame::LunarLanderGame(const Options& options, uint64_t seed)
    : options_(options),
      rng_(seed, "lunar_lander"),
      world_(b2Vec2(0, static_cast<float>(options.gravity))) {
  world_.SetContactListener(&contacts_);
  CreateGround();
  CreateLander();
  contacts_.WatchFatal(lander_);
  for (int i = 0; i < 2; ++i) contacts_.Watch(i, legs_[static_cast<size_t>(i)]);
  // The first observation is that after one step without engines.
  Step(Engines());
}

void LunarLanderGame::CreateGround() {
  std::array<double, kChunks + 1> height;
  for (double& h : height) h = rng_.Uniform(0, kBox2dHeight / 2);
  for (int i = kChunks / 2 - 2; i <= kChunks / 2 + 2; ++i) height[static_cast<size_t>(i)] = kPadY;
  for (size_t i = 0; i < kChunks; ++i) {
    // Before the first corner stands the last height, as in Python.
    const double before = i == 0 ? height[kChunks] : height[i - 1];
    ground_[i] = 0.33 * (before + height[i] + height[i + 1]);
  }
  const b2BodyDef still;
  b2Body* const moon = world_.CreateBody(&still);
  b2EdgeShape edge;
  edge.SetTwoSided(b2Vec2(0, 0), ToVec(kBox2dWidth, 0));
  moon->CreateFixture(&edge, 0);
  for (int i = 0; i + 1 < kChunks; ++i) {
    const auto k = static_cast<size_t>(i);
    edge.SetTwoSided(ToVec(Corner(i), ground_[k]), ToVec(Corner(i + 1), ground_[k + 1]));
    b2FixtureDef part;
    part.shape = &edge;
    part.friction = 0.1f;
    moon->CreateFixture(&part);
  }
}

void LunarLanderGame::CreateLander() {
  const double x = kBox2dWidth / 2;
  const double y = kBox2dHeight;
  const std::array<Point, 6> outline = {
      {{-14, 17}, {-17, 0}, {-17, -10}, {17, -10}, {17, 0}, {14, 17}}};
  const b2PolygonShape hull = ScaledPolygon(outline);
  lander_ = CreateMoving(&world_, x, y, 0, {&hull, 5, 0.1, kLanderBits, kGroundBits});
  const double force_x = rng_.Uniform(-kInitialForce, kInitialForce);
  const double force_y = rng_.Uniform(-kInitialForce, kInitialForce);
  lander_->ApplyForceToCenter(ToVec(force_x, force_y), true);
  if (options_.enable_wind) {
    wind_index_ = static_cast<int64_t>(rng_.UniformInt(2 * 9999)) - 9999;
    torque_index_ = static_cast<int64_t>(rng_.UniformInt(2 * 9999)) - 9999;
  }
  for (int i = 0; i < 2; ++i) {
    const int side = i == 0 ? -1 : 1;
    b2PolygonShape box;
    box.SetAsBox(static_cast<float>(2 / kBox2dScale), static_cast<float>(8 / kBox2dScale));
    b2Body* const leg = CreateMoving(&world_, x - side * kLegAway, y, side * 0.05,
                                     {&box, 1, kBox2dDefaultFriction, kLegBits, kGroundBits});
    b2RevoluteJointDef joint;
    joint.bodyA = lander_;
    joint.bodyB = leg;
    joint.localAnchorB = ToVec(side * kLegAway, kLegDown);
    joint.enableMotor = joint.enableLimit = true;
    joint.maxMotorTorque = static_cast<float>(kSpringTorque);
    joint.motorSpeed = static_cast<float>(0.3 * side);
    joint.lowerAngle = static_cast<float>(i == 0 ? 0.9 - 0.5 : -0.9);
    joint.upperAngle = static_cast<float>(i == 0 ? 0.9 : -0.9 + 0.5);
    world_.CreateJoint(&joint);
    legs_[static_cast<size_t>(i)] = leg;
  }
}

void LunarLanderGame::BlowWind() {
  if (!options_.enable_wind || contacts_.touches(0) || contacts_.touches(1)) return;
  lander_->ApplyForceToCenter(ToVec(Gust(wind_index_++) * options_.wind_power, 0), true);
  lander_->ApplyTorque(static_cast<float>(Gust(torque_index_++) * options_.turbulence_power), true);
}

void LunarLanderGame::Fire(const Engines& engines) {
  const double sine = std::sin(static_cast<double>(lander_->GetAngle()));
  const double cosine = std::cos(static_cast<double>(lander_->GetAngle()));
  for (double& number : dispersion_) number = rng_.Uniform(-1, 1) / kBox2dScale;
  const auto push = [this](double x, double y, double power, double at_x, double at_y) {
    const b2Vec2 position = lander_->GetPosition();
    lander_->ApplyLinearImpulse(ToVec(-x * power, -y * power),
                                ToVec(position.x + at_x, position.y + at_y), true);
  };
  if (engines.main > 0) {
    const double down = kMainEngineY + 2 * dispersion_[0];
    const double x = sine * down - cosine * dispersion_[1];
    const double y = -cosine * down - sine * dispersion_[1];
    push(x, y, kMainPower * engines.main, x, y);
  }
  if (engines.side > 0) {
    const double across = 3 * dispersion_[1] + engines.direction * kSideEngineAway;
    const double x = sine * dispersion_[0] - cosine * across;
    const double y = -cosine * dispersion_[0] - sine * across;
    push(x, y, kSidePower * engines.side, x - sine * kSideEngineX, y + cosine * kSideEngineHeight);
  }
}

LunarLanderGame::State LunarLanderGame::NewState() const {
  const b2Vec2 position = lander_->GetPosition();
  const b2Vec2 velocity = lander_->GetLinearVelocity();
  return {(position.x - kBox2dWidth / 2) / (kBox2dWidth / 2),
          (position.y - (kPadY + kLegDown)) / (kBox2dHeight / 2),
          velocity.x * (kBox2dWidth / 2) / kBox2dStepsPerSecond,
          velocity.y * (kBox2dHeight / 2) / kBox2dStepsPerSecond,
          lander_->GetAngle(),
          20.0 * lander_->GetAngularVelocity() / kBox2dStepsPerSecond,
          contacts_.touches(0) ? 1.0 : 0.0,
          contacts_.touches(1) ? 1.0 : 0.0};
}

ClassicOutcome LunarLanderGame::Step(const Engines& engines) {
  engines_ = engines;
  BlowWind();
  Fire(engines);
  StepBox2d(&world_);
  const State s = NewState();
  const double shaping = -100 * std::sqrt(s[0] * s[0] + s[1] * s[1]) -
                         100 * std::sqrt(s[2] * s[2] + s[3] * s[3]) - 100 * std::abs(s[4]) +
                         10 * s[6] + 10 * s[7];
  double reward = has_shaping_ ? shaping - shaping_ : 0;
  has_shaping_ = true;
  shaping_ = shaping;
  reward -= 0.30 * engines.main + 0.03 * engines.side;
  if (!lander_->IsAwake()) return {100, true};
  if (contacts_.crashed() || std::abs(s[0]) >= 1) return {-100, true};
  return {reward, false};
}

void LunarLanderGame::Observe(absl::Span<float> obs) const {
  const State state = NewState();
  std::transform(state.begin(), state.end(), obs.begin(),
                 [](double value) { return static_cast<float>(value); });
}

Image LunarLanderGame::Draw() const {
  constexpr Color kBody = {128, 102, 230};
  constexpr Color kEdge = {77, 77, 128};
  constexpr Color kFlame = {230, 120, 40};
  constexpr Color kFlag = {204, 204, 0};
  constexpr Color kWhite = {255, 255, 255};
  Canvas canvas(kBox2dPictureWidth, kBox2dPictureHeight);
  for (int i = 0; i + 1 < kChunks; ++i) {
    const auto k = static_cast<size_t>(i);
    const Point sky[] = {Pixels(Corner(i), ground_[k]), Pixels(Corner(i + 1), ground_[k + 1]),
                         Pixels(Corner(i + 1), kBox2dHeight), Pixels(Corner(i), kBox2dHeight)};
    canvas.Polygon(sky, kBlack);
  }
  const auto flame = [&](double x, double y, double dx, double dy, double power) {
    for (int i = 1; i <= 3; ++i) {
      const b2Vec2 at = lander_->GetWorldPoint(ToVec(x + i * dx, y + i * dy));
      canvas.Circle(Pixels(at.x, at.y), power * (6 - i), kFlame);
    }
  };
  if (engines_.main > 0) flame(0, -10 / kBox2dScale, 0, -0.2, engines_.main);
  if (engines_.side > 0) {
    const double side = -engines_.direction;
    flame(side * 17 / kBox2dScale, 10 / kBox2dScale, side * 0.12, 0, 0.7 * engines_.side);
  }
  DrawBody(*lander_, 0, kBody, kEdge, &canvas);
  for (const b2Body* leg : legs_) DrawBody(*leg, 0, kBody, kEdge, &canvas);
  for (const int chunk : {kChunks / 2 - 1, kChunks / 2 + 1}) {
    const Point foot = Pixels(Corner(chunk), kPadY);
    const Point top = {foot.x, foot.y + kFlagHeight};
    canvas.Line(foot, top, 1, kWhite);
    canvas.Polygon({{top, {top.x, top.y - 10}, {top.x + 25, top.y - 5}}}, kFlag);
  }
  return std::move(canvas).image();
}

LunarLanderGame::Engines DiscreteLunarLander::EnginesOf(int64_t action) {
  Engines engines;
  if (action == 2) engines.main = 1;
  if (action == 1 || action == 3) {
    engines.side = 1;
    engines.direction = static_cast<double>(action - 2);
  }
  return engines;
}

LunarLanderGame::Engines ContinuousLunarLander::EnginesOf(float main, float side) {
  Engines engines;
  if (main > 0) engines.main = (std::min<double>(main, 1) + 1) * 0.5;
  if (std::abs(side) > 0.5) {
    engines.side = std::min<double>(std::abs(side), 1);
    engines.direction = side > 0 ? 1 : -1;
  }
  return engines;
}

absl::StatusOr<std::unique_ptr<Env>> CreateLunarLander(const LunarLanderOptions& options) {
  DING_ASSIGN_OR_RETURN(EnvSpec spec, LanderSpec("LunarLander-v3", options, Discrete("action", 4)));
  return std::make_unique<Box2dEnv<DiscreteLunarLander>>(std::move(spec), options);
}

absl::StatusOr<std::unique_ptr<Env>> CreateLunarLanderContinuous(
    const LunarLanderOptions& options) {
  DING_ASSIGN_OR_RETURN(
      EnvSpec spec, LanderSpec("LunarLanderContinuous-v3", options, Box("action", {2}, {-1}, {1})));
  return std::make_unique<Box2dEnv<ContinuousLunarLander>>(std::move(spec), options);
}

}  // namespace ding
